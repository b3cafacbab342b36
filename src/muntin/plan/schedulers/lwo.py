"""Largest Window Only (hammad2003 3.1): every run is joined whole before the next."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.plan.levels import Levels
from muntin.plan.schedulers.scheduler import Pick, Scheduler, Sizes, furthest


class LargestWindowOnly(Scheduler):
    name = "lwo"
    paper = "hammad2003, section 3.1"
    summary = "the oldest run first, through all windows at once"
    scans_whole_runs = True

    def pick(self, levels: Levels) -> Pick:
        return furthest

    def response(self, sizes: Sizes, i: int, m: float, t: float = 1.0, queries: Sequence[int] = ()) -> float:
        """Equation 1: each row of the burst waits until the ones before it have scanned the largest window."""
        return t / 2 * ((sizes[i] + 1) + (m - 1) * sizes[-1])
