"""Rows of the index that leave before the others of their class: at the end of a window of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from muntin.core.storage import Memory, QueueImage, TimeRuns, flat
from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.index import Index
from muntin.kernels.join import Rows
from muntin.kernels.own_ends import take_rows
from muntin.model import Side

Stays = Callable[[Rows], Int64s]
"""The ages at which rows leave."""
COLUMNS = flat("int64", "int64", "int64", "int64", "int64")
"""Of each row the place at which it leaves, its own place, both halves of the key, and its number."""


class OwnEnds:
    """Which rows leave when, side by side. They are in the expiry lists as well, where they are passed over."""

    def __init__(self, memory: Memory, image: Sequence[Sequence[QueueImage]] = ((), ())):
        self._ends = [TimeRuns(memory, COLUMNS, image[side]) for side in Side]

    @property
    def image(self) -> list[list[QueueImage]]:
        return [ends.image for ends in self._ends]

    @property
    def nbytes(self) -> int:
        return sum(ends.nbytes for ends in self._ends)

    def append(
        self, rows: Rows, slots: Int32s, start: int, stop: int, stays: Stays | None, by_class: Int64s
    ) -> list[int]:
        """Take in the rows from `start` to `stop` that have a slot; `by_class` is when others of their class leave.

        Returns for how long they stay, added up for each side.
        """
        if stays is None:
            return [0, 0]
        stored = Rows._make(a[start + np.flatnonzero(slots[start:stop] >= 0)] for a in rows)
        own = stays(stored)
        early = own < by_class[stored.side, stored.cls]
        for side in Side:
            mine = early & (stored.side == side)
            places = stored.at[mine]
            self._ends[side].add([places + own[mine], places, stored.h1[mine], stored.h2[mine], stored.row[mine]])
        return [int(own[stored.side == side].sum()) for side in Side]

    def begin_again(self, rows: Rows | None, stays: Stays | None, by_class: Int64s) -> None:
        """Go on with these rows and no others: numbers or windows of rows have changed."""
        self.discard()
        if rows is not None:
            self.append(rows, np.zeros(len(rows.ts), np.int32), 0, len(rows.ts), stays, by_class)

    def expire(self, index: Index, side: Side, now: int) -> int:
        """Take out the rows of a side whose end has come; how many there were."""
        if not len(self._ends[side]):
            return 0
        _, places, h1, h2, numbers = self._ends[side].take(now)
        order = np.lexsort((h2, h1))
        return int(take_rows(index, int(side), h1[order], h2[order], places[order], numbers[order]))

    def discard(self) -> None:
        for ends in self._ends:
            ends.discard()
