"""How long a query waits for its rows (hammad2003 3.1.1, 3.2.1): mean response time after a burst.

    m     rows that arrive at once on one stream
    S_i   rows of the other stream within window i, ascending; the rows that a probe looks at up to there
    t     the time to look at one of them

Each row looked at is a pair (alpha = 1; others change nothing, the mean being over pairs). All three are means over the
pairs of a query, of the time from the burst to the moment at which the query has the pair. The paper has (1), (2) and
isolated execution; `mqt` follows in the same way from its rules of order and release (3.3), which the paper leaves to
experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from muntin.model import Side
from muntin.plan.levels import levels_of
from muntin.plan.schedule import EQUAL
from muntin.plan.share import SharedJoin
from muntin.plan.traffic import Traffic, survivors

BURST_S = 1.0
"""What is taken to come at once where nobody knows: all rows of a second."""
Sizes = Sequence[float]


def isolated(size: float, m: float, t: float = 1.0) -> float:
    """A query alone (3.1.1): equation 1 with its own window as the largest."""
    return t / 2 * (m * size + 1)


def lwo(sizes: Sizes, i: int, m: float, t: float = 1.0) -> float:
    """Equation 1: each row of the burst waits until the ones before it have scanned the largest window."""
    return t / 2 * ((sizes[i] + 1) + (m - 1) * sizes[-1])


def swf(sizes: Sizes, i: int, m: float, t: float = 1.0) -> float:
    """Equation 2: all rows of the burst scan the smaller windows first, and a pair waits for the end of the scan."""
    before = sizes[i - 1] if i else 0.0
    return t * (m * before + (m + 1) / 2 * (sizes[i] - before))


def mqt(sizes: Sizes, i: int, m: float, t: float = 1.0, queries: Sequence[int] | None = None) -> float:
    """Maximum Query Throughput, not in the paper.

    In a burst the rows scan *stretches* of windows: those between corners of the concave hull of (window, queries
    served up to it), one row after the other through a stretch, all rows before the next stretch. A query gets a pair
    when it is found, as soon as all earlier rows have scanned its window: what the first row finds goes out at once;
    what a later row had found in earlier stretches goes out when the row before it has scanned the window.
    """
    corners = [0.0, *stretches(tuple(sizes), tuple(queries or [1] * len(sizes)))]
    size, end = sizes[i], next(n for n, corner in enumerate(corners) if corner >= sizes[i])
    low, stretch = corners[end - 1], corners[end] - corners[end - 1]
    found = m * low + (m - 1) / 2 * stretch + (size - low + 1) / 2
    held = (m - 1) * (m * low + (m - 2) / 2 * stretch + size - low)
    at_once = sum((b - a) * (m * a + (b - a + 1) / 2) for a, b in pairwise(corners[:end]))
    return t / (m * size) * (m * (size - low) * found + low * held + at_once)


@lru_cache(maxsize=64)
def stretches(sizes: tuple[float, ...], queries: tuple[int, ...]) -> tuple[float, ...]:
    """Where MQT pauses: the corners of the concave hull of queries served over rows scanned."""
    hull = [(0.0, 0)]
    served = 0
    for size, count in zip(sizes, queries, strict=True):
        served += count
        point = (float(size), served)
        while len(hull) > 1 and _slope(hull[-1], point) * (1 + EQUAL) >= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    return tuple(size for size, _ in hull[1:])


def _slope(a: tuple[float, int], b: tuple[float, int]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0]) if b[0] > a[0] else float("inf")


Formula = Callable[[Sizes, int, float, float, Sequence[int]], float]
FORMULAS: Mapping[str, Formula] = {
    "lwo": lambda sizes, i, m, t, queries: lwo(sizes, i, m, t),
    "swf": lambda sizes, i, m, t, queries: swf(sizes, i, m, t),
    "mqt": mqt,
}
"""By the name of the scheduler: sizes, window, burst, time per row looked at, queries of each window."""


@dataclass(frozen=True)
class Burst:
    """What comes to a join at once, and what a row of it looks at up to the end of each level."""

    rows: float
    sizes: tuple[float, ...]
    queries: tuple[int, ...]
    of_query: tuple[int, ...]

    def response(self, scheduler: str, query: int, t: float) -> float:
        """The mean response time of a query, given by its place in the join."""
        return FORMULAS[scheduler](self.sizes, self.of_query[query], self.rows, t, self.queries)

    @property
    def best(self) -> str:
        return chosen(self.sizes, self.queries, self.rows)


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


def mean(name: str, sizes: Sizes, queries: Sequence[int], m: float, t: float = 1.0) -> float:
    """The mean over all queries under a scheduler."""
    formula = FORMULAS[name]
    return sum(n * formula(sizes, i, m, t, queries) for i, n in enumerate(queries)) / sum(queries)


def chosen(sizes: Sizes, queries: Sequence[int], m: float) -> str:
    """The scheduler that `auto` stands for: the lowest mean over the queries after a burst of m, the simpler of equals.

    The sizes may be in any unit: rows are taken to be many, as they are where it matters.
    """
    many = [size * 1e6 for size in sizes]
    return min(FORMULAS, key=lambda name: mean(name, many, queries, max(m, 1)))
