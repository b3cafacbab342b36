"""Runs of rows that wait to be joined (hammad2003 3): a queue for each level, and the next unit of work.

    unit = (run, levels)      queue i holds the runs that have scanned i levels, oldest first; queue 0: new ones

A run never overtakes an earlier one: it comes to a level after it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from muntin.plan.levels import Levels
from muntin.plan.schedulers.scheduler import Queues, Scheduler, furthest


class Unit(NamedTuple):
    """The next piece of work: a run scans the levels from `first` to before `last`."""

    run: int
    first: int
    last: int


class RunQueues:
    """Queues of runs, by numbers that ascend in the order of their rows; a scheduler picks among them."""

    def __init__(self, scheduler: Scheduler, levels: Levels):
        self.scheduler = scheduler
        self.count = len(levels)
        self.queues: Queues = [deque() for _ in range(self.count)]
        self._pick = scheduler.pick(levels)

    def add(self, run: int, scanned: int = 0) -> None:
        """A run has arrived that has scanned so many levels before; runs arrive in order."""
        self.queues[scanned].append(run)

    def next(self) -> Unit | None:
        """The next unit; None where nothing waits. The run is queued for the level after it."""
        return self._unit(self._pick(self.queues))

    def next_oldest(self) -> Unit | None:
        """The next unit of the first run that has something left to scan, whatever the scheduler would pick."""
        return self._unit(furthest(self.queues))

    def _unit(self, chosen: int | None) -> Unit | None:
        if chosen is None:
            return None
        run = self.queues[chosen].popleft()
        last = self.count if self.scheduler.scans_whole_runs else chosen + 1
        if last < self.count:
            self.queues[last].append(run)
        return Unit(run, chosen, last)

    @property
    def oldest(self) -> int | None:
        """The first run that has something left to scan."""
        chosen = furthest(self.queues)
        return None if chosen is None else self.queues[chosen][0]
