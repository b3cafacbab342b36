"""Pairs at rest: each is written once, into the slice of its age, with the queries that it belongs to as bits.

    age      0 ------ w1 ------------ w2 ------------------ w3
    slice    [  000  )[      001     )[         002         )
    readers  q1 q2 q3      q2 q3               q3

A query is the union of the slices that it reads, of the pairs that have its bit. Ages of both sides with the same
readers are one slice. A slice has the columns that its readers select, equal expressions once, whatever queries call
them. (wang2006 4.3 shares up to the router; here what is routed is shared as well, and readers do the last step.)

A `SliceLayout` is all that a reader needs, in plain values. It follows from the queries of a join alone; with other
queries there is another layout, with another name. So a query that comes later reads none of the slices of before, and
one that is gone keeps its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np
import pyarrow as pa

from muntin.core.results.output_columns import OUTPUT_TS, OutputColumns
from muntin.core.results.result_batch import ResultBatch
from muntin.core.results.routing import KINDS
from muntin.core.selections import everybody, query_bits, query_flags, readers_of, wanted_by
from muntin.kernels.arrays import Int16s, Int32s, Int64s, UInt64s
from muntin.kernels.evaluate import arrow_type
from muntin.model import Expr, Query, Side
from muntin.model.records import to_json
from muntin.plan import SharedJoin

BITS = "_queries"
"""The column with the queries of a pair, 64 to a word; further words have their number behind it."""
NOBODY_READS = -1


def is_sliced(query: Query) -> bool:
    """Whether the rows of a query are all pairs as they are found, and go to the output of the job."""
    as_found = query.is_inner and query.aggregation is None and not query.from_beginning
    return as_found and query.into is None and not query.hidden


@dataclass(frozen=True)
class SlicedQuery:
    """How a query is read: its number among the bits, and for each of its columns the one that is stored."""

    number: int
    columns: dict[str, str]

    @property
    def word(self) -> int:
        """The word that has its bit."""
        return self.number // 64

    @property
    def bits(self) -> str:
        """The column that has the word."""
        return word_name(self.word)

    @property
    def bit(self) -> int:
        """Its bit as a signed number of 64 bits, as the column has it."""
        return _signed(np.uint64(1 << self.number % 64))


@dataclass(frozen=True)
class StoredSlice:
    """Ages of a side, who reads them, and the columns that are stored."""

    ages: dict[str, list[tuple[int, int]]]
    """For each stream the ages of its row, where that is the earlier one; from, up to."""
    readers: list[str]
    columns: list[str]


@dataclass(frozen=True)
class SliceLayout:
    """The slices of one join, for one set of queries."""

    join: int
    """The number of the join: two that divide a stream between them have the same queries."""
    streams: tuple[str, str]
    queries: dict[str, SlicedQuery]
    columns: dict[str, str]
    """The stored columns and their types."""
    slices: list[StoredSlice]

    @cached_property
    def name(self) -> str:
        """The streams, and a hash of all of it."""
        plain = re.sub(r"\W", "_", "_".join(self.streams))
        return f"{plain}-{hashlib.sha256(json.dumps(to_json(self)).encode()).hexdigest()[:12]}"

    def schema(self, number: int) -> pa.Schema:
        """The columns of the files of a slice."""
        stored = [pa.field(name, arrow_type(self.columns[name])) for name in self.slices[number].columns]
        words = [pa.field(word_name(word), pa.int64(), nullable=False) for word in self.words(number)]
        return pa.schema([*stored, *words, OUTPUT_TS])

    def words(self, number: int) -> list[int]:
        """The words that have bits of the readers of a slice."""
        return sorted({self.queries[name].word for name in self.slices[number].readers})


def word_name(number: int) -> str:
    """The column of a word of bits."""
    return BITS if number == 0 else f"{BITS}_{number}"


class PairSlices:
    """The slices of a join as a task divides pairs among them."""

    def __init__(self, join: SharedJoin):
        self.join = join
        sliced = [is_sliced(query) for query in join.queries]
        self._bits = query_bits(np.array([sliced]))
        readers = readers_of(join) & self._bits
        if all(query.is_inner for query in join.queries):
            readers[:, everybody(join)] = 0
        found, self._slice_of = _numbered(readers)
        members = {n: query for n, query in enumerate(join.queries) if sliced[n]}
        self._exprs, columns = _columns(list(members.values()))
        queries = {query.name: SlicedQuery(n, columns[query.name]) for n, query in members.items()}
        self.layout = SliceLayout(
            join.index,
            (join.streams[0].name, join.streams[1].name),
            queries,
            {name: expr.type for name, expr in self._exprs.items()},
            [self._stored(n, bits[None, :], columns) for n, bits in enumerate(found)],
        )

    def _stored(self, number: int, bits: UInt64s, columns: dict[str, dict[str, str]]) -> StoredSlice:
        flags = query_flags(bits, len(self.join.queries))[0]
        readers = [query.name for query, reads in zip(self.join.queries, flags, strict=True) if reads]
        wanted = {stored for name in readers for stored in columns[name].values()}
        return StoredSlice(self._ages(number), readers, [name for name in self._exprs if name in wanted])

    def _ages(self, number: int) -> dict[str, list[tuple[int, int]]]:
        """The ages that a slice has of each stream, neighbours as one."""
        found: dict[str, list[tuple[int, int]]] = {}
        for side, stream in zip(Side, self.join.streams, strict=True):
            ends, spans = self.join.windows[side], list[tuple[int, int]]()
            for n, (lo, hi) in enumerate(zip((0, *ends), ends, strict=False)):
                if self._slice_of[side, n] == number:
                    goes_on = bool(spans) and spans[-1][1] == lo
                    spans = [*spans[:-1], (spans[-1][0], hi)] if goes_on else [*spans, (lo, hi)]
            found.setdefault(stream.name, []).extend(spans)
        return found

    def others(self, batch: ResultBatch) -> ResultBatch:
        """The same pairs for the queries that do not read slices."""
        left, right, allowed = batch.wants
        return replace(batch, wants=(left, right, allowed & ~self._bits))

    @property
    def has_others(self) -> bool:
        return len(self.layout.queries) < len(self.join.queries)

    def divide(self, batch: ResultBatch) -> DividedPairs:
        kinds, sets, tags = _kinds(self.join, batch)
        sets = sets & self._bits
        slices = np.where(sets.any(axis=1), self._slice_of[tags & 1, tags >> 1], NOBODY_READS).astype(np.int16)
        return DividedPairs(self, batch, kinds, sets, slices)


@dataclass(frozen=True)
class DividedPairs:
    """The pairs of a batch, by kinds: the pairs of a kind have the same slice and the same queries."""

    slices: PairSlices
    batch: ResultBatch
    _kinds: Int32s
    _sets: UInt64s
    """Of each kind, the queries."""
    _slice: Int16s
    """Of each kind, the slice."""

    def arrivals(self) -> dict[str, dict[int, int]]:
        """Rows of each query by when their pairs were complete, without making them."""
        moments, which = self.batch.completions
        kinds = len(self._sets)
        codes = which.astype(np.int64) * kinds + self._kinds if len(which) else self._kinds
        pairs = np.bincount(codes, minlength=len(moments) * kinds).reshape(len(moments), kinds)
        join = self.slices.join
        rows = pairs @ query_flags(self._sets, len(join.queries))
        found: dict[str, dict[int, int]] = {}
        for n, query in enumerate(join.queries):
            if rows[:, n].any():
                found[query.name] = {int(moments[m]): int(rows[m, n]) for m in np.flatnonzero(rows[:, n])}
        return found

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """The slices that get pairs, with their rows in timestamp order."""
        columns = OutputColumns(self.batch)
        of_pair = self._slice[self._kinds]
        order = np.argsort(of_pair, kind="stable")
        ends = np.searchsorted(of_pair[order], np.arange(-1, len(self.slices.layout.slices)), "right")
        for number, (begin, end) in enumerate(pairwise(ends)):
            if begin < end:
                yield number, self._table(columns, number, order[begin:end])

    def _table(self, columns: OutputColumns, number: int, chosen: Int64s) -> pa.Table:
        layout, exprs = self.slices.layout, self.slices._exprs
        places, mine = columns.places(chosen), self._sets[self._slice == number]
        arrays = [columns.values(exprs[name], places) for name in layout.slices[number].columns]
        if (mine == mine[:1]).all():
            arrays += [pa.repeat(pa.scalar(_signed(mine[0, word])), len(chosen)) for word in layout.words(number)]
        else:
            kinds = self._kinds[chosen]
            arrays += [pa.array(self._sets[:, word][kinds].view(np.int64)) for word in layout.words(number)]
        arrays.append(pa.array(columns.output_ts[chosen]).cast(OUTPUT_TS.type))
        return pa.Table.from_arrays(arrays, schema=layout.schema(number))


def _signed(word: np.uint64) -> int:
    """The number of 64 bits with a sign that has these bits."""
    return int(word.astype(np.int64))


def _kinds(join: SharedJoin, batch: ResultBatch) -> tuple[Int32s, UInt64s, Int32s]:
    """The kind of each pair, and of each kind that occurs the queries that want it and the tag."""
    sizes = 2 * (everybody(join) + 1), *(1 if (wants == wants[:1]).all() else len(wants) for wants in batch.wants)
    parts = [batch.tags, *(batch.classes(side) for side in Side), np.zeros(len(batch), np.int32)]
    if len(batch.verdicts) and sizes[3] > 1:
        parts[3] = batch.verdicts
    if prod(sizes) > KINDS:
        found, numbers = np.unique(np.column_stack(parts), axis=0, return_inverse=True)
        kinds = numbers.ravel().astype(np.int32)
        tags, left, right, verdicts = (found[:, n] for n in range(4))
    else:
        occur, kinds = _occurring(parts, sizes)
        tags, left, right, verdicts = (part.astype(np.int32) for part in np.unravel_index(occur, sizes))
    return kinds, wanted_by(join, batch.wants, (left, right), tags, verdicts), tags


def _occurring(parts: list[Int32s], sizes: tuple[int, ...]) -> tuple[Int64s, Int32s]:
    """One number for all parts of a kind, of those that occur, and for each pair which of them it is."""
    codes = parts[0].astype(np.int32)
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        codes = codes * np.int32(size) + part if size > 1 else codes
    occur = np.flatnonzero(np.bincount(codes, minlength=1))
    numbers = np.zeros(prod(sizes), np.int32)
    numbers[occur] = np.arange(len(occur), dtype=np.int32)
    return occur, numbers[codes]


def _numbered(readers: UInt64s) -> tuple[list[UInt64s], Int16s]:
    """The sets of readers that occur, from young ages to old ones, and for each side and window which one it has."""
    numbers: dict[bytes, int] = {}
    found: list[UInt64s] = []
    slice_of = np.full(readers.shape[:2], NOBODY_READS, np.int16)
    for window in range(readers.shape[1]):
        for side in Side:
            bits = readers[side, window]
            if bits.any():
                if bits.tobytes() not in numbers:
                    numbers[bits.tobytes()] = len(found)
                    found.append(bits)
                slice_of[side, window] = numbers[bits.tobytes()]
    return found, slice_of


def _columns(queries: list[Query]) -> tuple[dict[str, Expr], dict[str, dict[str, str]]]:
    """The expressions that are stored, by the name of the column, and how each query calls them.

    Equal expressions are one column. It has the first name that a query gives it, with a number where that is taken:
    the languages of readers do not tell upper and lower case apart.
    """
    stored: dict[str, Expr] = {}
    names: dict[tuple[str, str], str] = {}
    calls: dict[str, dict[str, str]] = {}
    for query in queries:
        for output in query.select:
            key = output.expr.sql, output.expr.type
            if key not in names:
                names[key] = _free(output.name, {name.lower() for name in stored})
                stored[names[key]] = output.expr
        calls[query.name] = {o.name: names[o.expr.sql, o.expr.type] for o in query.select}
    return stored, calls


def _free(name: str, taken: set[str]) -> str:
    """A name that no other column has; those that begin with _ are ours, and no query has one."""
    candidates = (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3)))
    return next(name for name in candidates if name.lower() not in taken)
