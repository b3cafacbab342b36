"""Rows that wait for the release point, in the memory of the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from muntin.core.memory import Arrays, Layout, Memory

Image = tuple[str, int, int]


class Held:
    """Columns of rows in time order (the first column), of which a prefix has been passed by the release point."""

    def __init__(self, memory: Memory, name: str, columns: Arrays, start: int):
        self._memory, self._name, self._columns, self._start = memory, name, columns, start

    @classmethod
    def keep(cls, memory: Memory, columns: Sequence[npt.NDArray[Any]]) -> Held:
        """Copy columns that are in time order."""
        name = memory.name("held")
        arrays = memory.allocate(name, _layout(len(columns[0]), [c.dtype.name for c in columns]))
        for array, values in zip(arrays, columns, strict=True):
            array[:] = values
        return cls(memory, name, arrays, 0)

    @classmethod
    def open(cls, memory: Memory, image: Image, kinds: Sequence[str]) -> Held:
        name, rows, start = image
        return cls(memory, name, memory.arrays(name, _layout(rows, kinds)), start)

    @property
    def image(self) -> Image:
        return self._name, len(self._columns[0]), self._start

    def __len__(self) -> int:
        """Rows that are still held."""
        return len(self._columns[0]) - self._start

    def pass_until(self, release: int) -> Arrays:
        """The rows up to the release point; gives the memory back with the last of them."""
        start = self._start
        self._start += int(np.searchsorted(self._columns[0][start:], release, side="right"))
        if not len(self):
            self._memory.discard(self._name)
        return [column[start : self._start] for column in self._columns]

    def first(self, column: int) -> int:
        """The value of the first row that is still held."""
        return int(self._columns[column][self._start])

    def update(self, column: int, values: Callable[[Arrays], npt.NDArray[Any]]) -> None:
        """Replace one column by what follows from all of them."""
        self._columns[column][:] = values(self._columns)


def pass_all(runs: list[Held], release: int, kinds: Sequence[str]) -> Arrays:
    """What the release point has passed of all runs, run after run; what is exhausted leaves the list."""
    passed = [run.pass_until(release) for run in runs]
    runs[:] = [run for run in runs if len(run)]
    return [np.concatenate([np.zeros(0, kind), *(p[n] for p in passed)]) for n, kind in enumerate(kinds)]


def _layout(rows: int, kinds: Sequence[str]) -> Layout:
    return [((rows,), kind) for kind in kinds]
