"""What waits, in time order, in the memory of the operator: rows for the release point, results for theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.core.memory import Arrays, Layout, Memory

Image = tuple[str, int, int, int]


class Held:
    """Columns in time order (the first column), of which a prefix has left; of the rest, a prefix may be taken.

    What is taken has been joined, but stays until the release point has passed it.
    """

    def __init__(self, memory: Memory, name: str, columns: Arrays, left: int, taken: int):
        self._memory, self._name, self._columns, self._left, self._taken = memory, name, columns, left, taken

    @classmethod
    def keep(cls, memory: Memory, columns: Sequence[npt.NDArray[Any]]) -> Held:
        """Copy columns that are in time order."""
        name = memory.name("held")
        arrays = memory.allocate(name, _layout(len(columns[0]), [c.dtype.name for c in columns]))
        for array, values in zip(arrays, columns, strict=True):
            array[:] = values
        return cls(memory, name, arrays, 0, 0)

    @classmethod
    def open(cls, memory: Memory, image: Image, kinds: Sequence[str]) -> Held:
        name, rows, left, taken = image
        return cls(memory, name, memory.arrays(name, _layout(rows, kinds)), left, taken)

    @property
    def image(self) -> Image:
        return self._name, len(self._columns[0]), self._left, self._taken

    def __len__(self) -> int:
        """How many have not been taken."""
        return len(self._columns[0]) - self._taken

    @property
    def is_over(self) -> bool:
        """Whether all have left."""
        return self._left == len(self._columns[0])

    def take(self, until: int) -> Arrays:
        """Those up to a time that have not been taken before."""
        start = self._taken
        self._taken = max(start, self._until(until))
        return [column[start : self._taken] for column in self._columns]

    def peek(self, until: int) -> Arrays:
        """The same without taking them."""
        return [column[self._taken : max(self._taken, self._until(until))] for column in self._columns]

    def leave(self, until: int) -> None:
        """Let go of those up to a time; the memory is given back with the last of them."""
        self._left = max(self._left, self._until(until))
        self._taken = max(self._left, self._taken)
        if self.is_over:
            self.discard()

    def put_back(self) -> None:
        """What has been taken and has not left may be taken again."""
        self._taken = self._left

    def discard(self) -> None:
        self._memory.discard(self._name)

    def first(self, column: int) -> int:
        """The value of the first row that has not left."""
        return int(self._columns[column][self._left])

    def update(self, column: int, values: Callable[[Arrays], npt.NDArray[Any]]) -> None:
        """Replace one column by what follows from all of them."""
        self._columns[column][:] = values(self._columns)

    def _until(self, until: int) -> int:
        return int(np.searchsorted(self._columns[0], until, side="right"))


def take_all(runs: list[Held], until: int, kinds: Sequence[str]) -> Arrays:
    """What can be taken up to a time of all runs, run after run."""
    taken = [run.take(until) for run in runs]
    return [np.concatenate([np.zeros(0, kind), *(t[n] for t in taken)]) for n, kind in enumerate(kinds)]


def leave_all(runs: list[Held], until: int) -> None:
    """Let go of all up to a time; runs that are over leave the list."""
    for run in runs:
        run.leave(until)
    runs[:] = [run for run in runs if not run.is_over]


def pass_all(runs: list[Held], until: int, kinds: Sequence[str]) -> Arrays:
    """Take all up to a time and let go of them."""
    passed = take_all(runs, until, kinds)
    leave_all(runs, until)
    return passed


def _layout(rows: int, kinds: Sequence[str]) -> Layout:
    return [((rows,), kind) for kind in kinds]
