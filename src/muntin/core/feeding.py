"""What a join gives to the joins that read the output of its queries, in one micro-batch and within a shard.

The rows that leave a join are in order, and complete up to its release point. So for a join that reads them the release
point is the frontier of that stream, the same in all shards; nothing of it is late, and it ends when its inputs have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from muntin.core.aggregates import finish
from muntin.core.arrivals import Beginning, is_event_time, shard_rows
from muntin.core.batch import CAME, TS, Arrivals, row_schema
from muntin.core.operator import Operator
from muntin.core.results import OUTPUT_TS, OutputColumns, output_schema, routed
from muntin.core.step import ChangeOutcome, Step
from muntin.model import OUTPUT_TIME, Query, Side
from muntin.plan import SharedJoin
from muntin.plan.punctuation import FOR_GOOD

T = TypeVar("T")


@dataclass(frozen=True)
class FedRows:
    """The output of a query in one micro-batch and shard, and how far all shards have come with it."""

    rows: pa.Table
    """With `_ts` in int microseconds, the columns of the query, and the time once more as its readers keep it; with
    `_came` where some were complete before this micro-batch, or apart from others."""
    low: int | None
    high: int | None
    """Between these event times lies what all shards have found; None where nothing has come so far."""
    ended: bool
    over: pa.Table | None = None
    """The keys for which the query will bring no more rows, where some have become so."""


def feed(operator: Operator, step: Step, before: int) -> dict[str, FedRows]:
    """What the queries of a join that are read have found; `before` was its release point."""
    join, streams = operator.join, operator.progress.streams
    if not join.feeds:
        return {}
    ended = all(streams.ended)
    ends = _span(operator, before, ended)
    over = step.passed_on
    return {name: FedRows(table, *ends, ended, over.get(name)) for name, table in _tables(join, step).items()}


def _span(operator: Operator, before: int, ended: bool) -> tuple[int | None, int | None]:
    """The event times between which the output of a micro-batch lies in all shards."""
    join, streams = operator.join, operator.progress.streams
    high = operator.release
    if ended and operator.progress.has_begun:  # rows without a match come after the last row of all
        high = max(streams.max_ts) + max(
            [q.emitted_after(side) for q in join.queries for side in q.preserved], default=0
        )
    return (min(max(before, streams.min_ts), high), high) if is_event_time(high) else (None, None)


def _tables(join: SharedJoin, step: Step) -> dict[str, pa.Table]:
    queries = {query.name: query for query in join.queries if query.name in join.feeds}
    found = {name: _timed(output_schema(query).empty_table()) for name, query in queries.items()}
    for query in queries.values():
        values = [part for part in step.values if part.query == query.name]
        if values:  # EMIT FINAL: the groups of a key are over in this shard, and in no other one
            found[query.name] = _timed(finish(query, values, {})[0])
    if len(step.found):
        batch = step.found.whole()
        columns = OutputColumns(batch)
        for query, places in routed(join, batch):
            if query.name in queries and query.aggregation is None:
                rows = _timed(columns.output(query, places))
                if not step.found.arrival_times.together:
                    rows = rows.append_column(CAME, pa.array(batch.moments(places)))
                found[query.name] = rows
    return found


def _timed(rows: pa.Table) -> pa.Table:
    """The output of a query as a stream of its own: the time first, as that of any stream."""
    times = rows[OUTPUT_TS.name]
    named = rows.drop_columns([OUTPUT_TS.name]).append_column(OUTPUT_TIME, times)
    return named.add_column(0, pa.field(TS, pa.int64(), nullable=False), times.cast(pa.int64()))


def arrive(join: SharedJoin, brought: Arrivals, fed: Mapping[str, FedRows]) -> Arrivals:
    """What a micro-batch brings to a join: beside the rows of streams those that the joins below have found."""
    for side in Side:
        if join.reads[side] is None:
            continue
        given = fed[join.streams[side].name]
        (rows,) = shard_rows(join, side, given.rows, 1)
        rows = rows.select(row_schema(join, side).names)
        if CAME in given.rows.column_names:
            rows = rows.append_column(CAME, given.rows[CAME])
        brought = replace(
            brought,
            rows=_put(brought.rows, side, rows),
            min_ts=_put(brought.min_ts, side, given.low),
            max_ts=_put(brought.max_ts, side, given.high),
            ended=_put(brought.ended, side, given.ended),
            idle=_put(brought.idle, side, False),
            spans=_put(brought.spans, side, ()),
            over=_put(brought.over, side, given.over if join.hears[side] else None),
        )
    return brought


def _put(both: tuple[T, T], side: Side, value: T) -> tuple[T, T]:
    return (value, both[1]) if side is Side.LEFT else (both[0], value)


def for_outputs(step: Step, join: SharedJoin) -> Step:
    """A step without what only joins that read it want."""
    hidden = {query.name for query in join.queries if query.hidden}
    if not hidden:
        return step
    if len(step.found):
        step = replace(step, found=step.found.wanted_as_they_are(step.found.whole(), _goes_out))
    return replace(step, values=[part for part in step.values if part.query not in hidden])


def _goes_out(query: Query) -> bool:
    return not query.hidden


def reported_by(join: SharedJoin, shard: int) -> list[Side]:
    """The sides whose dead letters and counts a shard reports: what goes to every shard, the first one reports."""
    return [side for side in Side if join.reads[side] is None and not (join.everywhere[side] and shard)]


def begun_by(join: SharedJoin, below: Mapping[int, Operator], begun: Beginning) -> Beginning:
    """How far the streams of a new join have come, where some are what running joins put out."""
    for side in Side:
        if (source := join.reads[side]) is not None:
            begun = begun.reads(side, below[source].release)
    return begun


def completed_by(outcome: ChangeOutcome, operator: Operator, below: Mapping[int, Operator]) -> ChangeOutcome:
    """What a change did to a join, where its queries are complete only after those that they read."""
    later = dict(outcome.complete_from)
    for query in operator.join.queries:
        for side in Side:
            source = operator.join.reads[side]
            if source is None or query.name not in later:
                continue
            known = below[source].progress.complete_from
            name = operator.join.streams[side].name
            if name in known:
                inner = known[name]
                pairs = FOR_GOOD if inner is None else inner + query.window.side(side)
                later[query.name] = operator.complete_later(query.name, pairs, later[query.name])
    operator.progress.complete_later(later)
    return replace(outcome, complete_from=later)
