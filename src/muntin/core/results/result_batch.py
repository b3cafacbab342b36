"""A piece of a shared join's results in timestamp order: each pair once, each row of it once.

A `ResultBatch` has the rows that occur in it (left, right), their classes, and the pairs as positions of those rows.
Which queries a pair belongs to follows from the age of its earlier row and the classes of both (wang2006 4.3: routing
is in the plan), so nothing is copied per query before the sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.batch import CLASS, TS
from muntin.core.storage import Payload, pack, read_table, table_bytes, unpack
from muntin.kernels.arrays import Int32s, Int64s, UInt64s
from muntin.model import Side
from muntin.plan import SharedJoin


@dataclass(frozen=True)
class ResultBatch:
    join: SharedJoin
    rows: tuple[pa.Table, pa.Table]
    """Rows of each side: `_ts`, `_class`, payload."""
    wants: tuple[UInt64s, UInt64s, UInt64s]
    """The queries that want each class of left rows, right rows and pairs, as bits."""
    pairs: tuple[Int32s, Int32s]
    tags: Int32s
    """Of each pair, the window that the age of the earlier row is in, and its side (`kernels.join.Pairs`)."""
    verdicts: Int32s
    """The class of each pair; empty where no query has a predicate over both sides."""
    arrival_times: tuple[Int64s, Int64s]
    """When each of the rows arrived, on the wall clock; one number where all came together."""

    def __len__(self) -> int:
        return len(self.pairs[0])

    def ts(self, side: Side) -> Int64s:
        return self.rows[side][TS].to_numpy()

    def classes(self, side: Side) -> Int32s:
        """The class of each pair's row of a side; 0 for all where all classes are wanted alike."""
        if (self.wants[side] == self.wants[side][:1]).all():
            return np.zeros(len(self), np.int32)
        return self.rows[side][CLASS].to_numpy()[self.pairs[side]]

    @cached_property
    def output_ts(self) -> Int64s:
        """The timestamp of each pair: that of its later row."""
        return np.maximum(self.ts(Side.LEFT)[self.pairs[0]], self.ts(Side.RIGHT)[self.pairs[1]])

    def to_bytes(self) -> bytes:
        pairs = pa.table({"l": self.pairs[0], "r": self.pairs[1], "tag": self.tags})
        arrays = (*self.wants, self.verdicts, *self.arrival_times)
        return pack([*(table_bytes(t) for t in (*self.rows, pairs)), *(a.tobytes() for a in arrays)])

    @classmethod
    def from_bytes(cls, join: SharedJoin, data: Payload) -> ResultBatch:
        parts = unpack(data, 9)
        left, right, pairs = map(read_table, parts[:3])
        words = -(-len(join.queries) // 64)
        wants = [np.frombuffer(p, np.uint64).reshape(-1, words).copy() for p in parts[3:6]]
        lefts, rights, tags = (pairs[c].to_numpy() for c in ("l", "r", "tag"))
        verdicts = np.frombuffer(parts[6], np.int32).copy()
        arrived = (np.frombuffer(parts[7], np.int64).copy(), np.frombuffer(parts[8], np.int64).copy())
        return cls(join, (left, right), (wants[0], wants[1], wants[2]), (lefts, rights), tags, verdicts, arrived)

    @classmethod
    def merge(cls, batches: Sequence[ResultBatch]) -> ResultBatch:
        """One batch in timestamp order from several of the same join."""
        if len(batches) == 1:
            return batches[0]
        (left, left_wants, lefts), (right, right_wants, rights) = (_stack(batches, side) for side in Side)
        bases = np.cumsum([0, *(len(batch.wants[2]) for batch in batches)])
        verdicts = np.concatenate([b.verdicts + np.int32(base) for b, base in zip(batches, bases, strict=False)])
        merged = cls(
            batches[0].join,
            (left, right),
            (left_wants, right_wants, np.concatenate([batch.wants[2] for batch in batches])),
            (lefts, rights),
            np.concatenate([batch.tags for batch in batches]),
            verdicts,
            (_arrival_times(batches, Side.LEFT), _arrival_times(batches, Side.RIGHT)),
        )
        order = np.argsort(merged.output_ts, kind="stable")
        in_order = replace(
            merged,
            pairs=(lefts[order], rights[order]),
            tags=merged.tags[order],
            verdicts=verdicts[order] if len(verdicts) else verdicts,
        )
        in_order.__dict__["output_ts"] = merged.output_ts[order]  # known already: it takes as long as all the rest
        return in_order

    def arrivals(self, chosen: Int64s) -> dict[int, int]:
        """When these pairs were complete, each with the arrival of its later-arriving row; how many at each moment."""
        moments, which = self.completions
        rows = np.bincount(which[chosen], minlength=1) if len(which) else np.array([len(chosen)])
        return {int(moments[n]): int(rows[n]) for n in np.flatnonzero(rows)}

    def moments(self, chosen: Int64s) -> Int64s:
        """The same for each pair."""
        moments, which = self.completions
        return moments[which[chosen]] if len(which) else np.broadcast_to(moments, len(chosen))

    @cached_property
    def completions(self) -> tuple[Int64s, Int32s]:
        """Moments in order, and at which of them each pair was complete; empty where there is one moment."""
        moments = np.unique(np.concatenate(self.arrival_times))
        if len(moments) == 1:
            return moments, np.zeros(0, np.int32)
        left, right = (
            self._per_pair(side, np.searchsorted(moments, self.arrival_times[side]).astype(np.int32)) for side in Side
        )
        return moments, np.maximum(left, right)

    def _per_pair(self, side: Side, values: Int32s) -> Int32s:
        """The values of the rows of a side, or the one value of all of them, for each pair."""
        return np.broadcast_to(values, self.rows[side].num_rows)[self.pairs[side]]


def _stack(batches: Sequence[ResultBatch], side: Side) -> tuple[pa.Table, UInt64s, Int32s]:
    """Rows, classes and positions of one side of several batches, numbered on from batch to batch."""
    rows, wants, pairs, row_base, class_base = [], [], [], 0, 0
    for batch in batches:
        table = batch.rows[side]
        at = table.schema.get_field_index(CLASS)
        rows.append(table.set_column(at, CLASS, pc.add(table[CLASS], pa.scalar(class_base, pa.int32()))))
        wants.append(batch.wants[side])
        pairs.append(batch.pairs[side] + np.int32(row_base))
        row_base += table.num_rows
        class_base += len(batch.wants[side])
    return pa.concat_tables(rows).combine_chunks(), np.concatenate(wants), np.concatenate(pairs)


def _arrival_times(batches: Sequence[ResultBatch], side: Side) -> Int64s:
    """When the rows of several batches arrived."""
    parts = [batch.arrival_times[side] for batch in batches]
    if all(len(part) == 1 and part[0] == parts[0][0] for part in parts):
        return parts[0]
    return np.concatenate([np.broadcast_to(p, b.rows[side].num_rows) for p, b in zip(parts, batches, strict=True)])
