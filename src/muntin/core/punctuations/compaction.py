"""Rows that a promise freed lie in the chunks and tables of rows that stay; here their room is given back.

Freed rows leave the index at once, so that nothing meets them; but the chunk of a row is immutable, and goes when the
last row in it has left its window. When more rows of a side lie dead in chunks than live, and a few thousand, the live
ones are copied into new chunks and the old ones go: no more than that is ever wasted, and a row is copied at most once
for each row that died. (Where rows are counted, their numbers follow from the order of arrival, which only the first
chunk has: there dead rows go with their window.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin.core.arrivals import FOREVER
from muntin.core.batch import ARRIVAL, CLASS, H1, H2, MARK, row_schema
from muntin.core.storage import RANGE_BITS, RANGES, ChunkKind, ChunkLog, Memory
from muntin.kernels.arrays import Bools, Int32s, Int64s
from muntin.kernels.index import CLASS_BITS, CLASS_MASK
from muntin.kernels.index import H1 as SLOT_H1
from muntin.kernels.index import H2 as SLOT_H2
from muntin.model import Axis, Side

if TYPE_CHECKING:
    from muntin.core.operator import Operator

NUMBER = "_number"
SLACK = 4096
"""Dead rows of a side that are not worth a copy."""
PIECE = 1 << 16
"""Rows of a new chunk at most."""


class DeadRows:
    """The numbers of dead rows in chunks that are still there, by side."""

    def __init__(self, memory: Memory, image: Mapping[str, Any] | None):
        self._memory = memory
        self.lists = [0, 0]
        """How many lists of dead rows have been written."""
        self._numbers = [np.zeros(0, np.int64) for _ in Side]
        self._name: str | None = None
        if image:
            self._name = image["name"]
            self._numbers = [a.copy() for a in memory.arrays(image["name"], [((n,), "int64") for n in image["sizes"]])]

    @property
    def image(self) -> dict[str, Any]:
        """What another process needs to go on with them."""
        if self._name is not None:
            self._memory.discard(self._name)
        self._name, sizes = self._memory.name("dead"), [len(numbers) for numbers in self._numbers]
        arrays = self._memory.allocate(self._name, [((n,), "int64") for n in sizes])
        for array, numbers in zip(arrays, self._numbers, strict=True):
            array[:] = numbers
        return {"name": self._name, "sizes": sizes}

    @property
    def nbytes(self) -> int:
        return sum(numbers.nbytes for numbers in self._numbers)

    def numbers(self, side: Side) -> Int64s:
        return self._numbers[side]

    def recall(self, side: Side, numbers: Int64s) -> None:
        self._numbers[side] = np.concatenate([self._numbers[side], numbers])

    def add(
        self, chunks: ChunkLog, side: Side, numbers: Int64s, ts: Int64s, keep: Int64s, puts: dict[str, pa.Table]
    ) -> None:
        """Note rows that died before their time; `keep` is the age at which each would have left."""
        if len(numbers):
            self.lists[side] += 1
            name = chunks.add(ChunkKind.DEAD, side, self.lists[side], int(ts.max()), int(keep.max()), len(numbers))
            puts[name] = pa.table({NUMBER: numbers})
            self.recall(side, numbers)

    def forget(self, side: Side, firsts: Mapping[int, int]) -> None:
        """Let go of rows whose chunks are gone; `firsts` is the first number needed in each range."""
        numbers = self._numbers[side]
        if len(numbers):
            needed = np.array([firsts.get(n, FOREVER) for n in range(RANGES)])
            self._numbers[side] = numbers[numbers >= needed[numbers >> RANGE_BITS]]

    def clear(self, chunks: ChunkLog, side: Side) -> list[str]:
        """Forget all of a side; the chunks that are not needed any more."""
        self._numbers[side] = self._numbers[side][:0]
        gone = [name for kind, s, _, name in chunks if kind is ChunkKind.DEAD and s is side]
        for name in gone:
            del chunks.live[name]
        return gone


def compact(operator: Operator, dead: DeadRows, side: Side, puts: dict[str, pa.Table]) -> list[str]:
    """Copy the live rows of a side into new chunks if too many of their neighbours are dead; the chunks that go."""
    chunks, state = operator.chunks, operator.state
    old = {
        base: name
        for kind, s, base, name in chunks
        if s is side and kind is ChunkKind.ROWS and chunks.live[name][0] <= operator.release
    }
    held = sum(chunks.live[name][2] for name in old.values())
    if held <= 2 * state.rows(side) + SLACK or operator.join.axes[side] is Axis.ROWS:
        return []
    bases = np.array(sorted(old), np.int64)
    ends = bases + np.array([chunks.live[old[int(base)]][2] for base in bases], np.int64)
    places, homes = state.entries(side)
    inside = np.flatnonzero(_within(state.index.slab[places, 1] >> CLASS_BITS, bases, ends))
    order = inside[np.argsort(state.index.slab[places[inside], 0], kind="stable")]
    for start in range(0, len(order), PIECE):
        piece = order[start : start + PIECE]
        _move(operator, side, places[piece], homes[piece], puts)
    left = dead.numbers(side)
    left = left[~_within(left, bases, ends)]
    gone = [*old.values(), *dead.clear(chunks, side)]
    for name in old.values():
        del chunks.live[name]
    if len(left):  # rows of chunks that are partly held; the clock says when they would have left at last
        last, keep = np.full(len(left), operator.release), np.full(len(left), operator.join.cuts[side][-1])
        dead.add(chunks, side, left, last, keep, puts)
    return gone


def _within(numbers: Int64s, bases: Int64s, ends: Int64s) -> Bools:
    """Which numbers lie in one of the ascending spans."""
    at = np.searchsorted(bases, numbers, side="right") - 1
    return (at >= 0) & (numbers < ends[at.clip(min=0)])


def _move(operator: Operator, side: Side, places: Int64s, homes: Int32s, puts: dict[str, pa.Table]) -> None:
    """Give rows, in time order, new numbers, and a chunk of their own."""
    slab, slots, schema = operator.state.index.slab, operator.state.index.slots, row_schema(operator.join, side)
    numbers, classes = slab[places, 1] >> CLASS_BITS, (slab[places, 1] & CLASS_MASK).astype(np.int32)
    found, at = operator.payload[side].fetch(numbers)
    rows = found.take(pa.array(at))
    own = {H1: pa.array(slots[homes, SLOT_H1]), H2: pa.array(slots[homes, SLOT_H2])}
    columns = [own[f.name] if f.name in own else _column(rows, f) for f in schema]
    base = operator.intake.log_moved(side, pa.table(columns, schema=schema), classes, puts)
    slab[places, 1] = base + np.arange(len(places)) << CLASS_BITS | classes
    operator.payload[side].add(base, rows.drop_columns([CLASS]), classes)


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column of stored rows; those that only travelling rows have are empty of meaning here."""
    if field.name in rows.column_names:
        return rows[field.name]
    assert field.name in (ARRIVAL, MARK)
    return pa.chunked_array([pa.array(np.zeros(rows.num_rows, np.int64)).cast(field.type)])
