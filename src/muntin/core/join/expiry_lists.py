"""When the rows of the index leave it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from muntin.core.selections import Selections, per_class
from muntin.core.storage import Memory
from muntin.kernels.arrays import Int32s, Int64s
from muntin.kernels.join import Rows
from muntin.kernels.times import (
    BLOCK,
    Times,
    ages,
    append_listed,
    clear_times,
    grow_times,
    pack_times,
    relabel_times,
    spare_blocks,
    times_layout,
)
from muntin.kernels.times import LIVE as LISTED
from muntin.model import Side
from muntin.plan import SharedJoin

NOTHING = np.zeros(0, np.int64)
SWEEP_AFTER = (1 << 7, 1 << 13)
"""Least and most rows after which stale ones are looked for, where rows stay for different times."""
PROMPTLY = 8
"""Between these two, stale rows are looked for so many times within the shortest retention."""


@dataclass(frozen=True)
class ExpiryImage:
    """What another process needs, beside the memory, to go on with expiry lists."""

    name: str
    blocks: int


class ExpiryLists:
    """Which rows leave when (ding2004 4.1): one list for each slice of each side, with whose end its rows leave."""

    def __init__(self, join: SharedJoin, memory: Memory, image: ExpiryImage | None = None, blocks: int | None = None):
        self._memory = memory
        self.ends = tuple(np.array(join.cuts[side], np.int64) for side in Side)
        starts = (0, len(self.ends[0]))
        self.spans = tuple((start, start + len(ends)) for start, ends in zip(starts, self.ends, strict=True))
        self._lists = self.spans[1][1]
        if image:
            self._name = image.name
            self._blocks = image.blocks
            self.times = Times(*memory.arrays(self._name, times_layout(self._lists, self._blocks)))
        else:
            self.times = self._allocate(blocks or self._lists + 8)

    @property
    def image(self) -> ExpiryImage:
        return ExpiryImage(self._name, self._blocks)

    def _allocate(self, blocks: int) -> Times:
        self._name = self._memory.name("times")
        self._blocks = blocks
        times = Times(*self._memory.allocate(self._name, times_layout(self._lists, blocks)))
        clear_times(times)
        return times

    def _move(self, blocks: int, how: Callable[[Times, Times], None]) -> None:
        old, name = self.times, self._name
        self.times = self._allocate(blocks)
        how(old, self.times)
        self._memory.discard(name)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.times)

    def __len__(self) -> int:
        return int(self.times.lanes[:, LISTED].sum())

    def append(self, rows: Rows, slots: Int32s, list_of_class: Int64s, start: int, stop: int) -> Int64s:
        """List the rows from `start` to `stop` that have a slot; how many of each side."""
        missing = (stop - start) // BLOCK + self._lists + 1 - spare_blocks(self.times)
        if missing > 0:
            self._move(self._blocks + max(missing, self._blocks // 2), grow_times)
        stored = start + np.flatnonzero(slots[start:stop] >= 0)
        sides = rows.side[stored]
        append_listed(self.times, list_of_class[sides, rows.cls[stored]], rows.at[stored], slots[stored])
        return np.bincount(sides, minlength=2)

    def list_of_class(self, selections: tuple[Selections, Selections]) -> Int64s:
        """The list of each class of each side."""
        left, right = (selections[side].last_slices + self.spans[side][0] for side in Side)
        return per_class(left, right)

    @classmethod
    def relabelled(cls, old: ExpiryLists, join: SharedJoin, becomes: Mapping[int, int]) -> ExpiryLists:
        """The same entries in lists for other slices: none of them is touched."""
        self = cls(join, old._memory, blocks=old._blocks)
        relabel_times(old.times, self.times, becomes)
        return self

    @staticmethod
    def blocks_for(rows: int, lists: int) -> int:
        """Blocks that hold so many rows, however they are spread over the lists."""
        return rows // BLOCK + 2 * lists + 8

    def fill(self, lists: Int64s, places: Int64s, slots: Int32s) -> None:
        """List rows that are in any order in lists that have none."""
        by_place = np.argsort(places)
        few = lists[by_place].astype(np.min_scalar_type(self._lists))  # small numbers are sorted by counting
        order = by_place[np.argsort(few, kind="stable")]
        append_listed(self.times, lists[order], places[order], slots[order])

    def listed(self) -> tuple[Int64s, Int64s, Int32s]:
        """List, place and slot of all entries, list after list."""
        found: list[tuple[Int64s, Int64s, Int32s]] = [(NOTHING, NOTHING, NOTHING.astype(np.int32))]
        for number, (head, start, tail, last, _) in enumerate(self.times.lanes.tolist()):
            block = head
            while block >= 0:
                end = last if block == tail else BLOCK
                entries = self.times.at[block, start:end], self.times.homes[block, start:end]
                found.append((np.full(end - start, number), *entries))
                block, start = -1 if block == tail else int(self.times.after[block]), 0
        lists, places, slots = (np.concatenate(column) for column in zip(*found, strict=True))
        return lists, places, slots

    def discard(self) -> None:
        self._memory.discard(self._name)

    def settle(self) -> None:
        """Give memory back after the lists have become much shorter."""
        needed = self.blocks_for(len(self), self._lists)
        if self._blocks > 8 * needed:
            self._move(2 * needed, pack_times)

    def rows_by_age(self, side: Side, now: int) -> list[int]:
        """Rows in each slice of a side, young to old; those that are stale at `now` are in none."""
        ends = np.append(self.ends[side], np.iinfo(np.int64).max)
        counts = np.zeros(len(ends), np.int64)
        ages(self.times, *self.spans[side], now, ends, counts)
        return [int(n) for n in counts[:-1]]


class Retentions:
    """For how long the rows of each class of each side stay."""

    def __init__(self, selections: tuple[Selections, Selections]):
        self.by_class = per_class(selections[0].retention, selections[1].retention)
        ages = [np.unique(s.retention[s.retention > 0]) for s in selections]
        self.shortest = [int(a[0]) if len(a) else 1 << 62 for a in ages]
        self.mixed = [len(a) > 1 for a in ages]

    def rows_between_sweeps(self, rows: Rows, own: bool) -> int:
        """Rows to join before stale ones are looked for: all, unless rows stay for different times.

        Of rows that stay for times of their `own` nobody knows how soon they leave.
        """
        if not any(self.mixed) or not len(rows.ts):
            return SWEEP_AFTER[1] if own else max(1, len(rows.ts))
        span = max(1, int(max(rows.at[-1], rows.now[-1]) - min(rows.at[0], rows.now[0])))
        return int(np.clip(len(rows.ts) * min(self.shortest) / PROMPTLY / span, *SWEEP_AFTER))
