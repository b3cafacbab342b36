"""The benches of the join alone run, with so little data that their figures mean nothing; see `tests/spark` for those
that need Spark."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.bench import aggregates, core, sharing
from muntin.cli.bench import BENCHES, IN_PROCESSES, NEED_SPARK
from muntin.cli.main import main
from muntin.plan.cost import DEFAULT

SMALLEST: dict[str, dict[tuple[Any, str], Any]] = {
    "aggregates": {(aggregates, "QUICK_ROWS"): 2_000},
    "core": {(core, "QUICK"): (5_000, 1)},
    "sharing": {
        (sharing, "RATE"): 4,
        (sharing, "KEYS"): 2_400,
        (sharing, "calibrate"): lambda: DEFAULT,
        (sharing, "FIVE_HUNDRED"): sharing.queries(10, 5),
    },
}
"""For each bench, what makes it small."""


def test_every_bench_is_here_or_needs_spark_or_has_contenders_in_processes_of_their_own():
    assert {*SMALLEST, *NEED_SPARK, *IN_PROCESSES} == set(BENCHES)


@pytest.mark.bench
@pytest.mark.parametrize("name", SMALLEST)
def test_a_bench_runs_from_the_command_line_to_its_figures(monkeypatch, capsys, name):
    for (module, constant), value in SMALLEST[name].items():
        monkeypatch.setattr(module, constant, value)
    code = main(["bench", name, "--quick", "--no-spark"])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert len(out.splitlines()) >= 3 and any(c.isdigit() for c in out)
    assert "measuring: " in err
