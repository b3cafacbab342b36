"""How finely work is cut where results are delivered as they are found: levels of a scan, and rows of a run.

What a row costs decides, by counters and the constants of the cost model. To go over a run once more, for the next
level, costs something for each of its rows and something for the unit. Where a row's scan of the largest window costs
far more than that, as with dense keys, long windows and joins without an equality, every window is a level and runs
are short, down to one row, the algorithm of hammad2003. Where it costs less, windows share levels and runs grow, until
neither kind of overhead is more than a small part of the work itself.

EXPLAIN asks with the work that it predicts for a row, a shard with what it has measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from muntin.model import AUTO
from muntin.plan.cost import DEFAULT, Constants
from muntin.plan.joins import SharedJoin
from muntin.plan.levels import MOST, Levels, levels_of
from muntin.plan.schedulers import SCHEDULERS, Scheduler

SHARE = 0.03
"""What going over rows again may cost as a part of their work, and what the units may cost beside that."""


@dataclass(frozen=True)
class Granularity:
    levels: Levels
    run_length: int
    scan_ns: float = 0.0
    """What a row costs that scans the largest window, beside being stored."""
    constants: Constants = DEFAULT

    def part(self, first: int, last: int) -> float:
        """The levels from `first` to before `last` as a part of the whole scan."""
        sizes = self.levels.sizes
        return sizes[last - 1] - (sizes[first - 1] if first else 0.0)

    def unit_ns(self, first: int, last: int, rows: int) -> float:
        """What a unit of so many rows is foretold to take."""
        c = self.constants
        each = (c.pass_ns if first else c.insert_ns) + self.part(first, last) * self.scan_ns
        return c.unit_ns + rows * each

    def scheduler(self, name: str, rows: float) -> Scheduler:
        """The scheduler of a name; what `auto` stands for depends on how many rows come at once."""
        if name != AUTO:
            return SCHEDULERS[name]
        return best_scheduler(self.levels.sizes, self.levels.queries, rows / self.run_length)


def row_ns(comparisons: float, pairs: float, constants: Constants) -> float:
    """What joining a row costs that looks at so many others and finds so many pairs."""
    return constants.insert_ns + comparisons * constants.scan_ns + pairs * constants.deliver_ns


def granularity_for(join: SharedJoin, ns: float, constants: Constants, levels: int | None = None) -> Granularity:
    """The levels and runs of a join whose rows cost so many nanoseconds each; `levels` where their number is fixed."""
    affordable = SHARE * max(ns, 1.0)
    found = levels_of(join, levels or min(MOST, 1 + int(affordable / constants.pass_ns)))
    run_length = max(1, ceil(len(found) * constants.unit_ns / affordable))
    return Granularity(found, run_length, max(0.0, ns - constants.insert_ns), constants)


def mean_response(
    scheduler: Scheduler, sizes: Sequence[float], queries: Sequence[int], m: float, t: float = 1.0
) -> float:
    """The mean over all queries under a scheduler."""
    return sum(n * scheduler.response(sizes, i, m, t, queries) for i, n in enumerate(queries)) / sum(queries)


def best_scheduler(sizes: Sequence[float], queries: Sequence[int], m: float) -> Scheduler:
    """The scheduler that `auto` stands for: the lowest mean over the queries after a burst of m, the first of equals.

    The sizes may be in any unit: rows are taken to be many, as they are where it matters.
    """
    many = [size * 1e6 for size in sizes]
    return min(SCHEDULERS, key=lambda scheduler: mean_response(scheduler, many, queries, max(m, 1)))
