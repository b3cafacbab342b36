"""Selections, evaluated once per row when it arrives (wang2006 6.1: the row carries what it is wanted for).

Rows of one side that satisfy the same selections are one *class*; a class is the set of queries that want its rows, as
bits. There are as many classes as different sets occur, usually few; a row carries its class number only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.kernels.evaluate import evaluate
from muntin.kernels.join import Slicing
from muntin.model import Expr, Side
from muntin.plan import SharedJoin

UInt64s = npt.NDArray[np.uint64]


def query_bits(flags: npt.NDArray[np.bool_]) -> UInt64s:
    """Rows of booleans, one per query, as words of 64 bits each."""
    rows, queries = flags.shape
    padded = np.zeros((rows, -(-queries // 64) * 64), np.uint8)
    padded[:, :queries] = flags
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


class Selections:
    """The selections of a shared join on one side, and the classes of rows seen so far."""

    def __init__(self, join: SharedJoin, side: Side):
        self.side = side
        self.join = join
        wheres = [q.where[side] for q in join.queries]
        self.predicates: list[Expr] = list({w.sql: w for w in wheres if w is not None}.values())
        numbers = {p.sql: n for n, p in enumerate(self.predicates)}
        self._needs = [-1 if w is None else numbers[w.sql] for w in wheres]
        self._classes: dict[bytes, int] = {}
        self.wants: UInt64s = np.zeros((0, self.words), np.uint64)
        self.reach: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """Per class: the age of a partner on the other side from which no query wants the pair."""
        if not self.predicates:
            self._learn(np.zeros((1, 0), np.uint8))

    @property
    def words(self) -> int:
        return -(-len(self.join.queries) // 64)

    def classify(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """The class of each row."""
        if not self.predicates or rows.num_rows == 0:
            return np.zeros(rows.num_rows, np.int32)
        names = list(dict.fromkeys(c for p in self.predicates for c in p.columns(self.side)))
        table = rows.select(names).rename_columns([self.side.prefix + n for n in names])
        if not names:
            table = pa.table({"_": pa.nulls(rows.num_rows)})
        values = evaluate(table, [(p.sql, "boolean") for p in self.predicates])
        flags = np.stack([np.asarray(v.fill_null(False)) for v in values], axis=1)
        packed = np.ascontiguousarray(np.packbits(flags, axis=1, bitorder="little"))
        distinct, inverse = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
        numbers = self._learn(distinct.view(np.uint8).reshape(len(distinct), -1))
        return numbers[inverse.ravel()]

    def _learn(self, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
        """Class numbers of sets of satisfied predicates, new ones added."""
        new = [row for row in packed if row.tobytes() not in self._classes]
        if new:
            for row in new:
                self._classes[row.tobytes()] = len(self._classes)
            holds = np.unpackbits(np.array(new), axis=1, count=len(self.predicates), bitorder="little").astype(bool)
            always = np.ones((len(new), 1), bool)
            flags = np.concatenate([holds, always], axis=1)[:, self._needs]
            windows = np.array([q.window.side(self.side.other) for q in self.join.queries], np.int64)
            self.wants = np.concatenate([self.wants, query_bits(flags)])
            self.reach = np.concatenate([self.reach, np.where(flags, windows, 0).max(axis=1)])
        return np.array([self._classes[row.tobytes()] for row in packed], np.int32)

    @property
    def image(self) -> list[str]:
        """The classes in order of their numbers."""
        return [packed.hex() for packed in self._classes]

    def remember(self, image: Sequence[str]) -> None:
        """Give the classes of an `image` their numbers back."""
        if self.predicates and image:
            self._learn(np.array([np.frombuffer(bytes.fromhex(packed), np.uint8) for packed in image]))


def slicing(join: SharedJoin, wants: Sequence[UInt64s]) -> Slicing:
    """The cuts of both sides' states as the kernels read them; `wants[side]` are the classes of each side."""
    slices = [join.slices(side) for side in Side]
    words, cuts, classes = wants[0].shape[1], max(map(len, slices)), max(map(len, wants))
    bounds = np.zeros((2, cuts), np.int64)
    readers = np.zeros((2, cuts, words), np.uint64)
    wanted = np.zeros((2, classes, words), np.uint64)
    for side in Side:
        flags = np.array([[q.name in s.readers for q in join.queries] for s in slices[side]], bool)
        bounds[side, : len(slices[side])] = [s.hi_us for s in slices[side]]
        readers[side, : len(slices[side])] = query_bits(flags)
        wanted[side, : len(wants[side])] = wants[side]
    return Slicing(bounds, readers, wanted)
