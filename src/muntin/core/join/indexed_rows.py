"""The rows that an index has: what it counts of them, and where they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.index import (
    CLASS_BITS,
    CLASS_MASK,
    FILL,
    H1,
    H2,
    HEAD,
    KEYS,
    LIVE,
    MATCHES,
    OFF,
    SIZE_BITS,
    SLOTS,
    TOP,
    Index,
    cut_after,
    entries,
)
from muntin.kernels.join import Rows
from muntin.kernels.promises import count_rows, purge_keys
from muntin.model import Side


class IndexedRows:
    index: Index

    @property
    def keys(self) -> int:
        return int(self.index.control[KEYS])

    def rows(self, side: Side) -> int:
        return int(self.index.control[LIVE + side])

    @property
    def matches(self) -> int:
        """How many pairs of rows of the two sides have the same key."""
        return int(self.index.control[MATCHES])

    def entries(self, side: Side) -> tuple[Int64s, Int32s]:
        """Where in the slab the rows of a side lie, and their slots."""
        rows = self.rows(side)
        at, homes = np.zeros(rows, np.int64), np.zeros(rows, np.int32)
        entries(self.index, int(side), at, homes)
        return at, homes

    def stored(self) -> Rows:
        """The rows of both sides as they came; where rows are counted, their places stand for their times."""
        sides = []
        for side in Side:
            at, homes = self.entries(side)
            ts, rows_and_classes = self.index.slab[at].T
            h1, h2 = self.index.slots[homes, H1], self.index.slots[homes, H2]
            cls, row = (rows_and_classes & CLASS_MASK).astype(np.int32), rows_and_classes >> CLASS_BITS
            kept = np.ones(len(ts), bool)
            sides.append((np.full(len(ts), side, np.uint8), ts, ts, ts, h1, h2, cls, row, kept))
        joined = [np.concatenate(both) for both in zip(*sides, strict=True)]
        order = np.argsort(joined[1], kind="stable")
        return Rows._make(column[order] for column in joined)

    def reclass(self, side: Side, by_number: Callable[[Int64s], Int32s]) -> None:
        """Give the rows of a side the classes that they have by number."""
        at, _ = self.entries(side)
        numbers = self.index.slab[at, 1] >> CLASS_BITS
        self.index.slab[at, 1] = numbers << CLASS_BITS | by_number(numbers)

    def cut(self, after: int) -> None:
        """Take out the rows of both sides that lie after a place; `change` must make the expiry lists anew."""
        for side in Side:
            cut_after(self.index, int(side), after)

    def purge(self, side: Side, h1: Int64s, h2: Int64s, until: Int64s) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Take out the rows of a side that have one of these keys, up to a place for each.

        Returns their numbers, classes, places, and which of the keys they have. Their entries in the expiry lists stay
        (`JoinState.relist`).
        """
        rows = count_rows(self.index, int(side), h1, h2)
        gone, places, by = (np.zeros(rows, np.int64) for _ in range(3))
        count = purge_keys(self.index, int(side), h1, h2, until, gone, places, by) if rows else 0
        return gone[:count] >> CLASS_BITS, gone[:count] & CLASS_MASK, places[:count], by[:count]

    def fullest(self, most: int, least: int) -> list[tuple[int, int, int, Side, int]]:
        """The keys with the most rows of both sides, at most so many, each with `least` rows or more: both halves of
        the key, the rows, and a side and the number of one of them."""
        slots = self.index.slots[: self.index.control[SLOTS]]
        counts = slots[:, FILL : FILL + 2] >> SIZE_BITS
        rows = counts.sum(axis=1)
        found = []
        for slot in np.argsort(-rows, kind="stable")[:most].tolist():
            if rows[slot] >= max(1, least):
                side = Side(int(counts[slot].argmax()))
                at = slots[slot, OFF + side] + slots[slot, HEAD + side]
                number = int(self.index.slab[at, 1]) >> CLASS_BITS
                found.append((int(slots[slot, H1]), int(slots[slot, H2]), int(rows[slot]), side, number))
        return found

    def top(self, side: Side) -> tuple[int, int]:
        """How many rows the fullest key of a side has, and the number of one of them (-1: none)."""
        slot = int(self.index.control[TOP + side])
        rows = int(self.index.slots[slot, FILL + side]) >> SIZE_BITS
        at = self.index.slots[slot, OFF + side] + self.index.slots[slot, HEAD + side]
        return rows, int(self.index.slab[at, 1]) >> CLASS_BITS if rows else -1
