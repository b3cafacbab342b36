"""What goes into and comes out of one step of the operator."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from muntin.kernels.evaluate import arrow_type
from muntin.model import Stream

TS, H1, H2, CLASS = "_ts", "_h1", "_h2", "_class"
"""Columns beside the payload: event time in microseconds, the join key as 128 bits (`_h1` NULL: no key), and the class."""


def row_schema(stream: Stream) -> pa.Schema:
    """How rows of a stream travel from ingest to the operator and lie in its chunks."""
    own = [pa.field(TS, pa.int64(), nullable=False), pa.field(H1, pa.int64()), pa.field(H2, pa.int64())]
    return pa.schema(own + [pa.field(f.name, arrow_type(f.type)) for f in stream.schema])


def stored_schema(stream: Stream) -> pa.Schema:
    """How rows of a stream lie in memory and travel to the sink: the class in the place of the key."""
    return row_schema(stream).remove(2).set(1, pa.field(CLASS, pa.int32()))


@dataclass(frozen=True)
class Arrivals:
    """What one micro-batch brings to one shard of a shared join.

    `rows[side]` are the shard's own rows (schema `row_schema`, any order). `min_ts`, `max_ts` are of the *whole stream*
    in this micro-batch, all shards and rows with NULL keys included, None where it brought nothing: so that every
    shard computes the same frontiers. `ended[side]`: the stream ends with this micro-batch.
    """

    rows: tuple[pa.Table, pa.Table]
    min_ts: tuple[int | None, int | None]
    max_ts: tuple[int | None, int | None]
    ended: tuple[bool, bool] = (False, False)


@dataclass
class Counters:
    """Work done and rows kept, added up over the life of an operator (the first three are levels, not sums)."""

    state_rows: list[int] = field(default_factory=lambda: [0, 0])
    held_rows: list[int] = field(default_factory=lambda: [0, 0])
    keys: int = 0
    arrived: list[int] = field(default_factory=lambda: [0, 0])
    late: list[int] = field(default_factory=lambda: [0, 0])
    null_key: list[int] = field(default_factory=lambda: [0, 0])
    unwanted: list[int] = field(default_factory=lambda: [0, 0])
    inserted: list[int] = field(default_factory=lambda: [0, 0])
    expired: list[int] = field(default_factory=lambda: [0, 0])
    probes: int = 0
    comparisons: int = 0
    stale_checks: int = 0
    pairs: int = 0
