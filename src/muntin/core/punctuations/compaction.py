"""Rows that a promise freed lie in the chunks and tables of rows that stay; here their room is given back.

Freed rows leave the index at once, so that nothing meets them; but the chunk of a row is immutable, and goes when the
last row in it has left its window. When more rows of a side lie dead in chunks than live, and a few thousand, the live
ones are copied into new chunks and the old ones go: no more than that is ever wasted, and a row is copied at most once
for each row that died. (Where rows are counted, their numbers follow from the order of arrival, which only the first
chunk has: there dead rows go with their window.)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from muntin.core.arrivals import FOREVER, Intake
from muntin.core.batch import ARRIVAL, H1, H2, MARK, row_schema
from muntin.core.join import JoinState
from muntin.core.storage import RANGE_BITS, RANGES, ChunkKind, ChunkLog, Memory, SidesImage
from muntin.kernels.arrays import Bools, Int32s, Int64s
from muntin.kernels.index import CLASS_BITS, CLASS_MASK
from muntin.kernels.index import H1 as SLOT_H1
from muntin.kernels.index import H2 as SLOT_H2
from muntin.model import Axis, Side
from muntin.plan import SharedJoin

NUMBER = "_number"
SLACK = 4096
"""Dead rows of a side that are not worth a copy."""
PIECE = 1 << 16
"""Rows of a new chunk at most."""


class DeadRows:
    """The numbers of dead rows in chunks that are still there, by side."""

    def __init__(self, memory: Memory, lists: list[int], image: SidesImage | None = None):
        self._memory = memory
        self.lists = list(lists)
        """How many lists of dead rows have been written."""
        self._numbers = [np.zeros(0, np.int64) for _ in Side]
        self._name: str | None = None
        if image:
            self._name = image.name
            self._numbers = [a.copy() for a in memory.arrays(image.name, [((n,), "int64") for n in image.sizes])]

    @property
    def image(self) -> SidesImage:
        """What another process needs to go on with them."""
        if self._name is not None:
            self._memory.discard(self._name)
        self._name = self._memory.name("dead")
        sizes = [len(numbers) for numbers in self._numbers]
        arrays = self._memory.allocate(self._name, [((n,), "int64") for n in sizes])
        for array, numbers in zip(arrays, self._numbers, strict=True):
            array[:] = numbers
        return SidesImage(self._name, sizes)

    @property
    def nbytes(self) -> int:
        return sum(numbers.nbytes for numbers in self._numbers)

    def numbers(self, side: Side) -> Int64s:
        return self._numbers[side]

    def recall(self, side: Side, numbers: Int64s) -> None:
        self._numbers[side] = np.concatenate([self._numbers[side], numbers])

    def add(self, side: Side, numbers: Int64s, ts: Int64s, retention: Int64s, chunks: ChunkLog) -> None:
        """Note rows that died before their time; `retention` is the age at which each would have left."""
        if len(numbers):
            self.lists[side] += 1
            table = pa.table({NUMBER: numbers})
            chunks.write(ChunkKind.DEAD, side, self.lists[side], table, int(ts.max()), int(retention.max()))
            self.recall(side, numbers)

    def forget(self, side: Side, firsts: Mapping[int, int]) -> None:
        """Let go of rows whose chunks are gone; `firsts` is the first number needed in each range."""
        numbers = self._numbers[side]
        if len(numbers):
            needed = np.array([firsts.get(n, FOREVER) for n in range(RANGES)])
            self._numbers[side] = numbers[numbers >= needed[numbers >> RANGE_BITS]]

    def clear(self, side: Side, chunks: ChunkLog) -> None:
        """Forget all of a side, and remove the lists that say so."""
        self._numbers[side] = self._numbers[side][:0]
        chunks.remove([name for kind, s, _, name in chunks if kind is ChunkKind.DEAD and s is side])


def compact(
    join: SharedJoin, side: Side, dead: DeadRows, state: JoinState, intake: Intake, chunks: ChunkLog, release: int
) -> None:
    """Copy the live rows of a side into new chunks if too many of their neighbours are dead; the old ones go."""
    old = {
        base: name
        for kind, s, base, name in chunks
        if s is side and kind is ChunkKind.ROWS and chunks.live[name].last_ts <= release
    }
    stored = sum(chunks.live[name].rows for name in old.values())
    if stored <= 2 * state.rows(side) + SLACK or join.axes[side] is Axis.ROWS:
        return
    bases = np.array(sorted(old), np.int64)
    ends = bases + np.array([chunks.live[old[int(base)]].rows for base in bases], np.int64)
    places, homes = state.entries(side)
    inside = np.flatnonzero(_within(state.index.slab[places, 1] >> CLASS_BITS, bases, ends))
    order = inside[np.argsort(state.index.slab[places[inside], 0], kind="stable")]
    for start in range(0, len(order), PIECE):
        piece = order[start : start + PIECE]
        _move(join, side, state, intake, places[piece], homes[piece])
    left = dead.numbers(side)
    left = left[~_within(left, bases, ends)]
    dead.clear(side, chunks)
    chunks.remove(old.values())
    if len(left):  # rows of chunks that are partly held; the clock says when they would have left at last
        last, retention = np.full(len(left), release), np.full(len(left), join.cuts[side][-1])
        dead.add(side, left, last, retention, chunks)


def _within(numbers: Int64s, bases: Int64s, ends: Int64s) -> Bools:
    """Which numbers lie in one of the ascending spans."""
    at = np.searchsorted(bases, numbers, side="right") - 1
    return (at >= 0) & (numbers < ends[at.clip(min=0)])


def _move(join: SharedJoin, side: Side, state: JoinState, intake: Intake, places: Int64s, homes: Int32s) -> None:
    """Give rows, in time order, new numbers, and a chunk of their own."""
    slab, slots, schema = state.index.slab, state.index.slots, row_schema(join, side)
    numbers, classes = slab[places, 1] >> CLASS_BITS, (slab[places, 1] & CLASS_MASK).astype(np.int32)
    found, at = intake.payload[side].fetch(numbers)
    rows = found.take(pa.array(at))
    own = {H1: pa.array(slots[homes, SLOT_H1]), H2: pa.array(slots[homes, SLOT_H2])}
    columns = [own[f.name] if f.name in own else _column(rows, f) for f in schema]
    base = intake.move(side, pa.table(columns, schema=schema), classes)
    slab[places, 1] = base + np.arange(len(places)) << CLASS_BITS | classes


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column of stored rows; those that only travelling rows have are empty of meaning here."""
    if field.name in rows.column_names:
        return rows[field.name]
    assert field.name in (ARRIVAL, MARK)
    return pa.chunked_array([pa.array(np.zeros(rows.num_rows, np.int64)).cast(field.type)])
