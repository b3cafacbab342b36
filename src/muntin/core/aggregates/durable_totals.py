"""Entries that are added to until they are closed, kept in memory and in a durable log.

An entry has a slot while it is open (`kernels.aggregate.Slots`), and a serial number for ever. The log is a list of
segments, each a chunk with entries as they were when it was written; the newest version of an entry counts, and an
entry that a later segment says is gone is closed. Each micro-batch writes one segment of what it touched, together with
those before it that are not much larger, so that an entry is written O(log n) times beside its changes, and the log
stays within a small multiple of what is open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals import FOREVER
from muntin.core.storage import ChunkKind, ChunkLog, Layout, Memory, Slotted, Stored, flat, slot_layout
from muntin.kernels.arrays import AnyArray, Int64s
from muntin.kernels.slots import Slots, drop_cells, look_up
from muntin.model import Side

SERIAL, OPEN, SEGMENT = "_serial", "_open", "_segment"
FIRST_ROOM = 64
INSIDE = flat("int64")
"""What is remembered of a segment: its entries' slots, or serial numbers."""
NUMBERED = flat("int64", "int64")
"""Of a durable entry, after its own columns: its serial number and its home in the log."""


class SegmentMeta(NamedTuple):
    """What is durable of a segment beside its chunk: its number, its chunk, its first serial number."""

    number: int
    name: str
    first: int


class SegmentImage(NamedTuple):
    """What another process needs, beside the memory, to go on with a segment."""

    meta: SegmentMeta
    slots: tuple[Any, ...]
    gone: tuple[Any, ...]


@dataclass(frozen=True)
class DurableTotalsMeta:
    """What is durable of a log beside its chunks; `counts` are the serial numbers given out, those logged, segments."""

    counts: list[int]
    segments: list[SegmentMeta]


@dataclass(frozen=True)
class EntriesImage:
    """What another process needs, beside the memory, to go on with entries."""

    name: str
    room: int


@dataclass(frozen=True)
class DurableTotalsImage(EntriesImage):
    """The same of durable entries."""

    counts: list[int]
    segments: list[SegmentImage]


@dataclass
class LogSegment:
    """A part of the log: its chunk, the first serial number given out since the part before, and what is in it."""

    meta: SegmentMeta
    slots: Stored
    gone: Stored

    @property
    def name(self) -> str:
        return self.meta.name

    def __len__(self) -> int:
        return len(self.slots) + len(self.gone)

    def discard(self) -> None:
        self.slots.discard()
        self.gone.discard()


class Entries(Slotted):
    """Open entries by 128 bits; `columns` are shapes and types of what is kept of each, zeros at first.

    `slots.rows` is the caller's.
    """

    def __init__(self, columns: Layout, memory: Memory, image: EntriesImage | None = None):
        self._layout_of_columns, self._memory = columns, memory
        self._room: int = image.room if image else FIRST_ROOM
        self._name: str = image.name if image else memory.name("entries")
        self._open(memory.arrays(self._name, self._layout()) if image else memory.allocate(self._name, self._layout()))
        if image is None:
            self._clear()

    def _layout(self) -> Layout:
        room, nothing = self._room, ((0, 0), "int64")
        return [*slot_layout(room), *(((room, *shape), kind) for shape, kind in (nothing, *self._layout_of_columns))]

    def _open(self, arrays: Sequence[AnyArray]) -> None:
        self.slots, self._nothing, self.columns = Slots(*arrays[:5]), arrays[5], arrays[6:]

    @property
    def image(self) -> EntriesImage:
        return EntriesImage(self._name, self._room)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in self.slots) + sum(a.nbytes for a in self.columns)

    def discard(self) -> None:
        self._memory.discard(self._name)

    def find(self, h1: Int64s, h2: Int64s) -> tuple[Int64s, Int64s]:
        """The slot of each key, and the places of the keys that are new, the first of each."""
        found, born = self._find(h1, h2)
        slots = found.astype(np.int64)
        for column in self.columns:
            column[slots[born]] = 0
        self.slots.refs[slots[born]] = 1
        return slots, born

    def seek(self, h1: Int64s, h2: Int64s) -> Int64s:
        """The slot of each key, -1 where it has none."""
        found = np.zeros(len(h1), np.int64)
        look_up(self.slots, h1, h2, found)
        return found

    def close(self, slots: Int64s) -> None:
        drop_cells(self.slots, self._nothing, slots)

    def _grow(self) -> None:
        name, slots, columns = self._name, self.slots, self.columns
        self._room *= 2
        self._name = self._memory.name("entries")
        self._open(self._memory.allocate(self._name, self._layout()))
        self._carry_over(slots)
        for old, new in zip(columns, self.columns, strict=True):
            new[: len(old)] = old
        self._memory.discard(name)


