"""Which rows each query receives of the pairs that were found."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import pyarrow as pa

from muntin.core.results.found_pairs import FoundPairs
from muntin.core.results.output_columns import OutputColumns
from muntin.core.results.result_batch import ResultBatch
from muntin.core.selections import everybody, query_flags, routes
from muntin.kernels import route as kernel
from muntin.kernels.arrays import Int32s, Int64s
from muntin.model import Query, Side
from muntin.plan import SharedJoin

KINDS = 1 << 18
"""Kinds of pairs up to which they are counted by kind."""


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
    """Rows per query by when they arrived, without making them, but for those of rows that had waited both, and where
    rows of the micro-batch have come apart from each other."""
    waited: dict[str, dict[int, int]] = {}
    times = found.arrival_times
    if times.apart:
        whole = found.whole()
        return {query.name: whole.arrivals(places) for query, places in routed(found.join, whole)}
    if not times.together:
        batch = found.pick(times.before(found.pairs.rows))
        waited = {query.name: batch.arrivals(places) for query, places in routed(found.join, batch)}
    new = {name: rows - sum(waited.get(name, {}).values()) for name, rows in count(found).items()}
    for name, rows in new.items():
        if rows:  # a clock that stands still has one moment for both
            of = waited.setdefault(name, {})
            of[times.moment] = of.get(times.moment, 0) + rows
    return {name: waited[name] for name in new if name in waited}


def alone(batch: ResultBatch, places: Int64s) -> int:
    """How many of these pairs are rows without a match."""
    return int(np.count_nonzero(batch.tags[places] >> 1 == everybody(batch.join)))


def unmatched(found: FoundPairs) -> dict[str, int]:
    """Rows without a match per query, of those queries that get some."""
    nobody = np.flatnonzero(found.tags >> 1 == everybody(found.join))
    batch = found.pick(nobody) if len(nobody) else None
    return {} if batch is None else {query.name: len(places) for query, places in routed(found.join, batch)}


def route(join: SharedJoin, batch: ResultBatch) -> Iterator[tuple[Query, pa.Table]]:
    """Each query that receives rows, with them in timestamp order."""
    columns = OutputColumns(batch)
    for query, places in routed(join, batch):
        yield query, columns.output(query, places)


def routed(join: SharedJoin, batch: ResultBatch) -> Iterator[tuple[Query, Int64s]]:
    """Each query that receives rows, with the places of their pairs in the batch."""
    counts = np.array(list(count(batch).values()), np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])
    places = np.zeros(max(1, int(starts[-1])), np.int64)
    cursor = np.zeros(64 * -(-len(join.queries) // 64), np.int64)
    cursor[: len(counts)] = starts[:-1]
    if starts[-1]:
        left, right = (_classes(batch, side) for side in Side)
        who = routes(join, batch.wants[:2])
        kernel.route(left, right, np.array(batch.tags), batch.verdicts, who, batch.wants[2], cursor, places)
    for n, query in enumerate(join.queries):
        if counts[n]:
            yield query, places[starts[n] : starts[n + 1]]
