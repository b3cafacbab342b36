"""Predicates, evaluated once: selections per row when it arrives, predicates over both sides per pair when it is found.

Rows of one side that satisfy the same selections are one *class* (wang2006 6.1: the row carries what it is wanted for);
a class is the set of queries that want its rows, as bits. There are as many classes as different sets occur, usually
few; a row carries its class number only. Pairs are classified in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.kernels.evaluate import evaluate
from muntin.kernels.index import CLASS_MASK
from muntin.kernels.join import Slicing
from muntin.model import Expr, MuntinError, Side
from muntin.plan import SharedJoin

UInt64s = npt.NDArray[np.uint64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


def query_bits(flags: Bools) -> UInt64s:
    """Rows of booleans, one per query, as words of 64 bits each."""
    rows, queries = flags.shape
    padded = np.zeros((rows, -(-queries // 64) * 64), np.uint8)
    padded[:, :queries] = flags
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


class Classes:
    """Sets of queries that want the same, by number, from the predicate that each query has (None: always true)."""

    def __init__(self, wheres: Sequence[Expr | None]):
        self.predicates: list[Expr] = list({w.sql: w for w in wheres if w is not None}.values())
        numbers = {p.sql: n for n, p in enumerate(self.predicates)}
        self._needs = [-1 if w is None else numbers[w.sql] for w in wheres]
        self._classes: dict[bytes, int] = {}
        self.wants: UInt64s = np.zeros((0, -(-len(wheres) // 64)), np.uint64)
        if not self.predicates:
            self._learn(np.zeros((1, 0), np.uint8))

    def columns(self, side: Side) -> list[str]:
        """The columns of a side that the predicates look at."""
        return list(dict.fromkeys(c for p in self.predicates for c in p.columns(side)))

    def numbers(self, table: pa.Table) -> Int32s:
        """The class of each row of a table with columns `l.x`, `r.y`."""
        if not self.predicates or table.num_rows == 0:
            return np.zeros(table.num_rows, np.int32)
        values = evaluate(table, [(p.sql, "boolean") for p in self.predicates])
        flags = np.stack([np.asarray(v.fill_null(False)) for v in values], axis=1)
        packed = np.ascontiguousarray(np.packbits(flags, axis=1, bitorder="little"))
        distinct, inverse = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
        return self._learn(distinct.view(np.uint8).reshape(len(distinct), -1))[inverse.ravel()]

    def _learn(self, packed: npt.NDArray[np.uint8]) -> Int32s:
        """Numbers of sets of satisfied predicates, new ones added."""
        new = [row for row in packed if row.tobytes() not in self._classes]
        if new:
            for row in new:
                self._classes[row.tobytes()] = len(self._classes)
            if len(self._classes) > CLASS_MASK:
                raise MuntinError(f"the selections divide the rows into more than {CLASS_MASK:,} classes")
            holds = np.unpackbits(np.array(new), axis=1, count=len(self.predicates), bitorder="little").astype(bool)
            self._extend(np.concatenate([holds, np.ones((len(new), 1), bool)], axis=1)[:, self._needs])
        return np.array([self._classes[row.tobytes()] for row in packed], np.int32)

    def _extend(self, flags: Bools) -> None:
        """Take in new classes, given by the queries that want them."""
        self.wants = np.concatenate([self.wants, query_bits(flags)])

    @property
    def image(self) -> list[str]:
        """The classes in order of their numbers."""
        return [packed.hex() for packed in self._classes]

    def remember(self, image: Sequence[str]) -> None:
        """Give the classes of an `image` their numbers back."""
        if self.predicates and image:
            self._learn(np.array([np.frombuffer(bytes.fromhex(packed), np.uint8) for packed in image]))


class Selections(Classes):
    """The selections of a shared join on one side."""

    def __init__(self, join: SharedJoin, side: Side):
        self.side = side
        self._windows = np.array([q.window.side(side.other) for q in join.queries], np.int64)
        self.reach: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """Per class: the age of a partner on the other side from which no query wants the pair; 0: no query at all."""
        super().__init__([q.where[side] for q in join.queries])

    def classify(self, rows: pa.Table) -> Int32s:
        """The class of each row of the side."""
        names = self.columns(self.side)
        table = rows.select(names).rename_columns([self.side.prefix + n for n in names])
        return self.numbers(table if names else pa.table({"_": pa.nulls(rows.num_rows)}))

    def _extend(self, flags: Bools) -> None:
        super()._extend(flags)
        self.reach = np.concatenate([self.reach, np.where(flags, self._windows, 0).max(axis=1)])


def slicing(join: SharedJoin, wants: Sequence[UInt64s]) -> Slicing:
    """The cuts of both sides' states as the kernels read them; `wants[side]` are the classes of each side."""
    slices = [join.slices(side) for side in Side]
    words, cuts, classes = wants[0].shape[1], max(map(len, slices)), max(len(wants[side]) for side in Side)
    bounds = np.zeros((2, cuts), np.int64)
    readers = np.zeros((2, cuts, words), np.uint64)
    wanted = np.zeros((2, classes, words), np.uint64)
    for side in Side:
        ends = np.array([s.hi for s in slices[side]], np.int64)
        windows = np.array([q.window.side(side) for q in join.queries], np.int64)
        bounds[side, : len(ends)] = ends
        readers[side, : len(ends)] = query_bits(windows >= ends[:, None])
        wanted[side, : len(wants[side])] = wants[side]
    return Slicing(bounds, readers, wanted)
