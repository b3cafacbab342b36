"""Punctuations about ranges of keys: spelled out for the keys that occur (ding2004 3.1 leaves them to single values).

The index finds keys by their hash, which knows no order. So a range is remembered as such while it binds, and becomes a
punctuation of each key in it

    that has rows in the state, or a group that is not final, or rows that may go out alone into one, when the range
    comes into force: one look at each key of the state, for all ranges of a micro-batch together; and
    that rows or punctuations to come have, while it binds: one binary search for each range that binds in the distinct
    keys of the micro-batch.

A job whose streams have no ranges does none of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals import key_columns
from muntin.core.batch import TS
from muntin.core.punctuations.join_view import JoinView
from muntin.core.storage import ChunkKind, ChunkLog, Memory
from muntin.kernels.arrays import AnyArray, Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import hash_keys
from muntin.kernels.index import H1, H2
from muntin.kernels.join import Rows
from muntin.kernels.promises import NONE, Table, bound, one_of_each
from muntin.model import Side
from muntin.plan import SharedJoin

Keys = tuple[pa.ChunkedArray, Int64s, Int64s]
"""Values of a key of one column, and both halves of its hash."""
UNTIL, LOW, HIGH = "_until", "_low", "_high"


class RangePromises:
    """The ranges of each side that bind or will, in the order in which they came."""

    def __init__(self, join: SharedJoin, memory: Memory, image: Sequence[str | None] = (None, None)):
        self._memory = memory
        kind = arrow_type(join.keys[0].type)
        times = [pa.field(TS, pa.int64()), pa.field(UNTIL, pa.int64())]
        self._schema = pa.schema([*times, pa.field(LOW, kind), pa.field(HIGH, kind)])
        self._names = list(image)
        self._known = [memory.table(name) if name else self._schema.empty_table() for name in self._names]

    @property
    def image(self) -> list[str | None]:
        """For each side the name of its table in the memory; a side's are kept anew each time there are any."""
        for side in Side:
            if (name := self._names[side]) is not None:
                self._known[side] = pa.table(self._known[side].to_pydict(), schema=self._schema)  # off the file
                self._memory.discard(name)
            self._names[side] = self._memory.name("ranges") if self._known[side].num_rows else None
            if (name := self._names[side]) is not None:
                self._known[side] = self._memory.keep(name, self._known[side].combine_chunks())
        return list(self._names)

    def add(self, side: Side, number: int, columns: Sequence[Any], chunks: ChunkLog) -> None:
        """Take in ranges that are not late, given by time, until when they bind, and both ends; log them."""
        table = pa.table(columns, schema=self._schema)
        chunks.write(ChunkKind.RANGES, side, number, table, pc.max(table[UNTIL]).as_py())
        self.recall(side, table)

    def recall(self, side: Side, table: pa.Table) -> None:
        self._known[side] = pa.concat_tables([self._known[side], table.cast(self._schema)])

    def forget(self, release: int) -> None:
        """Let go of ranges that bind no more."""
        for side in Side:
            if self._known[side].num_rows:
                self._known[side] = self._known[side].filter(pc.greater_equal(self._known[side][UNTIL], release))

    def keys_over(
        self,
        view: JoinView,
        side: Side,
        rows: Rows,
        before: int,
        table: Table,
        marked: Keys,
    ) -> list[Any]:
        """Punctuations that ranges of a side stand for and that are not in force yet: time, key, until, value.

        `marked` are the keys of the other side's punctuations that come into force.
        """
        known = self._known[side]
        known = known.filter(pc.and_(pc.less(known[TS], view.release), pc.greater_equal(known[UNTIL], before)))
        if not known.num_rows:
            return [np.zeros(0, np.int64)] * 5
        starts, ends = known[TS].to_numpy(), known[UNTIL].to_numpy()
        values, h1, h2 = self._keys(view, rows, bool((starts >= before).any()), before, marked)
        first = np.searchsorted(values, _plain(known[LOW]), side="left")
        count = np.maximum(np.searchsorted(values, _plain(known[HIGH]), side="right") - first, 0)
        of = np.repeat(np.arange(len(starts)), count)
        key = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        begins, until = np.full(len(of), NONE), np.full(len(of), NONE)
        bound(table, h1[key], h2[key], begins, until)
        new = (begins == NONE) | (begins > starts[of]) | (until < ends[of])
        of, key = of[new], key[new]
        order = np.argsort(starts[of], kind="stable")
        of, key = of[order], key[order]
        chosen = pa.array(values[key], from_pandas=False)
        return [starts[of], h1[key], h2[key], ends[of], chosen.cast(self._schema.field(LOW).type)]

    def _keys(
        self, view: JoinView, rows: Rows, stored: bool, before: int, marked: Keys
    ) -> tuple[AnyArray, Int64s, Int64s]:
        """The distinct keys of rows to be joined, and of the state where it is `stored` that matters; by value."""
        parts = [(_plain(marked[0]), *marked[1:])]
        for side in Side:
            mine = np.flatnonzero(rows.side == side)
            parts.append(self._values(view, side, rows.row[mine], rows.h1[mine], rows.h2[mine]))
        if stored:
            numbers, homes = np.zeros(view.state.keys, np.int64), np.zeros(view.state.keys, np.int64)
            one_of_each(view.state.index, numbers, homes)
            slots = view.state.index.slots[homes]
            for side, own in ((Side.LEFT, numbers < 0), (Side.RIGHT, numbers >= 0)):
                rows_of = numbers[own] if side is Side.RIGHT else -1 - numbers[own]
                parts.append(self._values(view, side, rows_of, slots[own, H1], slots[own, H2]))
            parts += [(_plain(column), h1, h2) for column, h1, h2 in view.finals.open_keys()]
            parts += [self._keys_to_tell(view, side, before) for side in Side if view.finals.wait_for_matches]
        values, h1, h2 = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        distinct, at = np.unique(values, return_index=True)
        return distinct, h1[at], h2[at]

    def _keys_to_tell(self, view: JoinView, side: Side, before: int) -> tuple[AnyArray, Int64s, Int64s]:
        """The keys of rows of a side that may still go out alone; they may have left the state."""
        payload = view.payload[side]
        _, numbers = view.matches.to_tell(side, payload, view.selections[side].wants, before)
        (column,) = key_columns(view.join, side, payload.fetch(numbers)[0])
        h1, h2, valid = hash_keys([column])
        return _plain(column.drop_null()), h1[valid], h2[valid]

    def _values(
        self, view: JoinView, side: Side, numbers: Int64s, h1: Int64s, h2: Int64s
    ) -> tuple[Any, Int64s, Int64s]:
        """Keys of rows; those of rows without a key are left out."""
        found, places = view.payload[side].fetch(numbers)
        (column,) = key_columns(view.join, side, found)
        column = column.take(pa.array(places))
        there = np.asarray(column.is_valid())
        return _plain(column.drop_null()), h1[there], h2[there]


def _plain(column: pa.ChunkedArray) -> AnyArray:
    """Values that numpy can order: numbers and times as such, others as objects."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.to_numpy())
