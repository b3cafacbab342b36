"""Rows of a stream made ready for a shared join: event time, join key, shard."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.core.batch import ARRIVAL, H1, H2, KEPT, TS, Spans, row_schema
from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.kernels.hashing import hash_keys, shard_of
from muntin.model import Side
from muntin.plan import SharedJoin

MOST_SPANS = 256
"""Of one part of a stream; where there are more, the earliest ones count as one: the late end is what matters."""


def spans_of(times: npt.NDArray[np.int64], gap: int) -> Spans:
    """The stretches of some event times in which no two neighbours are more than `gap` apart."""
    if not len(times):
        return []
    ordered = np.sort(times)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(ordered) > gap) + 1])
    starts = np.concatenate([[0], starts[-MOST_SPANS + 1 :]]) if len(starts) > MOST_SPANS else starts
    ends = np.append(starts[1:], len(ordered))
    return [(int(ordered[a]), int(ordered[b - 1]), int(b - a)) for a, b in zip(starts, ends, strict=True)]


def key_columns(join: SharedJoin, side: Side, rows: pa.Table) -> list[pa.ChunkedArray]:
    """The join key of each row, in the types in which both sides are compared."""
    columns: list[pa.ChunkedArray | None] = []
    computed: list[tuple[str, str]] = []
    for pair in join.keys:
        bare = pair.side(side).column
        if bare is None:
            computed.append((pair.side(side).sql, pair.type))
            columns.append(None)
        else:
            columns.append(rows[bare[1]].cast(arrow_type(pair.type), safe=False))
    values = iter(evaluate(rows.rename_columns([side.prefix + n for n in rows.column_names]), computed))
    return [next(values) if column is None else column for column in columns]


def shard_rows(join: SharedJoin, side: Side, rows: pa.Table, shards: int) -> tuple[list[pa.Table], int]:
    """The rows (with `_ts`) that each shard receives, in their order, and how many had no key.

    Rows without a key match nothing; shard 0 gets them where late ones have to be reported, else they end here. A join
    without an equality sends every row to every shard to probe there, and one of them, chosen by the row's contents,
    keeps it: so each pair is found once, where the earlier row is kept, and neither work nor state is in one place.
    """
    if not join.keys:
        return _everywhere(join, side, rows, shards), 0
    h1, h2, valid = hash_keys(key_columns(join, side, rows))
    numbers = shard_of(h1, h2, shards)
    keyless = int(len(valid) - valid.sum())
    if keyless:
        numbers = np.where(valid, numbers, 0 if join.reports[side] else shards)
    absent = ~valid if keyless else None
    own = {H1: pa.array(h1, mask=absent), H2: pa.array(h2, mask=absent)}
    return _split(_dressed(join, side, rows, own), numbers, shards), keyless


def _everywhere(join: SharedJoin, side: Side, rows: pa.Table, shards: int) -> list[pa.Table]:
    contents = [rows[f.name] for f in join.streams[side].schema]
    homes = shard_of(*hash_keys([rows[TS], *contents])[:2], shards)
    zero = pa.array(np.zeros(rows.num_rows, np.int64))
    return [_dressed(join, side, rows, {H1: zero, H2: zero, KEPT: pa.array(homes == n)}) for n in range(shards)]


def _dressed(join: SharedJoin, side: Side, rows: pa.Table, own: dict[str, pa.Array]) -> pa.Table:
    """Rows with the columns that they carry beside their payload, those given and their place in the order of
    arrival."""
    own = {ARRIVAL: pa.array(np.arange(rows.num_rows)), **own}
    schema = row_schema(join, side)
    return pa.table([own[f.name] if f.name in own else rows[f.name] for f in schema], names=schema.names).cast(schema)


def _split(rows: pa.Table, numbers: npt.NDArray[np.int32], shards: int) -> list[pa.Table]:
    """The rows of each shard; those numbered `shards` go nowhere."""
    if not numbers.any():
        return [rows, *(rows.slice(0, 0) for _ in range(shards - 1))]
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(shards + 1))
    ordered = rows.take(pa.array(order))
    return [ordered.slice(low, high - low) for low, high in pairwise(bounds)]
