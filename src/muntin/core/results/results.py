"""Results on their way to the queries: each pair once, each row of it once, routed at the very end.

A `Run` is a piece of a shared join's results in timestamp order: the rows that occur in it (left, right), their
classes, and the pairs as positions of those rows. Which queries a pair belongs to follows from the age of its earlier
row and the classes of both (wang2006 4.3: routing is in the plan), so nothing is copied per query before the sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals import ArrivalTimes
from muntin.core.batch import CLASS, TS
from muntin.core.selections import query_bits, query_flags, routes
from muntin.core.storage import StoredRows, distinct, pack, read_table, table_bytes, unpack
from muntin.kernels import route as kernel
from muntin.kernels.arrays import Int32s, Int64s, UInt64s
from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.kernels.join import Pairs
from muntin.model import Expr, Query, Side
from muntin.plan import SharedJoin

OUTPUT_TS = pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False)
KINDS = 1 << 18
"""Kinds of pairs up to which they are counted by kind."""


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
    came: tuple[Int64s, Int64s]
    """When each of the rows arrived, on the wall clock; one number where all came together."""

    def __len__(self) -> int:
        return len(self.pairs[0])

    def ts(self, side: Side) -> Int64s:
        return self.rows[side][TS].to_numpy()

    def classes(self, side: Side) -> Int32s:
        """The class of each pair's row of a side."""
        return self.rows[side][CLASS].to_numpy()[self.pairs[side]]

    @property
    def output_ts(self) -> Int64s:
        """The timestamp of each pair: that of its later row."""
        return np.maximum(self.ts(Side.LEFT)[self.pairs[0]], self.ts(Side.RIGHT)[self.pairs[1]])

    def to_bytes(self) -> bytes:
        pairs = pa.table({"l": self.pairs[0], "r": self.pairs[1], "tag": self.tags})
        arrays = (*self.wants, self.verdicts, *self.came)
        return pack([*map(table_bytes, (*self.rows, pairs)), *(a.tobytes() for a in arrays)])

    @classmethod
    def from_bytes(cls, join: SharedJoin, data: bytes) -> ResultBatch:
        parts = unpack(data, 9)
        left, right, pairs = map(read_table, parts[:3])
        words = -(-len(join.queries) // 64)
        wants = [np.frombuffer(p, np.uint64).reshape(-1, words).copy() for p in parts[3:6]]
        lefts, rights, tags = (pairs[c].to_numpy() for c in ("l", "r", "tag"))
        verdicts = np.frombuffer(parts[6], np.int32).copy()
        came = (np.frombuffer(parts[7], np.int64).copy(), np.frombuffer(parts[8], np.int64).copy())
        return cls(join, (left, right), (wants[0], wants[1], wants[2]), (lefts, rights), tags, verdicts, came)

    @classmethod
    def merge(cls, runs: Sequence[ResultBatch]) -> ResultBatch:
        """One run in timestamp order from several of the same join."""
        if len(runs) == 1:
            return runs[0]
        (left, left_wants, lefts), (right, right_wants, rights) = (_stack(runs, side) for side in Side)
        bases = np.cumsum([0, *(len(r.wants[2]) for r in runs)])
        verdicts = np.concatenate([run.verdicts + np.int32(base) for run, base in zip(runs, bases, strict=False)])
        wants = (left_wants, right_wants, np.concatenate([run.wants[2] for run in runs]))
        tags, came = np.concatenate([run.tags for run in runs]), (_came(runs, Side.LEFT), _came(runs, Side.RIGHT))
        merged = cls(runs[0].join, (left, right), wants, (lefts, rights), tags, verdicts, came)
        order = np.argsort(merged.output_ts, kind="stable")
        verdicts = verdicts[order] if len(verdicts) else verdicts
        return cls(merged.join, merged.rows, wants, (lefts[order], rights[order]), tags[order], verdicts, came)

    def arrivals(self, chosen: Int64s) -> dict[int, int]:
        """When these pairs were complete, each with the arrival of its later-arriving row; how many at each moment."""
        moments, which = self._moments
        rows = np.bincount(which[chosen], minlength=1) if len(which) else np.array([len(chosen)])
        return {int(moments[n]): int(rows[n]) for n in np.flatnonzero(rows)}

    def moments(self, chosen: Int64s) -> Int64s:
        """The same for each pair."""
        moments, which = self._moments
        return moments[which[chosen]] if len(which) else np.broadcast_to(moments, len(chosen))

    @cached_property
    def _moments(self) -> tuple[Int64s, Int32s]:
        """Moments in order, and which of them each pair was complete at; empty where there is one."""
        moments = np.unique(np.concatenate(self.came))
        if len(moments) == 1:
            return moments, np.zeros(0, np.int32)
        left, right = (
            self._per_pair(side, np.searchsorted(moments, self.came[side]).astype(np.int32)) for side in Side
        )
        return moments, np.maximum(left, right)

    def _per_pair(self, side: Side, told: Int32s) -> Int32s:
        """What is told of each row of a side, or of all of them at once, for each pair."""
        return np.broadcast_to(told, self.rows[side].num_rows)[self.pairs[side]]


def _stack(runs: Sequence[ResultBatch], side: Side) -> tuple[pa.Table, UInt64s, Int32s]:
    """Rows, classes and positions of one side of several runs, numbered on from run to run."""
    rows, wants, pairs, row_base, class_base = [], [], [], 0, 0
    for run in runs:
        table = run.rows[side]
        at = table.schema.get_field_index(CLASS)
        rows.append(table.set_column(at, CLASS, pc.add(table[CLASS], pa.scalar(class_base, pa.int32()))))
        wants.append(run.wants[side])
        pairs.append(run.pairs[side] + np.int32(row_base))
        row_base += table.num_rows
        class_base += len(run.wants[side])
    return pa.concat_tables(rows).combine_chunks(), np.concatenate(wants), np.concatenate(pairs)


def _came(runs: Sequence[ResultBatch], side: Side) -> Int64s:
    """When the rows of several runs arrived."""
    parts = [run.came[side] for run in runs]
    if all(len(part) == 1 and part[0] == parts[0][0] for part in parts):
        return parts[0]
    return np.concatenate([np.broadcast_to(p, r.rows[side].num_rows) for p, r in zip(parts, runs, strict=True)])


class FoundPairs:
    """The pairs of one step, by row numbers; valid until the operator gives the rows back (`Operator.tidy`)."""

    def __init__(
        self,
        join: SharedJoin,
        payload: tuple[StoredRows, ...],
        wants: tuple[UInt64s, UInt64s, UInt64s],
        pairs: Pairs,
        came: ArrivalTimes,
    ):
        self.join, self.payload, self.wants, self.pairs, self.came = join, payload, wants, pairs, came

    def __len__(self) -> int:
        return len(self.pairs.ts)

    @property
    def tags(self) -> Int32s:
        return self.pairs.tag

    @property
    def verdicts(self) -> Int32s:
        return self.pairs.verdict

    def classes(self, side: Side) -> Int32s:
        """The class of each pair's row of a side."""
        return self.payload[side].class_by_number()(self.pairs.rows[side])

    def whole(self) -> ResultBatch:
        return self.pick(slice(None))

    def split(self, parts: int, span: tuple[int, int] | None) -> list[ResultBatch]:
        """The pairs cut at `parts` equal ranges of `span`, the same cuts in every shard; each run stands alone."""
        if parts == 1 or len(self) == 0 or span is None:
            return [self.whole(), *(self.pick(slice(0)) for _ in range(parts - 1))]
        low, high = span
        cuts = [low + (high + 1 - low) * n // parts for n in range(1, parts)]
        ends = [0, *np.searchsorted(self.pairs.ts, cuts), len(self)]
        return [self.pick(slice(a, b)) for a, b in pairwise(ends)]

    def without_aggregates(self, run: ResultBatch) -> FoundPairs:
        """The pairs that some query wants as they are; `run` is all of them."""
        plain = query_bits(np.array([[q.aggregation is None for q in self.join.queries]]))
        wants = (self.wants[0] & plain, self.wants[1] & plain, self.wants[2] & plain)
        left, right = (wants[side][run.rows[side][CLASS].to_numpy()][run.pairs[side]] for side in Side)
        wanted = left & right & routes(self.join, wants[:2]).readers[run.tags & 1, run.tags >> 1]
        if len(run.verdicts):
            wanted &= wants[2][run.verdicts]
        kept = wanted.any(axis=1)
        verdict = self.pairs.verdict[kept] if len(self.pairs.verdict) else self.pairs.verdict
        pairs = Pairs(self.pairs.rows[:, kept], self.pairs.ts[kept], self.pairs.tag[kept], verdict)
        return FoundPairs(self.join, self.payload, wants, pairs, self.came)

    def pick(self, part: slice | Int64s) -> ResultBatch:
        """Some of the pairs, which then stand alone."""
        (left, lefts), (right, rights) = (distinct(self.pairs.rows[side, part]) for side in Side)
        rows = self.payload[0].take(left), self.payload[1].take(right)
        verdicts = self.pairs.verdict[part].copy() if len(self.pairs.verdict) else self.pairs.verdict
        tags = self.pairs.tag[part].copy()
        came = self.came.of(Side.LEFT, left), self.came.of(Side.RIGHT, right)
        return ResultBatch(self.join, rows, self.wants, (lefts, rights), tags, verdicts, came)


# -- routing ------------------------------------------------------------------------------------------------------


def output_schema(query: Query) -> pa.Schema:
    """The columns of a query's output: its SELECT list and the output timestamp."""
    return pa.schema([*(pa.field(o.name, arrow_type(o.expr.type)) for o in query.select), OUTPUT_TS])


def count(found: ResultBatch | FoundPairs) -> dict[str, int]:
    """Rows per query, without making them; where there are few kinds of pairs, each kind is routed once."""
    join, who = found.join, routes(found.join, found.wants[:2])
    kinds = 2 * who.readers.shape[1], len(found.wants[0]), len(found.wants[1]), len(found.wants[2])
    left, right = (_classes(found, side) for side in Side)
    if prod(kinds) > KINDS:
        totals = np.zeros(64 * -(-len(join.queries) // 64), np.int64)
        kernel.route(left, right, found.tags, found.verdicts, who, found.wants[2], totals, np.zeros(0, np.int64))
        return {q.name: int(n) for q, n in zip(join.queries, totals, strict=False)}
    pairs = np.zeros(kinds, np.int64)
    kernel.tally(left, right, found.tags, found.verdicts, pairs)
    tag, a, b, verdict = np.nonzero(pairs)
    wanted = who.wants[0, a] & who.wants[1, b] & who.readers[tag & 1, tag >> 1] & found.wants[2][verdict]
    numbers = pairs[tag, a, b, verdict] @ query_flags(wanted, len(join.queries))
    return {q.name: int(n) for q, n in zip(join.queries, numbers, strict=True)}


def _classes(found: ResultBatch | FoundPairs, side: Side) -> Int32s:
    """The class of each pair's row of a side; without selections there is one."""
    return found.classes(side) if len(found.wants[side]) > 1 else np.zeros(len(found), np.int32)


def counted(found: FoundPairs) -> dict[str, dict[int, int]]:
    """Rows per query by when they arrived, without making them, but for those of rows that had waited both."""
    waited: dict[str, dict[int, int]] = {}
    if not found.came.together:
        run = found.pick(found.came.before(found.pairs.rows))
        waited = {query.name: run.arrivals(places) for query, places in routed(found.join, run)}
    fresh = {name: rows - sum(waited.get(name, {}).values()) for name, rows in count(found).items()}
    now = {name: {found.came.moment: rows} for name, rows in fresh.items() if rows}
    return {name: now.get(name, {}) | waited.get(name, {}) for name in fresh if name in now or name in waited}


def route(join: SharedJoin, run: ResultBatch) -> Iterator[tuple[Query, pa.Table]]:
    """Each query that receives rows, with them in timestamp order."""
    columns = Columns(run)
    for query, places in routed(join, run):
        yield query, columns.output(query, places)


def routed(join: SharedJoin, run: ResultBatch) -> Iterator[tuple[Query, Int64s]]:
    """Each query that receives rows, with the places of their pairs in the run."""
    counts = np.array(list(count(run).values()), np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    places = np.zeros(max(1, int(starts[-1])), np.int64)
    cursor = np.zeros(64 * -(-len(join.queries) // 64), np.int64)
    cursor[: len(counts)] = starts[:-1]
    if starts[-1]:
        left, right = (_classes(run, side) for side in Side)
        who = routes(join, run.wants[:2])
        kernel.route(left, right, np.array(run.tags), run.verdicts, who, run.wants[2], cursor, places)
    for n, query in enumerate(join.queries):
        if counts[n]:
            yield query, places[starts[n] : starts[n + 1]]


def unite(query: Query, tables: Sequence[pa.Table]) -> pa.Table:
    """One query's rows from several joins in timestamp order (wang2006 3.2: the union above a divided stream).

    The joins read the same streams, so their release points agree: none of them can bring an earlier row later.
    """
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables([output_schema(query).empty_table(), *tables])
    order = np.argsort(table[OUTPUT_TS.name].cast(pa.int64()).to_numpy(), kind="stable")
    return table.take(pa.array(order))


class Columns:
    """Output columns of a run's pairs; what concerns one side is computed once per row, not once per pair."""

    def __init__(self, run: ResultBatch):
        self.run = run
        self._output_ts = run.output_ts
        self._values: dict[tuple[Side, str], pa.ChunkedArray] = {}

    def output(self, query: Query, chosen: Int64s) -> pa.Table:
        places = self.places(chosen)
        arrays = [self.values(o.expr, places) for o in query.select]
        arrays.append(pa.array(self._output_ts[chosen]).cast(OUTPUT_TS.type))
        return pa.Table.from_arrays(arrays, schema=output_schema(query))

    def places(self, chosen: Int64s) -> tuple[pa.Array, pa.Array]:
        """The rows of the pairs chosen, on both sides."""
        return pa.array(self.run.pairs[0][chosen]), pa.array(self.run.pairs[1][chosen])

    def values(self, expr: Expr, places: tuple[pa.Array, pa.Array]) -> pa.ChunkedArray:
        """An expression of pairs of rows."""
        if expr.left and expr.right:
            names = [(side, c) for side in Side for c in expr.columns(side)]
            table = pa.table({s.prefix + c: self.run.rows[s][c].take(places[s]) for s, c in names})
            return evaluate(table, [(expr.sql, expr.type)])[0]
        side = Side.RIGHT if expr.right else Side.LEFT
        return self.per_row(expr, side).take(places[side])

    def per_row(self, expr: Expr, side: Side) -> pa.ChunkedArray:
        """An expression of the rows of one side."""
        if (side, expr.sql) not in self._values:
            rows = self.run.rows[side]
            if expr.column is not None:
                value = rows[expr.column[1]]
            else:
                names = expr.columns(side)
                table = rows.select([*names, TS]).rename_columns([*(side.prefix + n for n in names), TS])
                value = evaluate(table, [(expr.sql, expr.type)])[0]
            self._values[side, expr.sql] = value
        return self._values[side, expr.sql]
