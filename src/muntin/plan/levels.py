"""Levels: the windows of a join's queries from small to large, as far as an interrupted scan has come.

    age     0 ---- level 0 ---- w1 ------- level 1 ------- w2 --------- level 2 --------- w3
    served         Q1                      Q2                           Q3

A row that probes may stop after each level and go on later (hammad2003 3.2). A query is served when the level of its
window has been scanned. Where a query has two windows, one for each stream, queries are ordered by the larger of the
two (by parts of the largest on each stream, where one is in rows and the other in time); a level ends on each side at
the largest window of its queries and of those before. Count windows are the same with ages in rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muntin.kernels.arrays import Floats, Int64s
from muntin.model import Side
from muntin.plan.joins import Cuts, SharedJoin

MOST = 64
"""Levels of one join."""
RATIOS = (1, 1.1, 1.5, 2, 4, 16, 64, float("inf"))
"""Windows up to so many times the smallest of them share a level, where levels have to be fewer."""


@dataclass(frozen=True)
class Levels:
    ends: tuple[Cuts, Cuts]
    """For each side the age at which each level ends; a level may end on one side where the one before did."""
    of_query: tuple[int, ...]
    """The level of each query of the join."""

    def __len__(self) -> int:
        return len(self.ends[0])

    @cached_property
    def queries(self) -> tuple[int, ...]:
        """How many queries each level serves."""
        return tuple(int(n) for n in np.bincount(self.of_query, minlength=len(self)))

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """How much is scanned up to the end of each level, as a part of the whole, the mean of both sides."""
        return tuple(sum(self.ends[side][n] / self.ends[side][-1] for side in Side) / 2 for n in range(len(self)))

    def ages(self, side: Side, first: int, last: int) -> tuple[int, int]:
        """The ages `[low, high)` that the levels from `first` to before `last` stand for."""
        return (self.ends[side][first - 1] if first else 0), self.ends[side][last - 1]


def levels_of(join: SharedJoin, most: int = MOST) -> Levels:
    """The levels of a join, at most so many: one for each window if that is not too many.

    Else windows of about the same size share one, so that a query waits for a scan of few times its own window.
    """
    windows = np.array([[q.window.side(side) for side in Side] for q in join.queries], np.int64)
    units = windows.max(axis=0) if join.axes[0] != join.axes[1] else 1
    distinct, place = np.unique((windows / units).max(axis=1), return_inverse=True)
    group = next(group for ratio in RATIOS if (group := _shared(distinct, ratio))[-1] < max(1, most))
    level, count = group[place.ravel()], int(group[-1]) + 1
    ends = [tuple(int(windows[level <= n, side].max()) for n in range(count)) for side in Side]
    return Levels((ends[0], ends[1]), tuple(int(n) for n in level))


def _shared(windows: Floats, ratio: float) -> Int64s:
    """The level of each window, ascending, where those up to `ratio` times the smallest of a level share it."""
    level, first = np.zeros(len(windows), np.int64), windows[0]
    for n in range(1, len(windows)):
        starts = windows[n] > ratio * first
        level[n] = level[n - 1] + starts
        first = windows[n] if starts else first
    return level
