"""Punctuations about ranges of keys, or every key: spelled out for those that occur (ding2004 3.1 leaves this open).

The index finds keys by their hash, which knows no order. So a range is remembered as such while it binds, and becomes a
punctuation of each key in it

    that has rows in the state, or a group that is not final, or rows that may go out alone into one, when the range
    comes into force: one look at each key of the state, for all ranges of a micro-batch together; and
    that rows or punctuations to come have, while it binds: one binary search for each range that binds in the distinct
    keys of the micro-batch.

A punctuation about every key is a range without ends. A job whose streams have neither does none of this.
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
from muntin.core.storage import ChunkKind, ChunkLog, Memory, kept_anew
from muntin.kernels.arrays import AnyArray, Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import hash_keys
from muntin.kernels.index import H1, H2
from muntin.kernels.join import Rows
from muntin.kernels.promises import NONE, Table, bound, one_of_each
from muntin.model import Side
from muntin.plan import SharedJoin

Keys = tuple[Sequence[pa.ChunkedArray], Int64s, Int64s]
"""Values of keys, column by column, and both halves of their hashes."""
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
            kept = kept_anew(self._memory, "ranges", self._names[side], self._known[side])
            self._names[side], self._known[side] = kept
        return list(self._names)

    def add(self, side: Side, number: int, columns: Sequence[Any], chunks: ChunkLog) -> None:
        """Take in ranges that are not late, given by time, until when they bind, and both ends; log them.

        The ends are NULL where they are about every key.
        """
        table = pa.table(columns, schema=self._schema)
        chunks.write(ChunkKind.RANGES, side, number, table, pc.max(table[UNTIL]).as_py())
        self.recall(side, table)

    def recall(self, side: Side, table: pa.Table) -> None:
        self._known[side] = pa.concat_tables([self._known[side], table.cast(self._schema)])

    def last_word(self, side: Side, release: int) -> int:
        """The time of a side's last punctuation about every key that still binds; NONE where there is none."""
        known = self._known[side]
        mine = known.filter(pc.and_(pc.is_null(known[LOW]), pc.greater_equal(known[UNTIL], release)))
        return int(pc.max(mine[TS]).as_py()) if mine.num_rows else NONE

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
        places, first, count = _covered(known, values, h1, h2)
        of = np.repeat(np.arange(len(starts)), count)
        key = places[np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)]
        begins, until = np.full(len(of), NONE), np.full(len(of), NONE)
        bound(table, h1[key], h2[key], begins, until)
        new = (begins == NONE) | (begins > starts[of]) | (until < ends[of])
        of, key = of[new], key[new]
        order = np.argsort(starts[of], kind="stable")
        of, key = of[order], key[order]
        return [starts[of], h1[key], h2[key], ends[of], *(column.take(pa.array(key)) for column in values)]

    def _keys(self, view: JoinView, rows: Rows, stored: bool, before: int, marked: Keys) -> Keys:
        """The keys of rows to be joined, and of the state where it is `stored` that matters; some of them twice."""
        parts = [marked]
        for side in Side:
            mine = np.flatnonzero(rows.side == side)
            parts.append(_values(view, side, rows.row[mine], rows.h1[mine], rows.h2[mine]))
        if stored:
            numbers, homes = np.zeros(view.state.keys, np.int64), np.zeros(view.state.keys, np.int64)
            one_of_each(view.state.index, numbers, homes)
            slots = view.state.index.slots[homes]
            for side, own in ((Side.LEFT, numbers < 0), (Side.RIGHT, numbers >= 0)):
                rows_of = numbers[own] if side is Side.RIGHT else -1 - numbers[own]
                parts.append(_values(view, side, rows_of, slots[own, H1], slots[own, H2]))
            parts += view.finals.open_keys()
            parts += [_keys_to_emit(view, side, before) for side in Side if view.finals.wait_for_matches]
        columns, h1, h2 = zip(*parts, strict=True)
        values = [pa.chunked_array([c for column in own for c in column.chunks], own[0].type)
                  for own in zip(*columns, strict=True)]  # fmt: skip
        return values, np.concatenate(h1), np.concatenate(h2)


def _covered(
    known: pa.Table, values: Sequence[pa.ChunkedArray], h1: Int64s, h2: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    """Places of distinct keys in some order, and for each range where in it its keys begin and how many they are."""
    if known[LOW].null_count:  # without ends
        places = np.unique(np.stack([h1, h2]), axis=1, return_index=True)[1]
        return places, np.zeros(known.num_rows, np.int64), np.full(known.num_rows, len(places))
    distinct, places = np.unique(_plain(values[0]), return_index=True)
    first = np.searchsorted(distinct, _plain(known[LOW]), side="left")
    return places, first, np.maximum(np.searchsorted(distinct, _plain(known[HIGH]), side="right") - first, 0)


def _values(view: JoinView, side: Side, numbers: Int64s, h1: Int64s, h2: Int64s) -> Keys:
    """Keys of rows; those of rows without a key are left out."""
    found, places = view.payload[side].fetch(numbers)
    columns = [column.take(pa.array(places)) for column in key_columns(view.join, side, found)]
    there = np.all([np.asarray(column.is_valid()) for column in columns], axis=0)
    return [column.filter(pa.array(there)) for column in columns], h1[there], h2[there]


def _keys_to_emit(view: JoinView, side: Side, before: int) -> Keys:
    """The keys of rows of a side that may still go out alone; they may have left the state."""
    payload = view.payload[side]
    _, numbers = view.matches.to_emit(side, payload, view.selections[side].wants, before)
    columns = key_columns(view.join, side, payload.fetch(numbers)[0])
    h1, h2, valid = hash_keys(columns)
    return [column.filter(pa.array(valid)) for column in columns], h1[valid], h2[valid]


def _plain(column: pa.ChunkedArray) -> AnyArray:
    """Values that numpy can order: numbers and times as such, others as objects."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.to_numpy())
