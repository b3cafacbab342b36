"""The pairs of one step, by the numbers of their rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa

from muntin.core.arrivals import ArrivalTimes
from muntin.core.batch import CLASS, TS
from muntin.core.results.result_batch import ResultBatch
from muntin.core.selections import query_bits, wanted_by
from muntin.core.storage import StoredRows, distinct
from muntin.kernels.arrays import Int32s, Int64s, UInt64s
from muntin.kernels.join import Pairs
from muntin.model import Query, Side
from muntin.plan import SharedJoin

NOBODY = -1
"""The number of the other row where a row has no partner."""


class FoundPairs:
    """The pairs of one step, by row numbers; valid until the operator gives the rows back (`Operator.tidy`)."""

    def __init__(
        self,
        join: SharedJoin,
        payload: tuple[StoredRows, ...],
        wants: tuple[UInt64s, UInt64s, UInt64s],
        pairs: Pairs,
        arrival_times: ArrivalTimes,
    ):
        self.join = join
        self.payload = payload
        self.wants = wants
        self.pairs = pairs
        self.arrival_times = arrival_times

    def __len__(self) -> int:
        return len(self.pairs.ts)

    @property
    def tags(self) -> Int32s:
        return self.pairs.tag

    @property
    def verdicts(self) -> Int32s:
        return self.pairs.verdict

    def classes(self, side: Side) -> Int32s:
        """The class of each pair's row of a side; behind the others there is one for nobody."""
        numbers = self.pairs.rows[side]
        absent = numbers == NOBODY
        if not absent.any():
            return self.payload[side].class_by_number()(numbers)
        classes = np.full(len(numbers), len(self.wants[side]) - 1, np.int32)
        classes[~absent] = self.payload[side].class_by_number()(numbers[~absent])
        return classes

    def with_verdicts(self, pairs: Pairs, allowed: UInt64s) -> FoundPairs:
        """Other pairs, some perhaps with nobody, with the queries that each verdict allows."""
        nobody = np.full((1, allowed.shape[1]), ~np.uint64(0))
        left, right = (np.concatenate([self.wants[side], nobody]) for side in Side)
        return FoundPairs(self.join, self.payload, (left, right, allowed), pairs, self.arrival_times)

    def whole(self) -> ResultBatch:
        return self.pick(slice(None))

    def split(self, parts: int, span: tuple[int, int] | None) -> list[ResultBatch]:
        """The pairs cut at `parts` equal ranges of `span`, the same cuts in every shard; each part stands alone."""
        if parts == 1 or len(self) == 0 or span is None:
            return [self.whole(), *(self.pick(slice(0)) for _ in range(parts - 1))]
        low, high = span
        cuts = [low + (high + 1 - low) * n // parts for n in range(1, parts)]
        ends = [0, *np.searchsorted(self.pairs.ts, cuts), len(self)]
        return [self.pick(slice(a, b)) for a, b in pairwise(ends)]

    def wanted_as_they_are(self, batch: ResultBatch, by: Callable[[Query], bool]) -> FoundPairs:
        """The pairs that some query wants as they are, `by` those for which this holds; `batch` is all of them."""
        plain = query_bits(np.array([[by(query) for query in self.join.queries]]))
        wants = (self.wants[0] & plain, self.wants[1] & plain, self.wants[2] & plain)
        classes = [batch.classes(side) for side in Side]
        kept = wanted_by(self.join, wants, classes, batch.tags, batch.verdicts).any(axis=1)
        verdict = self.pairs.verdict[kept] if len(self.pairs.verdict) else self.pairs.verdict
        pairs = Pairs(self.pairs.rows[:, kept], self.pairs.ts[kept], self.pairs.tag[kept], verdict)
        return FoundPairs(self.join, self.payload, wants, pairs, self.arrival_times)

    def pick(self, part: slice | Int64s) -> ResultBatch:
        """Some of the pairs, which then stand alone."""
        (left, lefts, came), (right, rights, too) = (self._rows(side, part) for side in Side)
        verdicts = self.pairs.verdict[part].copy() if len(self.pairs.verdict) else self.pairs.verdict
        tags = self.pairs.tag[part].copy()
        return ResultBatch(self.join, (left, right), self.wants, (lefts, rights), tags, verdicts, (came, too))

    def _rows(self, side: Side, part: slice | Int64s) -> tuple[pa.Table, Int32s, Int64s]:
        """The rows of a side that some pairs have, the place of each pair's row, and when they arrived.

        Where a row has no partner, the other one is all NULL and has the time at which the row goes out.
        """
        numbers = self.pairs.rows[side, part]
        absent = np.flatnonzero(numbers == NOBODY)
        if not len(absent):
            rows, places = distinct(numbers)
            return self.payload[side].take(rows), places, self.arrival_times.of(side, rows)
        there = np.flatnonzero(numbers != NOBODY)
        rows, met = distinct(numbers[there])
        table = self.payload[side].take(rows)
        places = np.empty(len(numbers), np.int32)
        places[there] = met
        places[absent] = len(rows) + np.arange(len(absent))
        own = {TS: self.pairs.ts[part][absent], CLASS: np.full(len(absent), len(self.wants[side]) - 1, np.int32)}
        nulls = [pa.array(own[f.name]) if f.name in own else pa.nulls(len(absent), f.type) for f in table.schema]
        arrived = self.arrival_times.of(side, rows)
        if not self.arrival_times.together:
            arrived = np.concatenate([arrived, np.full(len(absent), self.arrival_times.moment)])
        both = pa.concat_tables([table, pa.Table.from_arrays(nulls, schema=table.schema)])
        return both.combine_chunks(), places, arrived
