"""Predicates, evaluated once: selections per row when it arrives, predicates over both sides per pair when it is found.

Rows of one side that satisfy the same selections are one *class* (wang2006 6.1: the row carries what it is wanted for);
a class is the set of queries that want its rows, as bits. There are as many classes as different sets occur, usually
few; a row carries its class number only. Pairs are classified in the same way.

How many queries there are hardly matters: a row is placed in one region of each column that is compared with constants
(`plan.regions`), and the regions lead to the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from muntin.kernels.evaluate import evaluate
from muntin.kernels.index import CLASS_MASK
from muntin.kernels.join import Routes, Slicing, horizons
from muntin.model import Expr, MuntinError, Schema, Side
from muntin.plan import SharedJoin
from muntin.plan.regions import Predicates, Regions

NOTHING = Schema(())
TALLIED = 256
"""Classes whose rows are remembered over a restart, the most frequent ones: they are for estimates only."""
DENSE = 1 << 20
"""Combinations of regions up to which the class of each is kept in a table."""
KEY_LIMIT = 1 << 62
BUCKETS = 1 << 10
"""Ages that are told apart in the table that leads from an age to its window."""
HORIZONS = 1 << 18
"""Pairs of classes up to which the age from which nobody wants them is kept in a table."""


def query_bits(flags: Bools) -> UInt64s:
    """Rows of booleans, one per query, as words of 64 bits each."""
    rows, queries = flags.shape
    padded = np.zeros((rows, -(-queries // 64) * 64), np.uint8)
    padded[:, :queries] = flags
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def query_flags(bits: UInt64s, queries: int) -> Bools:
    """The other way round."""
    flags = np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), axis=1, count=queries, bitorder="little")
    return flags.astype(bool)


class Classes:
    """Sets of queries that want the same, by number, from the predicate that each query has (None: always true)."""

    def __init__(self, wheres: Sequence[Expr | None], queries: int, schema: Schema = NOTHING, prefix: str = ""):
        self._prefix = prefix
        distinct = {w.sql: w for w in wheres if w is not None}
        self.index = Predicates(list(distinct.values()), schema)
        numbers = {sql: n for n, sql in enumerate(distinct)}
        self._needs = [-1 if w is None else numbers[w.sql] for w in wheres]
        self._classes: dict[bytes, int] = {}
        self.holds: Bools = np.zeros((0, len(distinct)), bool)
        """Per class: the predicates that hold."""
        self.wants: UInt64s = np.zeros((0, -(-queries // 64)), np.uint64)
        """Per class: the queries that want it."""
        size = prod(self.index.sizes)
        self._known = np.full(size, -1, np.int32) if size <= DENSE else None
        if not self.predicates:
            self._learn(np.ones((1, 0), bool))

    @property
    def predicates(self) -> tuple[Expr, ...]:
        return self.index.predicates

    def columns(self, side: Side) -> list[str]:
        """The columns of a side that the predicates need."""
        return list(dict.fromkeys(c for p in self.predicates for c in p.columns(side)))

    def numbers(self, table: pa.Table) -> Int32s:
        """The class of each row of a table whose columns are named as expressions name them."""
        if not self.predicates or table.num_rows == 0:
            return np.zeros(table.num_rows, np.int32)
        codes = self._codes(table)
        keys = _combined(codes, self.index.sizes)
        if self._known is not None:
            found = self._known[keys[0]]
            new, first = np.unique(keys[0][found < 0], return_index=True)
            if len(new):
                rows = np.flatnonzero(found < 0)[first]
                self._known[new] = self._learn(self.index.holds([code[rows] for code in codes]))
                found = self._known[keys[0]]
            return found
        packed = np.ascontiguousarray(np.stack(keys, axis=1)).view(f"V{8 * len(keys)}").ravel()
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        return self._learn(self.index.holds([code[first] for code in codes]))[inverse.ravel()]

    def _codes(self, table: pa.Table) -> list[Int64s]:
        """The region of each row in each dimension."""
        codes = [_placed(regions, table[self._prefix + regions.column]) for regions in self.index.columns]
        if self.index.opaque:
            values = evaluate(table, [(p.sql, "boolean") for p in self.index.opaque])
            codes += [np.asarray(v.fill_null(False)).astype(np.int64) for v in values]
        return codes

    def _learn(self, holds: Bools) -> Int32s:
        """Numbers of sets of satisfied predicates, new ones added."""
        names = _names(holds)
        new = {name: n for n, name in reversed(list(enumerate(names))) if name not in self._classes}
        if new:
            self._append(holds[sorted(new.values())])
        return np.array([self._classes[name] for name in names], np.int32)

    def _append(self, holds: Bools) -> None:
        """Take in classes with the next numbers, also where there is one of the same predicates already."""
        for n, name in enumerate(_names(holds)):
            self._classes.setdefault(name, len(self.holds) + n)
        self.holds = np.concatenate([self.holds, holds])
        if len(self.holds) > CLASS_MASK:
            raise MuntinError(f"the selections divide the rows into more than {CLASS_MASK:,} classes")
        self._extend(self._wanted(holds))

    def _wanted(self, holds: Bools) -> Bools:
        """The queries that want rows for which these predicates hold."""
        return np.concatenate([holds, np.ones((len(holds), 1), bool)], axis=1)[:, self._needs]

    def _extend(self, flags: Bools) -> None:
        """Take in new classes, given by the queries that want them."""
        self.wants = np.concatenate([self.wants, query_bits(flags)])

    @property
    def image(self) -> list[str]:
        """The classes in order of their numbers."""
        return [name.hex() for name in _names(self.holds)]

    def remember(self, image: Sequence[str]) -> None:
        """Give the classes of an `image` their numbers back."""
        self._append(self._unpacked(image[len(self.holds) :]))

    def _unpacked(self, names: Sequence[str]) -> Bools:
        size = -(-len(self.predicates) // 8)
        packed = np.array([list(bytes.fromhex(name)) for name in names], np.uint8).reshape(len(names), size)
        return np.unpackbits(packed, axis=1, count=len(self.predicates), bitorder="little").astype(bool)


def _named(rows: pa.Table, columns: list[str], prefix: str) -> pa.Table:
    """Columns as expressions name them; without any, as many rows of nothing."""
    if not columns:
        return pa.table({"_": pa.nulls(rows.num_rows)})
    return rows.select(columns).rename_columns([prefix + name for name in columns])


def _names(holds: Bools) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(holds, axis=1, bitorder="little")]


def _placed(regions: Regions, values: pa.ChunkedArray) -> Int64s:
    """The region of each value of a column."""
    missing = np.asarray(values.is_null())
    if not regions.ordered and not pa.types.is_floating(values.type):
        found = pc.index_in(values, value_set=pa.array(regions.points, values.type))
        codes = np.asarray(found.fill_null(len(regions.points))).astype(np.int64)
    else:
        kind = np.float64 if pa.types.is_floating(values.type) else np.int64
        numbers, points = np.asarray(values.fill_null(0)).astype(kind), np.array(regions.points, kind)
        left, right = (np.searchsorted(points, numbers, end) for end in ("left", "right"))
        codes = left + right if regions.ordered else np.where(left < right, left, len(points))
    codes[missing] = regions.size - 1
    return codes


def _combined(codes: list[Int64s], sizes: Sequence[int]) -> list[Int64s]:
    """One number for each row's combination of regions; several where one would not do."""
    keys, room = [np.zeros_like(codes[0])], 1
    for code, size in zip(codes, sizes, strict=True):
        if room * size > KEY_LIMIT:
            keys.append(np.zeros_like(code))
            room = 1
        keys[-1] = keys[-1] * size + code
        room *= size
    return keys


