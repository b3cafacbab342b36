"""What goes into and comes out of one step of the operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from muntin.kernels.arrays import Int64s
from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.model import Axis, Side, Stream
from muntin.plan import SharedJoin
from muntin.plan.punctuation import promising

TS, H1, H2, CLASS = "_ts", "_h1", "_h2", "_class"
"""Columns beside the payload: event time in microseconds, the join key as 128 bits (`_h1` NULL: no key), and the
class."""
ARRIVAL, KEPT = "_arrival", "_kept"
"""Only where needed: place of the row in the order of arrival of its stream; whether this shard keeps the row or only
probes with it."""
CAME = "_came"
"""When the row arrived at its source, on the wall clock; only where rows of a micro-batch have not come together."""
MARK = "_mark"
"""Whether the row is no data but a punctuation; only where a stream has any that are about the join's key."""

Spans = Sequence[tuple[int, int, int]]
"""Stretches of event time without a long gap, ascending: first time, last time, rows in between."""


def own_columns(join: SharedJoin, side: Side) -> list[pa.Field]:
    """Columns that rows of a side carry beside their payload from ingest to the operator."""
    own = [pa.field(TS, pa.int64(), nullable=False), pa.field(H1, pa.int64()), pa.field(H2, pa.int64())]
    promises = promising(join, side)
    if join.axes[side] is Axis.ROWS or (promises and promises.unique):
        own.append(pa.field(ARRIVAL, pa.int64()))
    if not join.keys:
        own.append(pa.field(KEPT, pa.bool_()))
    if promises and promises.marked:
        own.append(pa.field(MARK, pa.bool_()))
    return own


def stream_schema(stream: Stream) -> pa.Schema:
    """The columns of a stream, with those that it looks up."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in stream.schema])


def own_schema(stream: Stream) -> pa.Schema:
    """The columns of a stream as declared."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in stream.own])


def event_times(stream: Stream, rows: pa.Table) -> pa.ChunkedArray:
    """The event times of rows as declared, in int64 microseconds; NULL where a row has none."""
    if stream.time_expr is None:
        column = rows[stream.time]
    else:
        named = rows.rename_columns([Side.LEFT.prefix + name for name in rows.column_names])
        (column,) = evaluate(named, [(stream.time_expr.sql, stream.time_expr.type)])
    return column.cast(pa.timestamp("us", getattr(column.type, "tz", None))).cast(pa.int64())


def row_schema(join: SharedJoin, side: Side) -> pa.Schema:
    """How rows of a side travel from ingest to the operator and lie in its chunks."""
    return pa.schema([*own_columns(join, side), *stream_schema(join.streams[side])])


def stored_schema(join: SharedJoin, side: Side) -> pa.Schema:
    """How rows of a side lie in memory and travel to the sink."""
    own = [pa.field(TS, pa.int64(), nullable=False), pa.field(CLASS, pa.int32())]
    return pa.schema([*own, *stream_schema(join.streams[side])])


@dataclass(frozen=True)
class Arrivals:
    """What one micro-batch brings to one shard of a shared join.

    `rows[side]` are the shard's own rows (schema `row_schema`, in order of arrival). `min_ts`, `max_ts` are of the
    *whole stream* in this micro-batch, all shards and rows with NULL keys included, None where it brought nothing: so
    that every shard computes the same frontiers. `ended[side]`: the stream ends with this micro-batch.
    `clocks[side]`, for a stream with a count window, are the event times of all its rows in order of arrival;
    `_arrival` of the shard's own rows is their place in it. `idle[side]`: the stream has been silent for so long that
    the other one no longer waits for it. `spans[side]`, where rows far ahead are turned away, are those of the whole
    stream in this micro-batch. `moment` is when the rows arrived, on the wall clock, for response times alone; rows
    (and copies) that have not come together say so themselves, in a column `_came` beside those of `row_schema`.
    `copies[side]` are rows of other shards whose keys may be hot; `place` is the number of this shard, and of how many.
    `over[side]`, of what a join below has found, are the keys for which it will bring no more (core/feeding.py).
    """

    rows: tuple[pa.Table, pa.Table]
    min_ts: tuple[int | None, int | None]
    max_ts: tuple[int | None, int | None]
    ended: tuple[bool, bool] = (False, False)
    clocks: tuple[Int64s | None, Int64s | None] = (None, None)
    idle: tuple[bool, bool] = (False, False)
    spans: tuple[Spans, Spans] = ((), ())
    moment: int = 0
    copies: tuple[pa.Table | None, pa.Table | None] = (None, None)
    place: tuple[int, int] = (0, 1)
    over: tuple[pa.Table | None, pa.Table | None] = (None, None)


