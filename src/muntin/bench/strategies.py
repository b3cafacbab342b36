"""The four invalidation strategies in kostowski's setting (4.1, figures 7 and 8): what they cost and what they keep.

60 s of rows, windows of 30 s, 100 keys (selectivity 0.01); the last 30 s count. Cost at equal rates, occupancy with the
probed stream a hundred times as fast as the other, looked at every 2 s. No sweep: the strategy is on its own.
"""

from __future__ import annotations

import time
from typing import Any

from muntin.testing.steady import SteadyJoin
from muntin.model import Side
from muntin.plan.cost import Load

WINDOW_S, KEYS, RATE = 30.0, 100, 200.0
LOOKS, LOOK_S = 15, 2.0


def invalidation(name: str, rounds: int) -> dict[str, Any]:
    """Cost of the second half minute, and rows kept on the fast side, under one strategy."""
    even = Load(RATE, RATE, WINDOW_S, WINDOW_S, KEYS)
    seconds, checks = [], 0
    for _ in range(rounds):
        join = SteadyJoin(even, name)
        join.advance(WINDOW_S)
        rows, before = join.draw(WINDOW_S), join.counters.stale_checks
        start = time.perf_counter()
        join.take(rows)
        seconds.append(time.perf_counter() - start)
        checks = join.counters.stale_checks - before
    lopsided = SteadyJoin(Load(RATE / 100, RATE, WINDOW_S, WINDOW_S, KEYS), name)
    lopsided.advance(WINDOW_S)
    kept = []
    for _ in range(LOOKS):
        lopsided.advance(LOOK_S)
        kept.append(lopsided.state.rows(Side.RIGHT))
    return {"seconds": min(seconds), "stale_checks": checks, "rows_kept": sum(kept) / len(kept),
            "rows_in_window": RATE * WINDOW_S}  # fmt: skip
