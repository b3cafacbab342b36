"""What the tasks of a micro-batch are told beyond what they were made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext

from muntin.bench.workload import WORKLOADS, selections, uniform
from muntin.core.arrivals import StreamsReached
from muntin.model import MuntinError
from muntin.plan import make_plan
from muntin.spark.checkpoint import Epoch
from muntin.spark.exchange import Briefing, Topology, briefing
from muntin.spark.exchange.briefing import PROPERTY
from muntin.sql import parse_job


class Driver:
    """Stands in for the Spark context, and runs something as its task."""

    def __init__(self) -> None:
        self.sparkContext, self.properties = self, dict[str, str]()

    def setLocalProperty(self, name: str, value: str) -> None:
        self.properties[name] = value

    def run(self, task: Any) -> Any:
        context = TaskContext._getOrCreate()
        context._localProperties = dict(self.properties)
        try:
            return task()
        finally:
            TaskContext._taskContext = None


def plan(queries: int) -> Any:
    load = replace(WORKLOADS["selective"], questions=selections(uniform(queries)))
    return make_plan(parse_job(load.job_sql(Path("files"), "parquet")))


def test_a_task_knows_the_plans_it_was_made_with_and_those_it_was_told_of_and_no_others():
    old, new, driver = Epoch(1, plan(2)), Epoch(2, plan(3)), Driver()
    topology = Topology(plan(1), 2, True, "id", epochs=(old,))
    assert driver.run(topology.latest) == topology.latest() == 1
    reached = (StreamsReached(["A", "B"], [7, 8], [3, None]),)
    Briefing((new,), reached).give(driver)  # type: ignore[arg-type]
    assert driver.run(topology.latest) == 2
    assert driver.run(lambda: [topology.epoch(n).plan for n in range(3)]) == [topology.plan, old.plan, new.plan]
    assert driver.run(briefing) == Briefing((new,), reached)
    with pytest.raises(MuntinError, match=r"not told of plan 3, only of \[1, 2\]"):
        driver.run(lambda: topology.epoch(3))
    with pytest.raises(MuntinError, match="not told of plan 2"):
        topology.epoch(2)  # no task: the driver has its log
    Briefing().give(driver)  # type: ignore[arg-type]
    assert driver.run(topology.latest) == 1


def test_a_worker_unpacks_a_briefing_once():
    driver = Driver()
    Briefing((Epoch(1, plan(2)),)).give(driver)  # type: ignore[arg-type]
    assert driver.run(briefing) is driver.run(briefing)


@pytest.mark.slow
def test_a_thousand_queries_fit_into_a_property_of_each_task():
    said = SimpleNamespace()
    said.sparkContext = SimpleNamespace(setLocalProperty=lambda name, value: setattr(said, "text", (name, value)))
    Briefing((Epoch(1, plan(1_000)), Epoch(2, plan(1_000)))).give(said)
    assert said.text[0] == PROPERTY and len(said.text[1]) < 1 << 19
