"""The benches that need Spark run on the session of the tests, with so little data that their figures mean nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muntin.bench import changes, outer, promises, schedule, sharing, sources, streams
from muntin.bench.workload import plain
from muntin.cli.bench import NEED_SPARK

pytestmark = [pytest.mark.spark, pytest.mark.bench]

LOAD = replace(outer.LOAD, batch_rows=500_000, questions=plain((100_000,)))
SMALLEST: dict[str, dict[tuple[Any, str], Any]] = {
    "changes": {(changes, "QUICK"): (12, 1, 1), (changes, "RATE"): 50, (changes, "KEYS"): 50},
    "outer": {(outer, "QUICK_ROWS"): 2_000, (outer, "LOAD"): LOAD, (outer, "ROUNDS"): 1},
    "promises": {(promises, "QUICK"): replace(promises.QUICK, rate=20, duration_s=30)},
    "schedule": {(schedule, "QUICK_ROWS"): 2_000, (schedule, "MOST"): 2},
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
