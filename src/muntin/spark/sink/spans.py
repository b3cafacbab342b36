"""Which part of a query's rows goes out, by their output timestamps.

A query that asks for rows since a time has none before it. While a query goes over from a pipeline that reads the past
to the one that it then stays in, both find its rows, and each publishes those on its side of one instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.results import OUTPUT_TS, ResultBatch
from muntin.kernels.arrays import Int64s
from muntin.model import Query
from muntin.model.event_time import EARLIEST_US, LATEST_US


@dataclass(frozen=True)
class OutputSpan:
    """Output timestamps from `since` to before `until`, in microseconds."""

    since: int = EARLIEST_US
    until: int = LATEST_US + 1

    def __and__(self, other: OutputSpan) -> OutputSpan:
        return OutputSpan(max(self.since, other.since), min(self.until, other.until))

    def keep(self, table: pa.Table) -> pa.Table:
        """The rows of a query's table that lie in it."""
        if self == ALL_ROWS:
            return table
        if self.since >= self.until:
            return table.slice(0, 0)
        ts = table[OUTPUT_TS.name].cast(pa.int64())
        return table.filter(pc.and_(pc.greater_equal(ts, self.since), pc.less(ts, self.until)))

    def chosen(self, results: ResultBatch, places: Int64s) -> Int64s:
        """The same of pairs, by their places."""
        if self == ALL_ROWS:
            return places
        ts = results.output_ts[places]
        return places[(ts >= self.since) & (ts < self.until)]


ALL_ROWS = OutputSpan()
NO_ROWS = OutputSpan(LATEST_US + 1)
Spans = Mapping[str, OutputSpan]
"""By the name of the query; one that is not there has all its rows."""

EVERYTHING: Spans = {}


def span_of(query: Query, spans: Spans) -> OutputSpan:
    """What goes out of a query."""
    asked = ALL_ROWS if query.since_us is None else OutputSpan(query.since_us)
    return asked & spans.get(query.name, ALL_ROWS)