class DurableTotals(Entries):
    """Entries that are durable."""

    def __init__(self, columns: Layout, memory: Memory, image: DurableTotalsImage | None = None):
        super().__init__([*columns, *NUMBERED], memory, image)
        self._touched: list[Int64s] = []
        self._gone: list[Int64s] = []
        self.segments: list[LogSegment] = []
        self._serials, self._logged, self._number = image.counts if image else (0, 0, 0)
        for meta, slots, gone in image.segments if image else ():
            opened = Stored.open(memory, slots, INSIDE), Stored.open(memory, gone, INSIDE)
            self.segments.append(LogSegment(meta, *opened))

    @property
    def _serial(self) -> Int64s:
        return self.columns[-2]

    @property
    def _home(self) -> Int64s:
        """The number of the segment that has the newest version of an entry; -1 where none has it."""
        return self.columns[-1]

    @property
    def image(self) -> DurableTotalsImage:
        segments = [SegmentImage(part.meta, part.slots.image, part.gone.image) for part in self.segments]
        return DurableTotalsImage(self._name, self._room, self.meta.counts, segments)

    @property
    def nbytes(self) -> int:
        return super().nbytes + 8 * sum(len(segment) for segment in self.segments)

    def discard(self) -> None:
        super().discard()
        for segment in self.segments:
            segment.discard()

    def find(self, h1: Int64s, h2: Int64s) -> tuple[Int64s, Int64s]:
        slots, born = super().find(h1, h2)
        self._serial[slots[born]] = self._serials + np.arange(len(born))
        self._home[slots[born]] = -1
        self._serials += len(born)
        return slots, born

    def touch(self, slots: Int64s) -> None:
        """Note entries whose columns are other than before."""
        self._touched.append(slots)

    def close(self, slots: Int64s) -> None:
        self._gone.append(self._serial[slots[self._home[slots] >= 0]])
        super().close(slots)

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> DurableTotalsMeta:
        counts = [self._serials, self._logged, self._number]
        return DurableTotalsMeta(counts, [segment.meta for segment in self.segments])

    def log(self, chunks: ChunkLog, base: int, render: Callable[[Int64s], pa.Table]) -> list[str]:
        """Write what has changed as chunk number `base`; the chunks that are needed no more."""
        none = np.zeros(0, np.int64)
        touched, gone = np.unique(np.concatenate([none, *self._touched])), np.concatenate([none, *self._gone])
        touched = touched[self.slots.refs[touched] > 0]
        self._touched, self._gone = [], []
        obsolete: list[str] = []
        if not len(touched) and not len(gone):
            return obsolete
        first, size = self._logged, len(touched) + len(gone)
        while self.segments and len(self.segments[-1]) < 2 * size:
            segment = self.segments.pop()
            (slots,), (serials,) = segment.slots.arrays, segment.gone.arrays
            here = (self._home[slots] == segment.meta.number) & (self.slots.refs[slots] > 0)
            touched, gone = np.union1d(touched, slots[here]), np.concatenate([gone, serials])
            first, size = segment.meta.first, size + len(segment)
            obsolete.append(segment.name)
            segment.discard()
        gone = gone[gone < first] if self.segments else none  # of younger entries no segment is left that has them
        self._logged = self._serials
        if len(touched) or len(gone):
            table = _written(self._serial[touched], render(touched), gone)
            name = chunks.write(ChunkKind.TOTALS, Side.LEFT, base, table, FOREVER)
            self._home[touched] = self._number
            inside = Stored.keep(self._memory, [touched]), Stored.keep(self._memory, [gone])
            self.segments.append(LogSegment(SegmentMeta(self._number, name, first), *inside))
            self._number += 1
        return obsolete

    def contents(self, render: Callable[[Int64s], pa.Table]) -> pa.Table:
        """All open entries, as `contents_of` finds them in the log."""
        opened = self.opened
        table = _written(self._serial[opened], render(opened), np.zeros(0, np.int64))
        return table.append_column(SEGMENT, pa.array(self._home[opened]))

    def refill(self, meta: DurableTotalsMeta, entries: pa.Table, slots: Int64s, gone: Mapping[str, Int64s]) -> None:
        """Number entries in these slots as those of a log with this `meta`; `gone` are its segments' closed ones."""
        self._serials, self._logged, self._number = meta.counts
        self._serial[slots], self._home[slots] = entries[SERIAL].to_numpy(), entries[SEGMENT].to_numpy()
        for segment in meta.segments:
            mine = slots[self._home[slots] == segment.number]
            inside = Stored.keep(self._memory, [mine]), Stored.keep(self._memory, [gone[segment.name]])
            self.segments.append(LogSegment(segment, *inside))


def _written(serials: Int64s, entries: pa.Table, gone: Int64s) -> pa.Table:
    """A segment: open entries with what there is to say of them, and closed ones."""
    closed = pa.table({SERIAL: gone, OPEN: np.zeros(len(gone), bool)})
    opened = entries.append_column(SERIAL, pa.array(serials)).append_column(OPEN, pa.array(np.ones(len(serials), bool)))
    return pa.concat_tables([opened, closed], promote_options="default")


def closed_in(table: pa.Table) -> Int64s:
    """The serial numbers of the entries that a segment says are closed."""
    return table.filter(pc.invert(table[OPEN]))[SERIAL].to_numpy()


def contents_of(meta: DurableTotalsMeta, tables: Mapping[str, pa.Table]) -> pa.Table | None:
    """The open entries of a log, each as it was written last, with its segment's number; None where there are none."""
    segments = [(number, tables[name]) for number, name, _ in meta.segments]
    if not segments:
        return None
    parts = [table.append_column(SEGMENT, pa.array(np.full(table.num_rows, number))) for number, table in segments]
    table = pa.concat_tables(parts, promote_options="default")
    closed = np.concatenate([closed_in(table) for _, table in segments])
    serials = table[SERIAL].to_numpy()
    newest = len(serials) - 1 - np.unique(serials[::-1], return_index=True)[1]
    return table.take(pa.array(np.sort(newest[~np.isin(serials[newest], closed)])))
