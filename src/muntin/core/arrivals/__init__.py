"""Rows between their arrival and the join: turned away, numbered, held, and how far the streams have come."""

from muntin.core.arrivals import intake, progress
from muntin.core.arrivals.acceptance import FRONTIER, IDLE, LIMIT, sort_out
from muntin.core.arrivals.arrival_times import ArrivalTimes
from muntin.core.arrivals.frontiers import FOREVER, is_event_time, united
from muntin.core.arrivals.intake import Intake
from muntin.core.arrivals.progress import JoinProgress
from muntin.core.arrivals.row_numbers import NumberedRows
from muntin.core.arrivals.sharding import (
    data_of,
    key_columns,
    marked,
    outside_calendar,
    range_ends,
    shard_rows,
    spans_of,
)

__all__ = [
    "FOREVER",
    "FRONTIER",
    "IDLE",
    "LIMIT",
    "ArrivalTimes",
    "Intake",
    "JoinProgress",
    "NumberedRows",
    "data_of",
    "intake",
    "is_event_time",
    "key_columns",
    "marked",
    "outside_calendar",
    "progress",
    "range_ends",
    "shard_rows",
    "sort_out",
    "spans_of",
    "united",
]
