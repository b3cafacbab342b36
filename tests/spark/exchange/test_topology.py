"""What goes to the workers with every task."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest

from muntin.bench.workload import WORKLOADS, selections, uniform
from muntin.core.policy import Policy
from muntin.model import MuntinError
from muntin.plan import make_plan
from muntin.spark.exchange.address import Address
from muntin.spark.exchange.build import BUILD, digest_of
from muntin.spark.exchange.topology import Topology
from muntin.spark.processor import JoinProcessor
from muntin.sql import parse_job

BROADCAST = 1 << 20
"""Above this size PySpark sends a function in a way that a stateful operator's first process does not understand."""


def topology(queries: int) -> Topology:
    load = replace(WORKLOADS["selective"], questions=selections(uniform(queries)))
    spec = parse_job(load.job_sql(Path("files"), "parquet"))
    return Topology(make_plan(spec), 2, True, "id", Policy.of(spec.settings, 2))


@pytest.mark.slow
def test_a_thousand_queries_are_far_from_what_spark_refuses():
    assert len(pickle.dumps(JoinProcessor(topology(1_000).packed))) < BROADCAST / 8


def test_a_worker_unpacks_it_once():
    made = topology(3)
    first, second = (pickle.loads(pickle.dumps(made)) for _ in range(2))
    assert first == made
    assert first is second
    assert pickle.loads(pickle.dumps(replace(made, shards=3))).shards == 3


def test_an_executor_with_another_build_is_refused_by_name(monkeypatch):
    """The driver's build goes with the topology, and is looked at before anything else is unpacked."""
    monkeypatch.setattr("muntin.spark.exchange.topology.BUILD", "0.0.9 (sources 00000000)")
    assert pickle.loads(pickle.dumps(topology(3))), "who changes sources under a job of this very place may do so"
    monkeypatch.setattr("muntin.spark.exchange.topology.PLACE", "elsewhere:muntin")
    packed = pickle.dumps(topology(3))
    with pytest.raises(MuntinError, match=rf"{re.escape(BUILD)}, the driver has 0\.0\.9 \(sources 00000000\)") as said:
        pickle.loads(packed)
    assert "muntin package" in str(said.value.hint)


def test_a_build_is_known_by_names_and_contents_of_all_sources(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "one.py").write_text("1")
    seen = {digest_of(tmp_path)}
    (tmp_path / "room" / "one.py").write_text("2")
    seen.add(digest_of(tmp_path))
    (tmp_path / "room" / "one.py").rename(tmp_path / "room" / "two.py")
    seen.add(digest_of(tmp_path))
    assert len(seen) == 3


def test_results_that_shards_count_or_deliver_are_nothing_for_tasks_of_the_sink():
    made = topology(3)
    assert made.results_go_to_tasks
    assert not replace(made, counting=True).results_go_to_tasks
    assert not replace(made, hub=Address("localhost", 1, "token")).results_go_to_tasks
