"""What to join next (hammad2003 3): runs of rows wait in a queue for each level, and a scheduler picks the next unit.

    unit = (run, levels)      queue i holds the runs that have scanned i levels, oldest first; queue 0: new ones

    lwo   Largest Window Only: the oldest run, through all levels at once
    swf   Smallest Window First: the first queue that is not empty, one level
    mqt   Maximum Query Throughput: the queue that promises the most queries served per unit of scan, one level

A run never overtakes an earlier one: it comes to a level after it. For mqt that bounds the promise: a run that has
scanned i levels may go on to level j at most, where the run before it stands (3.3). A scan over several levels is one
unit per level; the queue with the highest promise keeps it until its best level has been reached, since what is left
of the best stretch promises at least as much as the whole.

Plain queues and numbers: the operator works by it, and EXPLAIN foretells with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from muntin.plan.levels import Levels

SCHEDULERS = ("lwo", "swf", "mqt")
EQUAL = 1e-9
"""Promises that differ by less are equal: windows are compared as fractions."""
Queues = list[deque[int]]


class Unit(NamedTuple):
    """The next piece of work: a run scans the levels from `first` to before `last`."""

    run: int
    first: int
    last: int


def throughputs(sizes: Sequence[float], queries: Sequence[int]) -> list[list[float]]:
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


class Scheduler:
    """Queues of runs, by numbers that ascend in the order of their rows, and the policy that picks among them."""

    def __init__(self, name: str, levels: Levels):
        self.name, self.count = name, len(levels)
        self.queues: Queues = [deque() for _ in range(self.count)]
        self._choose = {"lwo": _furthest, "swf": _nearest, "mqt": _promising(levels)}[name]

    def add(self, run: int) -> None:
        """A run has come; runs come in order."""
        self.queues[0].append(run)

    def next(self) -> Unit | None:
        """The next unit; None where nothing waits. The run is queued for the level after it."""
        chosen = self._choose(self.queues)
        if chosen is None:
            return None
        run = self.queues[chosen].popleft()
        last = self.count if self.name == "lwo" else chosen + 1
        if last < self.count:
            self.queues[last].append(run)
        return Unit(run, chosen, last)

    @property
    def oldest(self) -> int | None:
        """The first run that has something left to scan."""
        furthest = _furthest(self.queues)
        return None if furthest is None else self.queues[furthest][0]


def _nearest(queues: Queues) -> int | None:
    return next((n for n, queue in enumerate(queues) if queue), None)


def _furthest(queues: Queues) -> int | None:
    return next((n for n in range(len(queues) - 1, -1, -1) if queues[n]), None)


def _promising(levels: Levels) -> Callable[[Queues], int | None]:
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
