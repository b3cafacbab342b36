"""Sets of queries that want the same rows, by number.

Rows of one side that satisfy the same selections are one *class* (wang2006 6.1: the row carries what it is wanted for);
a class is the set of queries that want its rows, as bits. There are as many classes as different sets occur, usually
few; a row carries its class number only. Pairs are classified in the same way.

How many queries there are hardly matters: a row is placed in one region of each column that is compared with constants
(`plan.regions`), and the regions lead to the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.kernels.arrays import Bools, Int32s, Int64s, UInt64s
from muntin.kernels.evaluate import evaluate
from muntin.kernels.index import CLASS_MASK
from muntin.model import Expr, MuntinError, Schema, Side
from muntin.plan.regions import Predicates, Regions

NOTHING = Schema(())
DENSE = 1 << 20
"""Combinations of regions up to which the class of each is kept in a table."""
KEY_LIMIT = 1 << 62
"""Combinations of regions that one number can tell apart."""


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


def named(rows: pa.Table, columns: list[str], prefix: str) -> pa.Table:
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