class Selections(Classes):
    """The selections of a shared join on one side: which queries want a row, how far it probes, how long it stays."""

    def __init__(self, join: SharedJoin, side: Side):
        self.side = side
        self._selects = join.selects
        self._own, self._theirs = (
            np.array([q.window.side(s) for q in join.queries], np.int64) for s in (side, side.other)
        )
        self._ends = np.array(join.cuts[side], np.int64)
        partition = join.partitions[side]
        self._truths = None if partition is None else np.array(partition.truths, bool)
        self.reach: Int64s = np.zeros(0, np.int64)
        """Per class: the age of a partner on the other side from which no query wants the pair; 0: no query at all."""
        self.keep: Int64s = np.zeros(0, np.int64)
        """Per class: the age at which its rows leave the state, the end of a slice; 0 where they do not enter it."""
        self.rows: Int64s = np.zeros(0, np.int64)
        """Per class: how many rows have come."""
        self._schema = join.streams[side].schema
        wheres = [q.where[side] for q in join.queries] if partition is None else partition.predicates
        super().__init__(wheres, len(join.queries), self._schema, side.prefix)

    def classify(self, rows: pa.Table) -> Int32s:
        """The class of each row of the side."""
        return self.numbers(_named(rows, self.columns(self.side), self._prefix))

    def note(self, classes: Int32s) -> None:
        """Count rows that have come."""
        self.rows += np.bincount(classes, minlength=len(self.rows))

    @property
    def tally(self) -> list[tuple[str, int]]:
        """The most frequent classes by name, with the rows that have come."""
        names, top = self.image, np.argsort(-self.rows, kind="stable")[:TALLIED]
        return [(names[n], int(self.rows[n])) for n in np.sort(top)]

    def recall(self, tally: Sequence[tuple[str, int]]) -> None:
        """Go on counting from a tally."""
        if tally:
            numbers = self._learn(self._unpacked([name for name, _ in tally]))
            self.rows[:] = 0
            np.add.at(self.rows, numbers, [rows for _, rows in tally])

    def adopt(self, old: Selections) -> list[int]:
        """Take over the classes of the queries before, with their numbers; which of the predicates are new.

        Classes say nothing of new predicates: they count as not true, until the rows themselves are asked (`refined`).
        """
        numbers = {p.sql: n for n, p in enumerate(old.predicates)}
        columns = [numbers.get(p.sql, -1) for p in self.predicates]
        known = np.concatenate([old.holds, np.zeros((len(old.holds), 1), bool)], axis=1)
        self._classes.clear()
        self.holds, self.wants = self.holds[:0], self.wants[:0]
        self.keep, self.reach, self.rows = self.keep[:0], self.reach[:0], self.rows[:0]
        self._append(known[:, columns])
        self.rows[:] = old.rows
        if not len(self.holds) and not self.predicates:
            self._learn(np.ones((1, 0), bool))
        return [n for n, column in enumerate(columns) if column < 0]

    def refined(self, new: Sequence[int]) -> Callable[[pa.Table, Int32s], Int32s]:
        """The classes of rows that were classified before some of the predicates were there."""
        asked = Classes([self.predicates[n] for n in new], len(new), self._schema, self._prefix)

        def becomes(rows: pa.Table, classes: Int32s) -> Int32s:
            outcomes = asked.numbers(_named(rows, asked.columns(self.side), self._prefix))
            found, inverse = np.unique(classes * np.int64(len(asked.holds)) + outcomes, return_inverse=True)
            holds = self.holds[found // len(asked.holds)]
            holds[:, new] = asked.holds[found % len(asked.holds)]
            return self._learn(holds)[inverse.ravel()]

        return becomes

    def lanes(self) -> Int64s:
        """Per class: the slice with whose end its rows leave."""
        return np.searchsorted(self._ends, self.keep)

    def _wanted(self, holds: Bools) -> Bools:
        if self._truths is None:
            return super()._wanted(holds)
        return np.repeat((holds == self._truths).all(axis=1)[:, None], len(self._own), axis=1)

    def _extend(self, flags: Bools) -> None:
        super()._extend(flags)
        stored = flags if self._selects else np.ones_like(flags)
        longest = np.where(stored, self._own, 0).max(axis=1)
        kept = np.where(longest > 0, self._ends[np.searchsorted(self._ends, longest).clip(max=len(self._ends) - 1)], 0)
        self.keep = np.concatenate([self.keep, kept])
        self.reach = np.concatenate([self.reach, np.where(stored, self._theirs, 0).max(axis=1)])
        self.rows = np.concatenate([self.rows, np.zeros(len(flags), np.int64)])


def routes(join: SharedJoin, wants: Sequence[UInt64s]) -> Routes:
    """Who receives what, as the kernels read it; `wants[side]` are the classes of each side."""
    words, classes = wants[0].shape[1], max(len(wants[side]) for side in Side)
    readers = np.zeros((2, max(map(len, join.windows)), words), np.uint64)
    wanted = np.zeros((2, classes, words), np.uint64)
    for side in Side:
        ends = np.array(join.windows[side], np.int64)
        windows = np.array([q.window.side(side) for q in join.queries], np.int64)
        readers[side, : len(ends)] = query_bits(windows >= ends[:, None])
        wanted[side, : len(wants[side])] = wants[side]
    return Routes(readers, wanted)


def per_class(left: Int64s, right: Int64s) -> Int64s:
    """Figures of each class of both sides as one array, padded where the sides differ."""
    both = np.zeros((2, max(len(left), len(right))), np.int64)
    both[0, : len(left)], both[1, : len(right)] = left, right
    return both


def slicing(join: SharedJoin, selections: Sequence[Selections]) -> Slicing:
    """The cuts of both sides' states as the kernels read them."""
    cuts = np.zeros((2, max(map(len, join.cuts))), np.int64)
    first = np.zeros((2, cuts.shape[1] + 1), np.int64)
    windows = np.zeros((2, max(map(len, join.windows))), np.int64)
    for side in Side:
        ends, inside = join.cuts[side], join.windows[side]
        cuts[side, : len(ends)] = ends
        windows[side, : len(inside)] = inside
        first[side, : len(ends) + 1] = np.searchsorted(inside, (0, *ends), side="right")
    reach, keep = (per_class(*(getattr(s, name) for s in selections)) for name in ("reach", "keep"))
    readers = routes(join, [s.wants for s in selections])
    guess, bucket = _guesses(join)
    return Slicing(cuts, first, windows, guess, bucket, reach, keep, _horizons(join, selections), readers)


def _guesses(join: SharedJoin) -> tuple[Int32s, Int64s]:
    """For each side a table from ages to windows, in buckets of a power of two; the last bucket holds the reach."""
    guesses, bucket = [], np.zeros(2, np.int64)
    for side in Side:
        bucket[side] = max(0, join.reach(side).bit_length() - BUCKETS.bit_length() + 1)
        starts = np.arange(BUCKETS + 1) << bucket[side]
        places = np.searchsorted(np.array(join.windows[side], np.int64), starts, side="right")
        guesses.append(2 * places[:-1] + (places[1:] > places[:-1]))
    return np.concatenate(guesses).astype(np.int32), bucket


def _horizons(join: SharedJoin, selections: Sequence[Selections]) -> Int64s:
    """The age from which nobody wants a pair of two classes; empty where there are too many of them."""
    left, right = (len(s.wants) for s in selections)
    if left * right > HORIZONS:
        return np.zeros((2, 0, 0), np.int64)
    found = np.zeros((2, left, right), np.int64)
    for side in Side:
        if not join.selects:
            found[side] = join.reach(side)
            continue
        windows = np.array([q.window.side(side) for q in join.queries], np.int64)
        order = np.argsort(windows, kind="stable")
        bits = [query_bits(query_flags(s.wants, len(windows))[:, order]) for s in selections]
        horizons(bits[0], bits[1], windows[order], found[side])
    return found
