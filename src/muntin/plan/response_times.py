"""How long a query waits for its rows (hammad2003 3.1.1, 3.2.1): mean response time after a burst.

    m     rows that arrive at once on one stream
    S_i   rows of the other stream within window i, ascending; the rows that a probe looks at up to there
    t     the time to look at one of them

The formula of each scheduler is in its file (schedulers/). Where rows go through the join in runs, a run is the row of
the formula: it looks at what all of its rows look at.
"""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import Side
from muntin.plan.cost import Constants
from muntin.plan.granularity import Granularity, granularity_for, mean_response, row_ns
from muntin.plan.joins import SharedJoin
from muntin.plan.levels import Levels, levels_of
from muntin.plan.schedulers import Scheduler
from muntin.plan.traffic import Traffic, survivors

BURST_S = 1.0
"""What is taken to come at once where nobody knows: all rows of a second."""


def alone(size: float, m: float, t: float = 1.0) -> float:
    """A query alone (3.1.1): equation 1 with its own window as the largest."""
    return t / 2 * (m * size + 1)


@dataclass(frozen=True)
class Burst:
    """What comes to a join at once, how it is cut, and what a row of it looks at up to the end of each level."""

    rows: float
    sizes: tuple[float, ...]
    granularity: Granularity

    @property
    def _runs(self) -> tuple[list[float], float]:
        length = min(self.granularity.run_length, self.rows)
        return [size * length for size in self.sizes], self.rows / length

    def response(self, scheduler: Scheduler, query: int, t: float) -> float:
        """The mean response time of a query, given by its place in the join."""
        (sizes, runs), levels = self._runs, self.granularity.levels
        return scheduler.response(sizes, levels.of_query[query], runs, t, levels.queries)

    def mean(self, scheduler: Scheduler, t: float) -> float:
        """The mean over all queries."""
        sizes, runs = self._runs
        return mean_response(scheduler, sizes, self.granularity.levels.queries, runs, t)


def burst_of(join: SharedJoin, traffic: Traffic, constants: Constants, seconds: float = BURST_S) -> Burst:
    """A burst of all rows of some seconds, and how many rows each has to look at."""
    rows = max(1.0, sum(traffic.rates) * seconds)
    partners = _sizes(join, traffic, levels_of(join, 1))[0]
    granularity = granularity_for(join, row_ns(partners, partners, constants), constants)
    return Burst(rows, _sizes(join, traffic, granularity.levels), granularity)


def _sizes(join: SharedJoin, traffic: Traffic, levels: Levels) -> tuple[float, ...]:
    """What a row looks at up to the end of each level, the mean over both streams."""
    sizes, total = [0.0] * len(levels), max(sum(traffic.rates), 1e-9)
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
    return tuple(max(size, 1e-9) for size in sizes)
