"""How long a query waits for its rows (hammad2003 3.1.1, 3.2.1): mean response time after a burst.

    m     rows that arrive at once on one stream
    S_i   rows of the other stream within window i, ascending; the rows that a probe looks at up to there
    t     the time to look at one of them

The formula of each scheduler is in its file (schedulers/).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muntin.model import Side
from muntin.plan.joins import SharedJoin
from muntin.plan.levels import levels_of
from muntin.plan.schedulers import SCHEDULERS, Scheduler
from muntin.plan.traffic import Traffic, survivors

BURST_S = 1.0
"""What is taken to come at once where nobody knows: all rows of a second."""
Sizes = Sequence[float]


def alone(size: float, m: float, t: float = 1.0) -> float:
    """A query alone (3.1.1): equation 1 with its own window as the largest."""
    return t / 2 * (m * size + 1)


@dataclass(frozen=True)
class Burst:
    """What comes to a join at once, and what a row of it looks at up to the end of each level."""

    rows: float
    sizes: tuple[float, ...]
    queries: tuple[int, ...]
    of_query: tuple[int, ...]

    def response(self, scheduler: Scheduler, query: int, t: float) -> float:
        """The mean response time of a query, given by its place in the join."""
        return scheduler.response(self.sizes, self.of_query[query], self.rows, t, self.queries)

    @property
    def best(self) -> Scheduler:
        return best_scheduler(self.sizes, self.queries, self.rows)


def burst_of(join: SharedJoin, traffic: Traffic, seconds: float = BURST_S) -> Burst:
    """A burst of all rows of some seconds, and how many rows each has to look at."""
    levels, total = levels_of(join), max(sum(traffic.rates), 1e-9)
    sizes = [0.0] * len(levels)
    for side, held in zip(Side, survivors(join, traffic), strict=True):
        share, since, met = held.other_rate / total, 0.0, 0.0
        ends = dict(zip(held.windows, range(len(held.windows)), strict=True))
        upto = []
        for n, until in enumerate(held.seconds):
            met += held.rate * held.match * float(held.kept[n] * held.probing[n]) * (float(until) - since)
            since = float(until)
            upto.append(met)
        for level in range(len(levels)):
            sizes[level] += share * upto[ends[levels.ends[side][level]]]
    return Burst(max(1.0, total * seconds), tuple(max(s, 1e-9) for s in sizes), levels.queries, levels.of_query)


def mean(scheduler: Scheduler, sizes: Sizes, queries: Sequence[int], m: float, t: float = 1.0) -> float:
    """The mean over all queries under a scheduler."""
    return sum(n * scheduler.response(sizes, i, m, t, queries) for i, n in enumerate(queries)) / sum(queries)


def best_scheduler(sizes: Sizes, queries: Sequence[int], m: float) -> Scheduler:
    """The scheduler that `auto` stands for: the lowest mean over the queries after a burst of m, the first of equals.

    The sizes may be in any unit: rows are taken to be many, as they are where it matters.
    """
    many = [size * 1e6 for size in sizes]
    return min(SCHEDULERS, key=lambda scheduler: mean(scheduler, many, queries, max(m, 1)))
