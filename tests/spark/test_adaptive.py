"""Adaptive on Spark goes over to Filter-Order under load and back when it has gone, and the answers stay the same."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.plan.orderings import Monitor, adaptive
from muntin.spark.control import watch
from muntin.spark.run import Job
from muntin.sql import parse_job

pytestmark = pytest.mark.spark

ALPHA, STAY_S, SPAN_S, BEHIND_S = 0.004, 4.0, 3.0, 5
"""Of the test: what a load is here, for how long a join stays with an ordering, how far back it looks."""
QUERIES = {"near": 2, "far": 60}


class Streams:
    """Two streams in one second of event time after the other, all rows with one key; B is behind."""

    def __init__(self, lab: Any):
        self.lab, self.second, self.rows, self.rng = lab, 0, 0, np.random.default_rng(14)

    def come(self, rows: int) -> None:
        for stream, behind in (("A", 0), ("B", BEHIND_S)):
            ts = 1_700_000_000 + self.second - behind + np.sort(self.rng.random(rows))
            times = pa.array((ts * 1e6).astype("int64"), pa.timestamp("us", "UTC"))
            table = {"ts": times, "id": np.arange(rows), "k": np.zeros(rows, np.int64), "v": self.rng.random(rows)}
            aside = self.lab.folder(stream) / f"_{self.second}.parquet"
            pq.write_table(pa.table(table), aside)
            os.rename(aside, self.lab.folder(stream) / f"{self.second:04d}.parquet")
        self.second += 1
        self.rows += rows

    def wanted(self) -> dict[str, int]:
        base = duckdb.connect()
        tables = [f"read_parquet('{self.lab.folder(s)}/*.parquet') {s}" for s in "AB"]
        counts = ", ".join(f"count(*) FILTER (abs(epoch_us(A.ts) - epoch_us(B.ts)) < {w * 1_000_000})"
                           for w in QUERIES.values())  # fmt: skip
        (found,) = base.execute(f"SELECT {counts} FROM {tables[0]}, {tables[1]} WHERE A.v + B.v > 1.97").fetchall()
        return dict(zip(QUERIES, found, strict=True))


def job(lab: Any) -> Any:
    queries = "".join(
        f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v + B.v > 1.97 "
        f"WINDOW {window} s;"
        for name, window in QUERIES.items()
    )
    lab.per_trigger = 4
    lab.settings = f"SET ordering = 'adaptive'; SET alpha = {ALPHA}; SET max_ahead = '1 hour';\n"
    return Job(lab.spark, parse_job(lab.sql({}) + queries))


def follow(run: Any, streams: Streams, ordering: str, rows: int, pause_s: float, until: int) -> list[Any]:
    """Let rows come when all before them are read, until the status shows so many switches and the last in force."""
    for _ in range(300):
        streams.come(rows)
        time.sleep(pause_s)
        while (status := run.status())["sources"].get("B", {}).get("total_rows", 0) < streams.rows:
            assert not run.await_termination(0.1)
        if len(status["switches"]) >= until and status["joins"][0]["ordering"]["in_force"].endswith(ordering):
            return list(status["switches"])
    raise AssertionError(f"never {ordering}: {status['joins'][0]['ordering']}, {status['switches']}")


def test_adaptive_switches_in_both_directions_stays_for_a_while_and_says_why(lab: Any):
    looks = mock.patch.object(watch, "Monitor", partial(Monitor, span_s=SPAN_S))
    with looks, mock.patch.object(adaptive, "LEAST_S", STAY_S):
        streams, began = Streams(lab), time.monotonic()
        run = job(lab).start(output=lab.output, checkpoint=lab.checkpoint)
        try:
            follow(run, streams, "filter-order", 1500, 0.0, 1)
            assert run.status()["joins"][0]["ordering"]["decision"]["load"] > 0
            switches = follow(run, streams, "sync-filter", 2, 2.0, 2)
            took = time.monotonic() - began
        finally:
            run.stop()
    assert [s["ordering"] for s in switches[:2]] == ["filter-order", "sync-filter"]
    assert "is not below alpha" in switches[0]["reason"] and "joining ahead answers" in switches[0]["reason"]
    assert (
        "is below 75% of alpha" in switches[1]["reason"] and switches[1]["load"] < 0.75 * ALPHA <= switches[0]["load"]
    )
    assert switches[0]["batch"] < switches[1]["batch"]
    assert len(switches) <= 1 + took / max(STAY_S, BEHIND_S), "at most one in the time that catching up takes"
    status = finish(lab)
    assert {name: query["total_rows"] for name, query in status["queries"].items()} == streams.wanted()
    assert status["dead_letters"] == {} and status["joins"][0]["held_pairs"] == 0


def finish(lab: Any) -> Any:
    run = job(lab).start(output=lab.output, checkpoint=lab.checkpoint, mode="bounded")
    run.await_termination()
    return run.status()
