"""Rows of one side in time order: each is looked at once for every age at which a query may have to tell it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muntin.core.storage import Layout, Memory
from muntin.kernels.arrays import Int64s

LEAST = 1024
"""Rows that there is room for at first."""


class DeparturesImage(NamedTuple):
    """What another process needs, beside the memory, to go on with the rows of a side."""

    name: str
    room: int
    start: int
    end: int


class Departures:
    """Times and row numbers, ascending by time; those that nobody asks about any more leave in front."""

    def __init__(self, memory: Memory, image: DeparturesImage | None = None):
        self._memory = memory
        self._name = ""
        self._room = self._start = self._end = 0
        self._ts = self._rows = np.zeros(0, np.int64)
        if image is not None and image.name:
            self._name, self._room, self._start, self._end = image
            self._ts, self._rows = memory.arrays(self._name, self._layout)

    @property
    def _layout(self) -> Layout:
        return [((self._room,), "int64"), ((self._room,), "int64")]

    @property
    def image(self) -> DeparturesImage:
        return DeparturesImage(self._name, self._room, self._start, self._end)

    @property
    def nbytes(self) -> int:
        return 16 * self._room

    def __len__(self) -> int:
        return self._end - self._start

    def append(self, ts: Int64s, rows: Int64s) -> None:
        """Take in rows that are later than those there are."""
        if self._end + len(ts) > self._room:
            self._make_room(len(ts))
        end = self._end + len(ts)
        self._ts[self._end : end] = ts
        self._rows[self._end : end] = rows
        self._end = end

    def _make_room(self, more: int) -> None:
        kept = [self._ts[self._start : self._end], self._rows[self._start : self._end]]
        old, count = self._name, len(self)
        self._name = self._memory.name("departures")
        self._room = max(LEAST, 2 * (count + more))
        self._ts, self._rows = self._memory.allocate(self._name, self._layout)
        self._ts[:count], self._rows[:count] = kept
        self._start, self._end = 0, count
        if old:
            self._memory.discard(old)

    def between(self, after: int, until: int) -> tuple[Int64s, Int64s]:
        """Times and numbers of the rows after one time and up to another."""
        times = self._ts[self._start : self._end]
        low, high = np.searchsorted(times, [after, until], side="right") + self._start
        return self._ts[low:high], self._rows[low:high]

    def leave(self, until: int) -> None:
        """Let go of the rows up to a time."""
        self._start += int(np.searchsorted(self._ts[self._start : self._end], until, side="right"))
