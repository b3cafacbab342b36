"""TIMESTAMP BY an expression: what it may be, and what comes of rows for which it has no value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.core.batch import event_times
from muntin.model import JoinKind, Query, SqlError, Stream, Window
from muntin.sql import parse_event_time, parse_job
from muntin.testing import LocalJob

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


S = 1_000_000
MILLIS = "timestamp_millis(t)"
BAND = "BETWEEN {a} - INTERVAL '10' SECOND AND {a} + INTERVAL '5' SECOND"


def query(rest: str, left: str = MILLIS, right: str = MILLIS) -> Query:
    form = "CREATE STREAM {} ({}) TIMESTAMP BY {} WITH (format = 'x');"
    streams = form.format("A", COLUMNS, left) + form.format("B", COLUMNS, right)
    return parse_job(f"{streams} CREATE QUERY q AS SELECT A.k FROM {rest}").queries["q"]


@pytest.mark.parametrize(
    ("left", "right", "condition"),
    [
        (MILLIS, MILLIS, "timestamp_millis(B.t) " + BAND.format(a="timestamp_millis(A.t)")),
        (MILLIS, MILLIS, "(TIMESTAMP_MILLIS(b.T)) " + BAND.format(a="(timestamp_millis( a.t ))")),
        (MILLIS, "ts", "B.ts " + BAND.format(a="timestamp_millis(A.t)")),
        ("n.at", "to_timestamp(s)", "to_timestamp(B.s) " + BAND.format(a="A.n.at")),
        ("(ts)", "ts + INTERVAL 1 HOUR", "B.ts + INTERVAL 1 HOUR " + BAND.format(a="A.ts")),
        ("COALESCE(ts, timestamp_seconds(k))", "ts", "B.ts " + BAND.format(a="COALESCE(A.ts, timestamp_seconds(A.k))")),
        (MILLIS, MILLIS, "B.t BETWEEN A.t - 10000 AND A.t + 5000"),
        (MILLIS, MILLIS, "B.t >= A.t - 10000 AND A.t > B.t - 5001"),
        (MILLIS, MILLIS, "B.t - A.t BETWEEN -10000 AND (4000 + 1000)"),
        ("timestamp_micros(t)", "timestamp_micros(t)", "B.t BETWEEN A.t - 10000000 AND A.t + 5000000"),
        ("CAST(k AS TIMESTAMP)", "timestamp_seconds(t)", "B.t BETWEEN A.k - 10 AND A.k + 5"),
    ],
)
def test_event_times_of_expressions_are_compared_as_they_are_written(left: str, right: str, condition: str) -> None:
    found = query(f"A JOIN B ON A.k = B.k AND {condition}", left, right)
    unit = S if "A.k + 5" in condition else 1_000
    high = 5 * S if "5001" not in condition else 5 * S + unit - 1
    assert found.window == Window(high + 1, 10 * S + 1) and found.residual is None


@pytest.mark.parametrize(
    "condition",
    [
        "timestamp_millis(B.k) >= timestamp_millis(A.t)",
        "timestamp_micros(B.t) >= timestamp_millis(A.t)",
        "B.ts >= timestamp_millis(A.t)",
        "B.k >= A.t",
        "B.t >= A.t + 1.5",
        "B.t >= A.t + A.k",
        "B.t * 2 >= A.t",
    ],
)
def test_what_is_not_the_event_time_is_a_condition(condition: str) -> None:
    found = query(f"A JOIN B ON A.k = B.k AND {condition} WINDOW 1 min")
    assert found.window == Window(60 * S, 60 * S) and found.residual is not None


def test_numbers_of_different_units_are_a_condition() -> None:
    found = query("A JOIN B ON A.k = B.k AND A.t >= B.t WINDOW 1 min", right="timestamp_seconds(t)")
    assert found.window == Window(60 * S, 60 * S) and found.residual is not None


@pytest.mark.parametrize("condition", ["timestamp_millis(A.t) >= timestamp_millis(B.t)", "A.t >= B.t"])
def test_an_as_of_join_looks_back_by_expressions(condition: str) -> None:
    found = query(f"A ASOF JOIN B ON A.k = B.k AND {condition} WINDOW 1 min")
    assert (found.window, found.kind) == (Window(1, 60 * S), JoinKind.ASOF)


def test_a_missing_event_time_is_a_missing_row() -> None:
    found = query("A LEFT JOIN B ON A.k + 1 = B.k + 1 WHERE timestamp_millis(B.t) IS NULL WINDOW 1 min")
    assert found.kind is JoinKind.ANTI and found.after is None


@pytest.mark.parametrize(
    ("rest", "message", "hint"),
    [
        (
            "A, B WHERE A.k = B.k",
            "no window for A",
            "or conditions such as timestamp_millis(B.t) <= timestamp_millis(A.t) + INTERVAL 1 HOUR",
        ),
        (
            "A, B WHERE A.k = B.k AND B.t >= A.t",
            "timestamp_millis(B.t) may be as much later than timestamp_millis(A.t)",
            "add timestamp_millis(B.t) <= timestamp_millis(A.t) + INTERVAL 1 HOUR",
        ),
        (
            "A ASOF JOIN B ON A.k = B.k WINDOW 1 min",
            "ASOF JOIN looks back from timestamp_millis(A.t)",
            "add timestamp_millis(A.t) >= timestamp_millis(B.t) to ON",
        ),
    ],
)
def test_hints_name_the_event_time_as_a_query_has_to(rest: str, message: str, hint: str) -> None:
    with pytest.raises(SqlError) as caught:
        query(rest)
    assert message in str(caught.value) and hint in str(caught.value)


def test_hints_name_fields_and_several_columns_with_the_alias() -> None:
    with pytest.raises(SqlError) as caught:
        query("A, B WHERE A.k = B.k", "COALESCE(ts, timestamp_seconds(k))", "n.at")
    assert "B.n.at <= COALESCE(A.ts, timestamp_seconds(A.k)) + INTERVAL 1 HOUR" in str(caught.value)


def test_numbers_and_times_select_the_same_pairs() -> None:
    form = "CREATE STREAM {} (t BIGINT, k BIGINT) TIMESTAMP BY timestamp_millis(t) WITH (format = 'x');"
    bands = {
        "numbers": "B.t BETWEEN A.t + 3 AND A.t + 8",
        "strict": "B.t > A.t + 2 AND B.t < A.t + 9",
        "times": "timestamp_millis(B.t) BETWEEN timestamp_millis(A.t) + INTERVAL 3 MILLISECONDS "
        "AND timestamp_millis(A.t) + INTERVAL 8 MILLISECONDS",
    }
    text = form.format("A") + form.format("B")
    text += "".join(
        f"CREATE QUERY {name} AS SELECT A.t AS a, B.t AS b FROM A, B WHERE A.k = B.k AND {band};"
        for name, band in bands.items()
    )
    text += (
        "CREATE QUERY newest AS SELECT A.t AS a, B.t AS b FROM A ASOF JOIN B ON A.k = B.k AND A.t >= B.t WINDOW 1 s;"
    )
    found = LocalJob(parse_job(text), shards=2).push(
        {"A": pa.table({"t": [0, 10], "k": [1, 1]}), "B": pa.table({"t": [0, 2, 4, 6, 9, 18, 19], "k": [1] * 7})},
        ended=True,
    )
    rows = {name: [(row["a"], row["b"]) for row in table.to_pylist()] for name, table in found.items()}
    assert rows["numbers"] == rows["strict"] == rows["times"] == [(0, 4), (0, 6), (10, 18)]
    assert rows["newest"] == [(0, 0), (10, 9)]
