"""Smallest Window First (hammad2003 3.2): all runs scan the smallest window before any scans the next.

At the end of a unit, what the run has found goes to the queries whose level it and all earlier runs have scanned, and
also (figure 3(a), steps 2 and 6) to those whose level all earlier runs have scanned.
"""

from __future__ import annotations

from collections.abc import Sequence

from muntin.plan.levels import Levels
from muntin.plan.schedulers.scheduler import Pick, Scheduler, Sizes, nearest


class SmallestWindowFirst(Scheduler):
    name = "swf"
    paper = "hammad2003, section 3.2"
    summary = "the smallest window first, for all runs that wait, then the next window"

    def pick(self, levels: Levels) -> Pick:
        return nearest

    def response(self, sizes: Sizes, i: int, m: float, t: float = 1.0, queries: Sequence[int] = ()) -> float:
        """Equation 2: all rows of the burst scan the smaller windows first, and a pair waits for the scan's end."""
        before = sizes[i - 1] if i else 0.0
        return t * (m * before + (m + 1) / 2 * (sizes[i] - before))
