"""Rows between their arrival and the join.

`sharding` gives each shard its rows, with time and key; `sort_out` turns away what is late or too far ahead.
`Intake` numbers the others, writes them to the log and holds them until their time.
`JoinProgress` knows how far the streams have come, and with them the join.
`HotKeys` are keys whose rows visit every shard.
`look_up` gives rows what they find in tables.
`RowNumbering` counts the rows of a stream where a window does; `ArrivalTimes` are for response times only.
"""

from muntin.core.arrivals.acceptance import FRONTIER, IDLE, LIMIT, sort_out, to_report
from muntin.core.arrivals.arrival_times import ArrivalTimes
from muntin.core.arrivals.frontiers import FOREVER, Beginning, StreamsReached, begun_with, is_event_time, united
from muntin.core.arrivals.hot_keys import HeavyKey, HotKey, HotKeys, Key, copies_of
from muntin.core.arrivals.intake import VISITORS, Intake, IntakeImage, IntakeMeta
from muntin.core.arrivals.lookups import RepeatedKeys, look_up, repeated_keys
from muntin.core.arrivals.progress import JoinProgress, ProgressMeta
from muntin.core.arrivals.row_numbers import NumberedRows, RowNumberingImage
from muntin.core.arrivals.sharding import (
    EVERYWHERE,
    data_of,
    key_columns,
    marked,
    outside_calendar,
    range_ends,
    shard_rows,
    spans_of,
)

__all__ = [
    "EVERYWHERE",
    "FOREVER",
    "FRONTIER",
    "IDLE",
    "LIMIT",
    "VISITORS",
    "ArrivalTimes",
    "Beginning",
    "HeavyKey",
    "HotKey",
    "HotKeys",
    "Intake",
    "IntakeImage",
    "IntakeMeta",
    "JoinProgress",
    "Key",
    "NumberedRows",
    "ProgressMeta",
    "RepeatedKeys",
    "RowNumberingImage",
    "StreamsReached",
    "begun_with",
    "copies_of",
    "data_of",
    "is_event_time",
    "key_columns",
    "look_up",
    "marked",
    "outside_calendar",
    "range_ends",
    "repeated_keys",
    "shard_rows",
    "sort_out",
    "spans_of",
    "to_report",
    "united",
]
