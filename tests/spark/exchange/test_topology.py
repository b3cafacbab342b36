"""What goes to the workers with every task."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from muntin.bench.workload import WORKLOADS, selections, uniform
from muntin.core.policy import Policy
from muntin.plan import make_plan
from muntin.spark.exchange.topology import Topology
from muntin.spark.shard.processor import JoinProcessor
from muntin.sql import parse_job

BROADCAST = 1 << 20
"""Above this size PySpark sends a function in a way that a stateful operator's first process does not understand."""


def topology(queries: int) -> Topology:
    load = replace(WORKLOADS["selective"], questions=selections(uniform(queries)))
    spec = parse_job(load.job_sql(Path("files"), "parquet"))
    return Topology(make_plan(spec), 2, True, "id", Policy.of(spec.settings, 2))


@pytest.mark.slow
def test_a_thousand_queries_are_far_from_what_spark_refuses():
    assert len(pickle.dumps(JoinProcessor(topology(1_000)))) < BROADCAST / 8


def test_a_worker_unpacks_it_once():
    made = topology(3)
    first, second = (pickle.loads(pickle.dumps(made)) for _ in range(2))
    assert first == made
    assert first is second
    assert pickle.loads(pickle.dumps(replace(made, shards=3))).shards == 3
