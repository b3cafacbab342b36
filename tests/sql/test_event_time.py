"""TIMESTAMP BY an expression: what it may be, and what comes of rows for which it has no value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.core.batch import event_times
from muntin.model import SqlError, Stream
from muntin.sql import parse_event_time, parse_job

COLUMNS = "t BIGINT, s STRING, n STRUCT<at: TIMESTAMP>, ts TIMESTAMP, k BIGINT"
ROWS = pa.table(
    {
        "t": pa.array([1_500, None, 9_223_372_036_854_775_807]),
        "s": ["1970-01-01 00:00:02", "x", None],
        "n": pa.array([{"at": 3_000_000}, None, {"at": None}], pa.struct([("at", pa.timestamp("us", "UTC"))])),
        "ts": pa.array([4_000_000, 5_000_000, None], pa.timestamp("us", "UTC")),
        "k": [1, 2, 3],
    }
)


def stream(by: str, rest: str = "") -> Stream:
    text = f"CREATE STREAM S ({COLUMNS}) TIMESTAMP BY {by} {rest} WITH (format = 'parquet', path = 'x')"
    return parse_job(text).streams["S"]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("timestamp_millis(t)", [1_500_000, None, None]),
        ("to_timestamp(s)", [2_000_000, None, None]),
        ("to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')", [2_000_000, None, None]),
        ("CAST(s AS TIMESTAMP_NTZ)", [2_000_000, None, None]),
        ("n.at", [3_000_000, None, None]),
        ("ts + INTERVAL 1 SECOND", [5_000_000, 6_000_000, None]),
        ("COALESCE(ts, timestamp_seconds(k))", [4_000_000, 5_000_000, 3_000_000]),
        ("(ts)", [4_000_000, 5_000_000, None]),
        ("ts", [4_000_000, 5_000_000, None]),
    ],
)
def test_an_expression_gives_the_event_time(by: str, expected: list[int | None]) -> None:
    found = stream(by, "LATENESS 5 seconds IDLE AFTER 1 min")
    assert found.lateness_us == 5_000_000
    assert found.time == by
    assert event_times(found, ROWS).to_pylist() == expected


@pytest.mark.parametrize("name", ["timestamp", "date", "time", "lateness"])
def test_a_column_whose_name_is_a_word_of_sql_is_still_a_column(name: str) -> None:
    text = f"CREATE STREAM S ({name} TIMESTAMP) TIMESTAMP BY {name} LATENESS 1 s WITH (format = 'x')"
    found = parse_job(text).streams["S"]
    assert (found.time, found.time_expr, found.lateness_us) == (name, None, 1_000_000)


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("t", "t is bigint, not a timestamp"),
        ("t + 1", "t + 1 is bigint, not a timestamp"),
        ("timestamp_millis(u)", "S has no column u"),
        ("timestamp_millis(s)", "TIMESTAMP_MILLIS needs an integer, this is string"),
        ("n.on", "the struct has no field on"),
        ("MAX(ts)", "the aggregate MAX cannot stand here"),
    ],
)
def test_what_gives_no_time_is_told_when_the_job_is_read(by: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        stream(by)
    assert message in str(error.value)


def test_a_stream_of_python_takes_the_same_expressions() -> None:
    plain = stream("ts")
    found = parse_event_time("timestamp_millis(t)", plain)
    assert event_times(found, ROWS).to_pylist() == [1_500_000, None, None]
    with pytest.raises(SqlError):
        parse_event_time("timestamp_millis(t", plain)


LATER = "timestamp_millis(B.t) BETWEEN timestamp_millis(A.t) AND timestamp_millis(A.t) + INTERVAL 1 HOUR"


@pytest.mark.parametrize(
    ("rest", "message", "hint"),
    [
        ("A, B WHERE A.k = B.k", "no window for A", "end the query with WINDOW 1 min"),
        (f"A, B WHERE A.k = B.k AND {LATER}", "no window for A", "end the query with WINDOW 1 min"),
        ("A ASOF JOIN B ON A.k = B.k AND A.t >= B.t WINDOW 1 min", "ASOF JOIN with A, whose", "as a column"),
    ],
)
def test_nobody_is_told_to_compare_what_no_query_can_name(rest: str, message: str, hint: str) -> None:
    form = "CREATE STREAM {} ({}) TIMESTAMP BY timestamp_millis(t) WITH (format = 'x');"
    with pytest.raises(SqlError, match=message) as caught:
        parse_job(form.format("A", COLUMNS) + form.format("B", COLUMNS) + f"CREATE QUERY q AS SELECT A.k FROM {rest}")
    assert hint in str(caught.value) and "A.timestamp_millis" not in str(caught.value)
