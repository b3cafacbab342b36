"""The four invalidation strategies in kostowski's setting (4.1, figures 7 and 8): what they cost and what they keep.

60 s of rows, windows of 30 s, 100 keys (selectivity 0.01); the last 30 s count. Cost at equal rates, occupancy with the
probed stream a hundred times as fast as the other, looked at every 2 s. No sweep: the strategy is on its own, unless it
is asked for.
"""

from __future__ import annotations

import time
from typing import Any

from muntin.model import Side
from muntin.plan.cost import Load
from muntin.testing.steady import SteadyJoin

WINDOW_S, KEYS, RATE = 30.0, 100, 200.0
LOOK_S = 2.0


def cleaning(name: str, seed: int = 0) -> tuple[float, int]:
    """Seconds of the second half minute at equal rates, and the checks for stale rows in it."""
    join = SteadyJoin(Load(RATE, RATE, WINDOW_S, WINDOW_S, KEYS), name, seed)
    join.advance(WINDOW_S)
    rows, before = join.draw(WINDOW_S), join.counters.stale_checks
    start = time.process_time()
    join.take(rows)
    return time.process_time() - start, join.counters.stale_checks - before


def occupancy(name: str, seed: int = 0, sweep: bool = False) -> list[int]:
    """Rows kept on the fast side, every two seconds of a minute; `sweep` takes out all that is stale each time."""
    lopsided, kept = SteadyJoin(Load(RATE / 100, RATE, WINDOW_S, WINDOW_S, KEYS), name, seed), []
    for _ in range(round(2 * WINDOW_S / LOOK_S)):
        lopsided.advance(LOOK_S)
        if sweep:
            lopsided.sweep()
        kept.append(lopsided.state.rows(Side.RIGHT))
    return kept


def invalidation(name: str, rounds: int) -> dict[str, Any]:
    """Cost of the second half minute, and rows kept on the fast side, under one strategy."""
    found = [cleaning(name) for _ in range(rounds)]
    kept = occupancy(name)
    steady = kept[len(kept) // 2 :]
    return {"seconds": min(seconds for seconds, _ in found), "stale_checks": found[-1][1],
            "rows_kept": sum(steady) / len(steady), "rows_in_window": RATE * WINDOW_S}  # fmt: skip