@dataclass
class Counters:
    """Work done and rows kept, added up over the life of an operator.

    The first seven are levels after the last micro-batch, not sums.
    """

    state_rows: list[int] = field(default_factory=lambda: [0, 0])
    held_rows: list[int] = field(default_factory=lambda: [0, 0])
    """Rows that have not been joined yet."""
    held_pairs: int = 0
    """Pairs that have been found and may not leave yet."""
    held_bytes: int = 0
    keys: int = 0
    promises: list[int] = field(default_factory=lambda: [0, 0])
    """Promises that are remembered."""
    groups: int = 0
    """Groups that aggregates keep."""
    arrived: list[int] = field(default_factory=lambda: [0, 0])
    late: list[int] = field(default_factory=lambda: [0, 0])
    ahead: list[int] = field(default_factory=lambda: [0, 0])
    null_key: list[int] = field(default_factory=lambda: [0, 0])
    unwanted: list[int] = field(default_factory=lambda: [0, 0])
    inserted: list[int] = field(default_factory=lambda: [0, 0])
    expired: list[int] = field(default_factory=lambda: [0, 0])
    stay_us: list[int] = field(default_factory=lambda: [0, 0])
    """For how long inserted rows stay, added up, of a side whose rows leave at ends of their own."""
    probes: int = 0
    comparisons: int = 0
    stale_checks: int = 0
    crossed: int = 0
    """Cuts between slices that probes stepped over."""
    routed: int = 0
    """Pairs placed by their age in a merged slice."""
    pairs: int = 0
    """Pairs that have left."""
    unmatched: int = 0
    """Rows that have left without a partner, once for each age at which some query had to emit them."""
    out_of_order: int = 0
    """Of these, those that left before their time because too much was held."""
    aggregated: int = 0
    """Additions of a pair to what comes or goes with it."""
    combined: int = 0
    """Additions of what comes or goes together to a window of a family."""
    punctuations: list[int] = field(default_factory=lambda: [0, 0])
    malformed: list[int] = field(default_factory=lambda: [0, 0])
    """Punctuations that say nothing."""
    broken: list[int] = field(default_factory=lambda: [0, 0])
    """Rows that arrived although their stream had promised that they would not."""
    dropped: list[int] = field(default_factory=lambda: [0, 0])
    """Rows that a promise of the other side spared the state."""
    purged: list[int] = field(default_factory=lambda: [0, 0])
    """Rows that a promise of the other side took out of the state."""
    silent: int = 0
    """Rows that did not even probe, since the output was over for their key."""
    propagated: int = 0
    """Punctuations of outputs."""

    def copy(self) -> Counters:
        """The same counts, to go on from."""
        counts: dict[str, Any] = {n: [*have] if isinstance(have, list) else have for n, have in vars(self).items()}
        return Counters(**counts)

    @classmethod
    def total(cls, parts: Iterable[Counters]) -> Counters:
        """What several operators have counted, added up."""
        found = cls()
        for part in parts:
            for counter in fields(cls):
                have, more = getattr(found, counter.name), getattr(part, counter.name)
                both = [a + b for a, b in zip(have, more, strict=True)] if isinstance(have, list) else have + more
                setattr(found, counter.name, both)
        return found
