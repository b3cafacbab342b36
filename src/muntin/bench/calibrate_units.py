"""What it costs to cut work finely (hammad2003): a unit, and a row that a further unit goes over.

The same rows go through the same windows in one run and in many, and through all windows at once and one by one. What
is longer, divided by what is more, is the cost of one. The best of some rounds counts, since noise only adds time.
"""

from __future__ import annotations

import time
from dataclasses import replace

from muntin.core.batch import Counters
from muntin.core.schedule import ScheduledWork
from muntin.plan.cost import Constants, Load
from muntin.plan.granularity import Granularity
from muntin.plan.levels import Levels, levels_of
from muntin.plan.schedulers import SCHEDULERS
from muntin.testing.steady import SteadyJoin

LOAD, WINDOWS = Load(20_000, 20_000, 10, 10, 20_000), 6
WARM_S, RUN_S = 1.0, 0.1
SHORT, WHOLE = 64, 1 << 30
"""Rows of a run: few, or all."""


def calibrated_units(constants: Constants, rounds: int) -> Constants:
    """The constants with what units and passes cost on this machine."""
    took: dict[tuple[bool, int], float] = {}
    units: dict[tuple[bool, int], int] = {}
    rows = 0
    for _ in range(rounds):
        for cut in ((False, WHOLE), (True, WHOLE), (True, SHORT)):
            seconds, units[cut], rows = _run(*cut)
            took[cut] = min(seconds, took.get(cut, seconds))
    (once, fine, short), (_, few, many) = took.values(), units.values()
    pass_ns = (fine - once) / (rows * (few - 1)) * 1e9
    unit_ns = (short - fine) / (many - few) * 1e9
    return replace(constants, unit_ns=max(unit_ns, 1.0), pass_ns=max(pass_ns, 1.0))


def _run(by_windows: bool, run_length: int) -> tuple[float, int, int]:
    """Seconds, units and rows of a join whose windows are levels, or all in one."""
    join = SteadyJoin(LOAD, "probe", 7, windows=WINDOWS)
    join.advance(WARM_S)
    rows, levels = join.draw(RUN_S), levels_of(join.state.join)
    if not by_windows:
        levels = Levels((levels.ends[0][-1:], levels.ends[1][-1:]), (0,) * len(levels.of_query))
    work = ScheduledWork(join.state, rows, Counters(), SCHEDULERS["swf"], Granularity(levels, run_length))
    start, units = time.perf_counter(), 0
    work.arrive()
    while work.step() is not None:
        units += 1
    return time.perf_counter() - start, units, len(rows.ts)
