"""The stored rows themselves, by row number: what the index points at.

Rows of a side are numbered in the order of their arrival. They lie in immutable Arrow tables, one per micro-batch at
first; neighbours of similar size are merged (each row is copied O(log n) times at most), so that fetching costs the
same whether the rows came in large or in tiny micro-batches.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.core.storage.memory import Layout, Memory
from muntin.core.storage.merging import first_to_merge
from muntin.kernels.arrays import Int32s, Int64s, UInt64s
from muntin.kernels.route import look_up, renumber, spans

RANGE_BITS, RANGES = 39, 16
"""Rows that stay for different times are numbered in ranges of their own, so that those that have left lie together."""
MERGED_ROWS = 1 << 18
"""Tables of this size are not merged any further, so that old rows are given back in pieces."""


class TableImage(NamedTuple):
    """What another process needs, beside the memory, to find a table of stored rows."""

    first: int
    """The number of its first row."""
    table: str
    classes: str


class StoredRows:
    """Rows by number: what never changes as tables; and of each row its class, which does when queries come and go,
    the queries for which it has met a partner, as `words` of bits, and as many `times` as some queries ask for."""

    def __init__(
        self, schema: pa.Schema, memory: Memory, image: Sequence[TableImage] = (), words: int = 0, times: int = 0
    ):
        self.schema = schema
        self._memory = memory
        self._words = words
        self._width = times
        self._bases = [kept.first for kept in image]
        self._names = [(kept.table, kept.classes) for kept in image]
        self._tables = [memory.table(name) for name, _ in self._names]
        self._classes: list[Int32s] = []
        self._met: list[UInt64s] = []
        self._times: list[Int64s] = []
        for (_, name), table in zip(self._names, self._tables, strict=True):
            classes, met, own = memory.arrays(name, self._layout(table.num_rows))
            self._classes.append(classes)
            self._met.append(met)
            self._times.append(own)

    def _layout(self, rows: int) -> Layout:
        return [((rows,), "int32"), ((rows, self._words), "uint64"), ((rows, self._width), "int64")]

    @property
    def image(self) -> list[TableImage]:
        """What another process needs to go on with these rows, beside the memory."""
        return [TableImage(base, *names) for base, names in zip(self._bases, self._names, strict=True)]

    def __len__(self) -> int:
        return sum(t.num_rows for t in self._tables)

    @property
    def nbytes(self) -> int:
        beside = zip(self._classes, self._met, self._times, strict=True)
        return sum(t.nbytes for t in self._tables) + sum(c.nbytes + m.nbytes + t.nbytes for c, m, t in beside)

    def add(self, base: int, table: pa.Table, classes: Int32s, times: Int64s | None = None) -> None:
        """Take in rows numbered from `base`."""
        if table.num_rows == 0:
            return
        end = bisect.bisect(self._bases, base)
        adjacent = self._adjacent(end, base)
        at = adjacent + first_to_merge([t.num_rows for t in self._tables[adjacent:end]], table.num_rows, MERGED_ROWS)
        base = self._bases[at] if at < end else base
        before = [self._remove(at) for _ in range(at, end)]
        names = self._memory.name("payload"), self._memory.name("classes")
        merged = pa.concat_tables([*(t for t, *_ in before), table]).combine_chunks() if before else table
        kept, met, own = self._memory.allocate(names[1], self._layout(merged.num_rows))
        kept[:] = np.concatenate([*(c for _, c, *_ in before), classes])
        met[: len(kept) - len(classes)] = np.concatenate([met[:0], *(m for *_, m, _ in before)])
        if times is not None:
            own[:] = np.concatenate([*(t for *_, t in before), times])
        self._bases.insert(at, base)
        self._names.insert(at, names)
        self._tables.insert(at, self._memory.keep(names[0], merged))
        self._classes.insert(at, kept)
        self._met.insert(at, met)
        self._times.insert(at, own)

    def _adjacent(self, end: int, base: int) -> int:
        """The first of the tables before `end` from which on the numbers go up to `base` without a gap."""
        while end > 0 and self._bases[end - 1] + self._tables[end - 1].num_rows == base:
            end -= 1
            base = self._bases[end]
        return end

    def _remove(self, at: int) -> tuple[pa.Table, Int32s, UInt64s, Int64s]:
        for name in self._names.pop(at):
            self._memory.discard(name)
        self._bases.pop(at)
        return self._tables.pop(at), self._classes.pop(at), self._met.pop(at), self._times.pop(at)

    def widen(self, schema: pa.Schema) -> None:
        """Go on with more columns, which are NULL in the rows that are there."""
        if schema == self.schema:
            return
        self.schema = schema
        columns = schema.remove(1)  # classes lie beside the tables
        for n, (name, classes) in enumerate(self._names):
            wider = self._memory.name("payload")
            self._tables[n] = self._memory.keep(wider, with_columns(self._tables[n], columns))
            self._names[n] = wider, classes
            self._memory.discard(name)

    def reclassify(self, becomes: Callable[[pa.Table, Int32s], Int32s]) -> None:
        """Give every row the class that follows from its columns and the class it had."""
        for table, classes in zip(self._tables, self._classes, strict=True):
            classes[:] = becomes(table, classes)

    def class_by_number(self) -> Callable[[Int64s], Int32s]:
        """The class of any rows by their numbers."""
        sizes = np.array([len(c) for c in self._classes], np.int64)
        bases, starts = np.array(self._bases, np.int64), np.cumsum(sizes) - sizes
        every = np.concatenate([np.zeros(0, np.int32), *self._classes])

        def classes(numbers: Int64s) -> Int32s:
            found = np.empty(len(numbers), np.int32)
            look_up(numbers, bases, starts, every, found)
            return found

        return classes

    @property
    def numbers(self) -> Int64s:
        """The numbers of all rows, ascending."""
        spans_ = [np.arange(base, base + t.num_rows) for base, t in zip(self._bases, self._tables, strict=True)]
        return np.concatenate([np.zeros(0, np.int64), *spans_])

    def classes_of(self, first: int, rows: int) -> Int32s:
        """The classes of rows that came together, and so lie in one table."""
        at = bisect.bisect_right(self._bases, first) - 1
        start = first - self._bases[at]
        return self._classes[at][start : start + rows]

    def forget(self, needed: Mapping[int, int]) -> None:
        """Give back the tables of which nothing is needed: `needed` is the first number needed in each range."""
        for at in reversed(range(len(self._bases))):
            end = self._bases[at] + self._tables[at].num_rows
            if end <= needed.get(self._bases[at] >> RANGE_BITS, end):
                self._remove(at)

    def fetch(self, numbers: Int64s) -> tuple[pa.Table, Int32s]:
        """Each of these rows once, and the place of every number among them."""
        rows, places = distinct(numbers)
        return self.take(rows), places

    def take(self, rows: Int64s) -> pa.Table:
        """The rows of these ascending numbers."""
        if len(rows) == 0:
            return self.schema.empty_table()
        return pa.concat_tables([self._take(n, places) for n, places in self._places(rows)]).combine_chunks()

    def _places(self, rows: Int64s) -> Iterator[tuple[int, Int64s]]:
        """The tables that have some of these ascending numbers, with their places in them."""
        if len(rows):
            first = bisect.bisect_right(self._bases, int(rows[0])) - 1
            last = bisect.bisect_right(self._bases, int(rows[-1])) - 1
            cuts = np.searchsorted(rows, self._bases[first + 1 : last + 1])
            for n, part in zip(range(first, last + 1), np.split(rows, cuts), strict=True):
                if len(part):
                    yield n, part - self._bases[n]

    # -- whom a row has met ---------------------------------------------------------------------------------------

    def known_of(self, rows: Int64s) -> tuple[Int32s, UInt64s]:
        """Of these ascending numbers the classes, and the queries for which each has met a partner."""
        parts = [(self._classes[n][places], self._met[n][places]) for n, places in self._places(rows)]
        if not parts:
            return np.zeros(0, np.int32), np.zeros((0, self._words), np.uint64)
        return np.concatenate([c for c, _ in parts]), np.concatenate([m for _, m in parts])

    def note_met(self, rows: Int64s, met: UInt64s) -> None:
        """Note of these ascending numbers the queries for which each has met a partner."""
        start = 0
        for n, places in self._places(rows):
            self._met[n][places] = met[start : start + len(places)]
            start += len(places)

    def change_met(self, words: int, becomes: Callable[[UInt64s], UInt64s]) -> None:
        """Go on with other queries: with so many words, and for each row the bits that follow from those it had."""
        self._words = words
        for n, met in enumerate(self._met):
            self._replace_beside(n, becomes(met), self._times[n])

    def change_times(self, width: int, of: Callable[[pa.Table], Int64s]) -> None:
        """Go on with other times: with so many, and for each row those that follow from its columns."""
        self._width = width
        for n, table in enumerate(self._tables):
            self._replace_beside(n, self._met[n], of(table))

    def _replace_beside(self, n: int, met: UInt64s, times: Int64s) -> None:
        """Keep something else beside the rows of a table."""
        name, classes = self._memory.name("classes"), self._classes[n]
        kept = self._memory.allocate(name, self._layout(len(classes)))
        for target, values in zip(kept, (classes, met, times), strict=True):
            target[:] = values
        self._classes[n], self._met[n], self._times[n] = kept
        self._memory.discard(self._names[n][1])
        self._names[n] = self._names[n][0], name

    def times_of(self, rows: Int64s) -> Int64s:
        """The times of rows by their ascending numbers."""
        parts = [self._times[n][places] for n, places in self._places(rows)]
        return np.concatenate([np.zeros((0, self._width), np.int64), *parts])

    def times_from(self, first: int, rows: int) -> Int64s:
        """The times of rows that came together, and so lie in one table."""
        at = bisect.bisect_right(self._bases, first) - 1
        start = first - self._bases[at]
        return self._times[at][start : start + rows]

    @property
    def have_met(self) -> tuple[Int64s, UInt64s]:
        """The numbers of all rows that have met a partner, ascending, and for which queries."""
        rows, met = [np.zeros(0, np.int64)], [np.zeros((0, self._words), np.uint64)]
        for base, bits in zip(self._bases, self._met, strict=True):
            some = np.flatnonzero(bits.any(axis=1))
            rows.append(base + some)
            met.append(bits[some])
        return np.concatenate(rows), np.concatenate(met)

    def _take(self, at: int, places: Int64s) -> pa.Table:
        rows = self._tables[at].take(pa.array(places))
        return rows.add_column(1, self.schema.field(1), pa.array(self._classes[at][places]))


def with_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with the columns of a schema; those that they do not have are NULL."""
    if rows.schema.equals(schema):
        return rows
    there = set(rows.column_names)
    columns = [rows[f.name] if f.name in there else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def distinct(numbers: Int64s) -> tuple[Int64s, Int32s]:
    """Distinct values ascending and the place of each among them; by marking where the range is dense, else by
    sorting."""
    if len(numbers) == 0:
        return numbers, np.zeros(0, np.int32)
    lows, highs = np.full(RANGES, np.iinfo(np.int64).max), np.full(RANGES, -1)
    spans(numbers, RANGE_BITS, lows, highs)
    widths = np.maximum(highs - lows, -1) + 1
    if widths.sum() < 16 * len(numbers):
        return renumber(numbers, RANGE_BITS, lows, np.cumsum(widths) - widths, int(widths.sum()))
    found, places = np.unique(numbers, return_inverse=True)
    return found, places.astype(np.int32)
