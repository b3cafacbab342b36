"""Every bench runs: with so little data that its figures mean nothing, on the session of the tests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muntin.bench import aggregates, changes, core, promises, schedule, sharing
from muntin.cli.bench import BENCHES, IN_PROCESSES
from muntin.plan.cost import Constants

pytestmark = pytest.mark.spark

SMALLEST: dict[str, dict[tuple[Any, str], Any]] = {
    "aggregates": {(aggregates, "QUICK_ROWS"): 2_000},
    "core": {(core, "QUICK"): (5_000, 1)},
    "changes": {(changes, "QUICK"): (12, 1, 1), (changes, "RATE"): 50, (changes, "KEYS"): 50},
    "promises": {(promises, "QUICK"): replace(promises.QUICK, rate=20, duration_s=60)},
    "schedule": {(schedule, "QUICK_ROWS"): 2_000},
    "sharing": {(sharing, "RATE"): 4, (sharing, "KEYS"): 2_400, (sharing, "calibrate"): Constants},
}
"""For each bench, what makes it small."""
WITHOUT_SPARK = ("aggregates", "core", "sharing")
"""What these have on Spark is what other benches have, and takes a minute."""


def test_every_bench_is_here_or_has_contenders_in_processes_of_their_own():
    assert {*SMALLEST, *IN_PROCESSES} == set(BENCHES)


@pytest.mark.parametrize("name", SMALLEST)
def test_a_bench_runs_from_the_command_line_to_its_figures(muntin: Any, monkeypatch: pytest.MonkeyPatch, name: str):
    for (module, constant), value in SMALLEST[name].items():
        monkeypatch.setattr(module, constant, value)
    where = ["--no-spark"] if name in WITHOUT_SPARK else []
    code, out, err = muntin("bench", name, "--quick", *where)
    assert code == 0, err
    assert len(out.splitlines()) >= 3 and any(c.isdigit() for c in out)
    assert "measuring: " in err


def test_sharing_is_measured_on_spark_too(muntin: Any, monkeypatch: pytest.MonkeyPatch):
    for (module, constant), value in SMALLEST["sharing"].items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(sharing, "LARGEST_S", 100)
    monkeypatch.setattr(sharing, "FIVE_HUNDRED", sharing.queries(5, 2))
    code, out, err = muntin("bench", "sharing", "--quick", "--json")
    assert code == 0, err
    figures = json.loads(out)
    assert figures["on_spark"]["five_hundred"]["rows_out"] > figures["on_spark"]["one"]["rows_out"] > 0
