"""Maximum Query Throughput (hammad2003 3.3): the queue that promises the most queries served per unit of scan.

A run that has scanned i levels may go on to level j at most, where the run before it stands. A scan over several levels
is one unit per level; the queue with the highest promise keeps it until its best level has been reached, since what is
left of the best stretch promises at least as much as the whole. A query gets a pair as soon as all earlier runs have
scanned its level, and from then on at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from muntin.plan.levels import Levels
from muntin.plan.schedulers.scheduler import EQUAL, Pick, Queues, Scheduler, Sizes


class MaximumQueryThroughput(Scheduler):
    name = "mqt"
    paper = "hammad2003, section 3.3"
    summary = "the scan that serves the most queries per row looked at"
    delivers_at_once = True

    def pick(self, levels: Levels) -> Pick:
        """From the largest window to the smallest; of equal promises the one for the larger window."""
        matrix = throughputs(levels.sizes, levels.queries)

        def choose(queues: Queues) -> int | None:
            best, chosen, ahead = 0.0, None, len(queues)
            for n in range(len(queues) - 1, -1, -1):
                if queues[n]:
                    if matrix[n][ahead] > best * (1 + EQUAL):
                        best, chosen = matrix[n][ahead], n
                    ahead = n
            return chosen

        return choose

    def response(self, sizes: Sizes, i: int, m: float, t: float = 1.0, queries: Sequence[int] = ()) -> float:
        """Not in the paper, which leaves it to experiments; it follows from the rules of order and release.

        In a burst the rows scan *stretches* of windows: those between corners of the concave hull of (window, queries
        served up to it), one row after the other through a stretch, all rows before the next stretch. A query gets a
        pair when it is found, as soon as all earlier rows have scanned its window: what the first row finds goes out at
        once; what a later row had found in earlier stretches goes out when the row before it has scanned the window.
        """
        corners = [0.0, *stretches(tuple(sizes), tuple(queries or [1] * len(sizes)))]
        size, end = sizes[i], next(n for n, corner in enumerate(corners) if corner >= sizes[i])
        low, stretch = corners[end - 1], corners[end] - corners[end - 1]
        found = m * low + (m - 1) / 2 * stretch + (size - low + 1) / 2
        held = (m - 1) * (m * low + (m - 2) / 2 * stretch + size - low)
        at_once = sum((b - a) * (m * a + (b - a + 1) / 2) for a, b in pairwise(corners[:end]))
        return t / (m * size) * (m * (size - low) * found + low * held + at_once)


def throughputs(sizes: Sizes, queries: Sequence[int]) -> list[list[float]]:
    """`MaxQT(PW(w_i, w_j))` of 3.3 for `0 <= i < j <= N`, with `w_0 = 0`: the most queries per unit of scan that a row
    can serve which has scanned up to `w_i` and may go as far as `w_j`. What has no meaning is 0."""
    ends, served = (0.0, *sizes), [0]
    for count in queries:
        served.append(served[-1] + count)
    matrix = [[0.0] * len(ends) for _ in ends]
    for i in range(len(ends)):
        for j in range(i + 1, len(ends)):
            stretch = ends[j] - ends[i]
            rate = (served[j] - served[i]) / stretch if stretch > 0 else float("inf")
            matrix[i][j] = max(matrix[i][j - 1], rate)
    return matrix


@lru_cache(maxsize=64)
def stretches(sizes: tuple[float, ...], queries: tuple[int, ...]) -> tuple[float, ...]:
    """Where the scan pauses: the corners of the concave hull of queries served over rows scanned."""
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
