"""Dead letters: rows that were turned away, with the reason and the row itself as JSON.

A reason begins with its class, before the colon: `null_time`, `time_range` (an event time outside of the years 1 to
9999), `late`, `ended`, `ahead`, `malformed`, `punctuation` (one that says nothing), `broken` (a row that its stream had
promised not to send) or, for a row of a query's output whose value does not fit into its type, `overflow`; status
counts by class. Such a row has the query's name in place of the stream's.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from muntin.core.aggregates import FAULT
from muntin.core.arrivals import is_event_time
from muntin.core.batch import TS, event_times
from muntin.core.results import OUTPUT_TS
from muntin.kernels.evaluate import rows_as_json
from muntin.model import Query, Stream
from muntin.model.event_time import time_text

NAME = "_dead_letters"
SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("row", pa.string()),
        pa.field("ts", pa.timestamp("us", "UTC")),
    ]
)
ENDED_US = 1 << 61
"""A frontier from here on means that the stream was ended."""


def null_time(stream: Stream, rows: pa.Table) -> pa.Table:
    reason = f"null_time: {stream.time} is NULL"
    return _as_dead_letters(stream, [reason] * rows.num_rows, rows_as_json(rows), pa.nulls(rows.num_rows, pa.int64()))


def time_range(stream: Stream, rows: pa.Table) -> pa.Table:
    """Rows, with `_ts`, whose event time is outside of the calendar. In the row it is a number of microseconds: not
    every reader of timestamps can take it. The dead letter itself has no time."""
    times = rows[TS].to_pylist()
    why = [f"time_range: {stream.time} is {time_text(us)}, outside of the years 1 to 9999" for us in times]
    if stream.time_expr is None:
        rows = rows.set_column(rows.column_names.index(stream.time), stream.time, rows[TS])
    shown = rows.drop_columns([TS])
    return _as_dead_letters(stream, why, rows_as_json(shown), pa.nulls(rows.num_rows, pa.int64()))


def malformed(stream: Stream, texts: pa.ChunkedArray) -> pa.Table:
    """Lines that the source could not parse; the row is the line as it stood."""
    rows = pa.array([json.dumps({"_corrupt_record": text}) for text in texts.to_pylist()], pa.string())
    reason = f"malformed: not a {stream.format} record of this schema"
    return _as_dead_letters(stream, [reason] * len(rows), rows, pa.nulls(len(rows), pa.int64()))


def undecodable(stream: Stream, reasons: Sequence[str], messages: Sequence[dict[str, Any]], value: str) -> pa.Table:
    """Messages whose `value` is no record of the stream, with their metadata and places. The row has the value as
    text, or in base64 where it is none."""
    why = [f"malformed: {reason}" for reason in reasons]
    rows = [
        {name.removeprefix("_"): _plain(said) for name, said in message.items() if name != value} | _raw(message[value])
        for message in messages
    ]
    shown = pa.array([json.dumps(row, default=str) for row in rows], pa.string())
    return _as_dead_letters(stream, why, shown, pa.nulls(len(rows), pa.int64()))


def _raw(value: bytes | None) -> dict[str, str | None]:
    try:
        return {"value": None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {"value_base64": base64.b64encode(value or b"").decode()}


def _plain(value: object) -> object:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def late(stream: Stream, rows: pa.Table, frontiers: pa.ChunkedArray, idle: pa.ChunkedArray, other: str) -> pa.Table:
    """Rows older than the frontier, which is in microseconds; that of the `other` stream for those that were idle."""
    times = event_times(stream, rows)
    rows_late = zip(times.to_pylist(), frontiers.to_pylist(), idle.to_pylist(), strict=True)
    why = [
        _late_reason(ts, frontier) + (f" of {other}: its own stream was idle" if was_idle else "")
        for ts, frontier, was_idle in rows_late
    ]
    return _as_dead_letters(stream, why, _own(stream, rows), times)


def ahead(stream: Stream, rows: pa.Table, limits: pa.ChunkedArray, of: str) -> pa.Table:
    """Rows with a time that nothing bears out; `limits` are the times, in microseconds, that they are ahead `of`."""
    times = event_times(stream, rows)
    pairs = zip(times.to_pylist(), limits.to_pylist(), strict=True)
    why = [f"ahead: {(ts - limit) / 1e6:g} s ahead of {of}, {iso(limit)}" for ts, limit in pairs]
    return _as_dead_letters(stream, why, _own(stream, rows), times)


def overflows(query: Query, faults: pa.Table) -> pa.Table:
    """Groups of an aggregate query, at instants at which a value of theirs does not fit."""
    groups = [group.text for group in query.aggregation.groups] if query.aggregation else []
    rows = faults.drop_columns([FAULT]).rename_columns([*groups, OUTPUT_TS.name])
    names = pa.array([query.name] * len(faults), pa.string())
    return pa.table([names, faults[FAULT], rows_as_json(rows), faults[OUTPUT_TS.name]], schema=SCHEMA)


def refused(stream: Stream, rows: pa.Table, reasons: pa.ChunkedArray) -> pa.Table:
    """Punctuations that say nothing, and rows that broke a promise."""
    return _as_dead_letters(stream, reasons.to_pylist(), _own(stream, rows), event_times(stream, rows))


def unheard(stream: Stream, rows: pa.Table) -> pa.Table:
    """Punctuations that are about the key of no join."""
    columns = ", ".join(stream.punctuation.columns if stream.punctuation else ()) or "a join key"
    reason = f"punctuation: it is about {columns}, and no query joins {stream.name} on that"
    return refused(stream, rows, pa.chunked_array([[reason] * rows.num_rows], pa.string()))


def _own(stream: Stream, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
    """Rows as they came, without what they looked up."""
    looked_up = {field.name for lookup in stream.lookups for field in lookup.fields}
    return rows_as_json(rows.drop_columns([name for name in rows.column_names if name in looked_up]))


def _late_reason(ts: int, frontier: int) -> str:
    if frontier >= ENDED_US:
        return "ended: the stream was ended before this row came"
    return f"late: {(frontier - ts) / 1e6:g} s behind the frontier {iso(frontier)}"


def iso(us: int) -> str:
    """A time in microseconds as people read it, in UTC."""
    return f"{time_text(us)}+00:00"


def event_time(ts: int | None) -> str | None:
    """An event time as text; None where it stands for the beginning or the end of all streams."""
    return iso(ts) if ts is not None and is_event_time(ts) else None


def _as_dead_letters(
    stream: Stream, reasons: Sequence[str], rows: pa.Array | pa.ChunkedArray, times: pa.Array | pa.ChunkedArray
) -> pa.Table:
    names = pa.array([stream.name] * len(rows), pa.string())
    return pa.table([names, pa.array(reasons, pa.string()), rows, times.cast(SCHEMA.field("ts").type)], schema=SCHEMA)


def by_class(table: pa.Table) -> dict[str, int]:
    """How many dead letters a table has of each class of reason."""
    return dict(Counter(reason.split(":")[0] for reason in table["reason"].to_pylist()))
