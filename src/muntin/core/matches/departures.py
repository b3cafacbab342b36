"""Rows of one side in time order: each is looked at once for every age at which a query may have to emit it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.core.storage import Arrays, Layout, Memory
from muntin.kernels.arrays import Int64s

LEAST = 1024
"""Rows that there is room for at first."""
TS, ROW, LAST = 0, 1, 2
"""Of each row its time, its number, and the last age at which it may be emitted: it is kept that long, not longer."""


class DeparturesImage(NamedTuple):
    """What another process needs, beside the memory, to go on with the rows of a side."""

    name: str
    room: int
    start: int
    end: int


class Departures:
    """Rows ascending by time; those that nobody asks about any more leave in front."""

    def __init__(self, memory: Memory, image: DeparturesImage | None = None):
        self._memory = memory
        self._name, self._room, self._start, self._end = image or DeparturesImage("", 0, 0, 0)
        self._arrays: Arrays = [np.zeros(0, np.int64)] * 3
        if self._name:
            self._arrays = memory.arrays(self._name, self._layout)

    @property
    def _layout(self) -> Layout:
        return [((self._room,), "int64")] * 3

    @property
    def image(self) -> DeparturesImage:
        return DeparturesImage(self._name, self._room, self._start, self._end)

    @property
    def nbytes(self) -> int:
        return 24 * self._room

    def __len__(self) -> int:
        return self._end - self._start

    @property
    def rows(self) -> Arrays:
        """Times, numbers and last ages, in memory that may be changed."""
        return [column[self._start : self._end] for column in self._arrays]

    def append(self, *columns: Int64s) -> None:
        """Take in rows that are later than those there are."""
        more = len(columns[TS])
        if self._end + more > self._room:
            self._make_room(more)
        for kept, column in zip(self._arrays, columns, strict=True):
            kept[self._end : self._end + more] = column
        self._end += more

    def _make_room(self, more: int) -> None:
        before, old = self.rows, self._name
        self._start, self._end = 0, len(before[TS])
        self._name = self._memory.name("departures")
        self._room = max(LEAST, 2 * (self._end + more))
        self._arrays = self._memory.allocate(self._name, self._layout)
        for kept, column in zip(self._arrays, before, strict=True):
            kept[: self._end] = column
        if old:
            self._memory.discard(old)

    def reaching(self, age: int, before: int, now: int) -> tuple[Int64s, Int64s]:
        """Times and numbers of the rows that reach an age after one time and up to another, and may be emitted then."""
        ts, rows, last = self.rows
        low, high = np.searchsorted(ts, [before - age, now - age], side="right")
        asked = last[low:high] >= age
        return ts[low:high][asked], rows[low:high][asked]

    def renumber(self, old: Int64s, new: Int64s) -> None:
        """Give the rows with some numbers, ascending, new ones."""
        rows = self.rows[ROW]
        at = np.searchsorted(old, rows).clip(max=len(old) - 1)
        rows[:] = np.where(old[at] == rows, new[at], rows)

    def leave(self, until: int) -> None:
        """Let go of the rows up to a time."""
        self._start += int(np.searchsorted(self.rows[TS], until, side="right"))
