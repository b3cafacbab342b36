"""What a scheduler is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar

from muntin.plan.levels import Levels

EQUAL = 1e-9
"""Numbers that differ by less are equal: windows are compared as fractions."""
Sizes = Sequence[float]
Queues = list[deque[int]]
"""For each level the runs that have scanned all levels before it, oldest first."""
Pick = Callable[[Queues], int | None]
"""The queue whose first run comes next; None where nothing waits."""


class Scheduler(ABC):
    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    scans_whole_runs: ClassVar[bool] = False
    """Whether a unit takes a run through all levels, so that its pairs can go to every query at once."""
    delivers_at_once: ClassVar[bool] = False
    """Whether a query gets a pair when it is found, once all earlier runs have scanned its level; else at the end of
    a unit. This is for runs whose rows have one timestamp."""

    @abstractmethod
    def pick(self, levels: Levels) -> Pick:
        """The rule by which the next queue is picked."""

    @abstractmethod
    def response(self, sizes: Sizes, i: int, m: float, t: float = 1.0, queries: Sequence[int] = ()) -> float:
        """Mean time from a burst of `m` rows to the moment at which a query of window `i` has a pair.

        `sizes` are the rows that a probe looks at up to the end of each window, ascending, `t` is the time to look at
        one, and `queries` says how many queries each window has: one, where it is not given. Each row looked at is a
        pair (alpha = 1; others change nothing, the mean being over pairs).
        """


def nearest(queues: Queues) -> int | None:
    """The queue of the runs that have scanned the least."""
    return next((n for n, queue in enumerate(queues) if queue), None)


def furthest(queues: Queues) -> int | None:
    """The queue of the runs that have scanned the most."""
    return next((n for n in range(len(queues) - 1, -1, -1) if queues[n]), None)
