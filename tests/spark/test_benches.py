"""The benches that need Spark run on the session of the tests, with so little data that their figures mean nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muntin.bench import changes, latency, orderings, outer, peer_latency, promises, schedule, sharing, sources, streams
from muntin.bench.feed import Feed
from muntin.bench.peers import Heard
from muntin.bench.workload import plain
from muntin.cli.bench import NEED_SPARK

pytestmark = [pytest.mark.spark, pytest.mark.bench]

LOAD = replace(outer.LOAD, batch_rows=500_000, questions=plain((100_000,)))
SMALLEST: dict[str, dict[tuple[Any, str], Any]] = {
    "changes": {(changes, "QUICK"): (12, 1, 1), (changes, "RATE"): 50, (changes, "KEYS"): 50},
    "orderings": {(orderings, "QUICK"): orderings.LaggedSize(100, 2), (orderings, "ROUNDS"): 1},
    "outer": {(outer, "QUICK_ROWS"): 2_000, (outer, "LOAD"): LOAD, (outer, "ROUNDS"): 1},
    "promises": {(promises, "QUICK"): replace(promises.QUICK, rate=20, duration_s=30)},
    "schedule": {
        (schedule, "QUICK"): schedule.BurstSize(100, 2, selective=2_000),
        (schedule, "MOST"): 2,
        (schedule, "SELECTIVE_ROUNDS"): 1,
    },
    "sources": {(sources, "QUICK_ROWS"): 2_000, (sources, "LOAD"): LOAD, (sources, "ROUNDS"): 1},
    "streams": {(streams, "QUICK_ROWS"): 3_000, (streams, "TURNS"): {"twelve": (streams.OURS, "memory")}},
}
"""For each bench, what makes it small."""


def test_every_bench_that_needs_spark_is_here():
    assert set(SMALLEST) == set(NEED_SPARK)


@pytest.mark.parametrize("name", SMALLEST)
def test_a_bench_runs_from_the_command_line_to_its_figures(muntin: Any, monkeypatch: pytest.MonkeyPatch, name: str):
    for (module, constant), value in SMALLEST[name].items():
        monkeypatch.setattr(module, constant, value)
    code, out, err = muntin("bench", name, "--quick")
    assert code == 0, err
    assert len(out.splitlines()) >= 3 and any(c.isdigit() for c in out)
    assert "measuring: " in err


def test_sharing_is_measured_on_spark_too(spark: Any, monkeypatch: pytest.MonkeyPatch):
    small = {"RATE": 4, "KEYS": 2_400, "LARGEST_S": 100, "FIVE_HUNDRED": sharing.queries(10, 5)}
    for constant, value in small.items():
        monkeypatch.setattr(sharing, constant, value)
    figures = sharing.on_spark(spark, quick=True)
    assert figures["five_hundred"]["rows_out"] > figures["one"]["rows_out"] > 0


FEED = Feed((200, 400), start_s=1, settle_s=0.5, counted_s=1, windows_ms=(200, 1_000))


@pytest.mark.parametrize("kind", ["batch", "eager", "spark"])
def test_every_contender_on_spark_hands_over_all_rows_that_it_is_fed(spark: Any, tmp_path: Path, kind: str):
    def run(folder: Path, limit_s: float) -> Heard:
        own = partial(peer_latency.ours, delivery=kind)
        (peer_latency.spark_join if kind == "spark" else own)(spark, FEED, folder, tmp_path)
        return Heard()

    found = latency.result(FEED, run, 0.0)
    assert latency.faults(kind, found) == [] and found["rows_agree"] is True
    for queries in found["rates"].values():
        assert all(0 < times["p50_s"] <= times["p99_s"] for times in queries.values()) and queries
