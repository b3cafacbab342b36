"""What waits in time order in the memory of the operator.

Rows wait for the release point, results for their time, and cells of pairs for the time when they come or go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from muntin.core.storage.memory import Arrays, Layout, Memory, Stored
from muntin.kernels.arrays import AnyArray


class QueueImage(NamedTuple):
    """What another process needs, beside the memory, to go on with a queue."""

    name: str
    rows: int
    left: int
    taken: int


class TimeQueue(Stored):
    """Columns in time order (the first column), of which a prefix has left; of the rest, a prefix may be taken.

    What is taken has been joined, but stays until the release point has passed it.
    """

    def __init__(self, memory: Memory, name: str, arrays: Arrays, left: int = 0, taken: int = 0):
        super().__init__(memory, name, arrays)
        self._left = left
        self._taken = taken

    @property
    def image(self) -> QueueImage:
        return QueueImage(self._name, len(self._arrays[0]), self._left, self._taken)

    def __len__(self) -> int:
        """How many have not been taken."""
        return len(self._arrays[0]) - self._taken

    @property
    def arrays(self) -> Arrays:
        """Those that have not left."""
        return [column[self._left :] for column in self._arrays]

    @property
    def taken(self) -> int:
        """How many of those that have not left have been taken."""
        return self._taken - self._left

    @property
    def is_over(self) -> bool:
        """Whether all have left."""
        return self._left == len(self._arrays[0])

    def take(self, until: int) -> Arrays:
        """Those up to a time that have not been taken before."""
        start = self._taken
        self._taken = max(start, self._until(until))
        return [column[start : self._taken] for column in self._arrays]

    def peek(self, until: int) -> Arrays:
        """The same without taking them."""
        return [column[self._taken : max(self._taken, self._until(until))] for column in self._arrays]

    def leave(self, until: int) -> None:
        """Let go of those up to a time; the memory is given back with the last of them."""
        self._left = max(self._left, self._until(until))
        self._taken = max(self._left, self._taken)
        if self.is_over:
            self.discard()

    def put_back(self) -> None:
        """What has been taken and has not left may be taken again."""
        self._taken = self._left

    def first(self, column: int) -> int:
        """The value of the first row that has not left."""
        return int(self._arrays[column][self._left])

    def update(self, column: int, values: Callable[[Arrays], AnyArray]) -> None:
        """Replace one column by what follows from all of them."""
        self._arrays[column][:] = values(self._arrays)

    def _until(self, until: int) -> int:
        return int(np.searchsorted(self._arrays[0], until, side="right"))


def take_all(queues: list[TimeQueue], until: int, columns: Layout) -> Arrays:
    """What can be taken up to a time of all queues, one after the other."""
    taken = [queue.take(until) for queue in queues]
    return [np.concatenate([np.zeros((0, *s), kind), *(t[n] for t in taken)]) for n, (s, kind) in enumerate(columns)]


def leave_all(queues: list[TimeQueue], until: int) -> None:
    """Let go of all up to a time; queues that are over leave the list."""
    for queue in queues:
        queue.leave(until)
    queues[:] = [queue for queue in queues if not queue.is_over]


def pass_all(queues: list[TimeQueue], until: int, columns: Layout) -> Arrays:
    """Take all up to a time and let go of them."""
    passed = take_all(queues, until, columns)
    leave_all(queues, until)
    return passed
