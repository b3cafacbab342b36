"""WINDOW UNTIL: rows that wait until a time of their own."""

from __future__ import annotations

import pytest

from muntin.model import Query, Side, SqlError, Window
from muntin.sql import parse_job

from .conftest import check, marked

STREAMS = """\
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, expires TIMESTAMP, ms BIGINT, day DATE)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, closes TIMESTAMP_NTZ)
  TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
"""
HOUR_US = 3_600_000_000


def query(text: str) -> Query:
    return parse_job(f"{STREAMS}CREATE QUERY q AS {text};").queries["q"]


def texts(found: Query) -> list[str | None]:
    return [until and until.text for until in found.until]


def test_at_most_is_the_window_of_both_streams_and_until_shortens_one():
    found = query("SELECT A.id FROM A, B WHERE A.k = B.k WINDOW UNTIL A.expires AT MOST 1 hour")
    assert found.window == Window(HOUR_US, HOUR_US)
    assert texts(found) == ["A.expires", None] and found.until[Side.LEFT].sql == '"l.expires"'


@pytest.mark.parametrize(
    ("text", "untils", "window"),
    [
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL B.closes AT MOST 1 hour", [None, "B.closes"], (HOUR_US, HOUR_US)),
        ("FROM B, A WHERE A.k = B.k WINDOW UNTIL B.closes, A.expires AT MOST 1 hour", ["A.expires", "B.closes"],
         (HOUR_US, HOUR_US)),
        ("FROM A [RANGE 1 hour] A JOIN B [NOW] B ON A.k = B.k WINDOW UNTIL A.expires", ["A.expires", None],
         (HOUR_US, 1)),
        ("FROM A JOIN B ON A.k = B.k AND B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR WINDOW UNTIL A.expires",
         ["A.expires", None], (HOUR_US + 1, 1)),
        ("FROM A JOIN B ON A.k = B.k AND A.ts <= B.ts WINDOW UNTIL expires AT MOST 1 hour", ["expires", None],
         (HOUR_US, 1)),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL least(A.expires, timestamp_millis(A.ms)) AT MOST 1 hour",
         ["least(A.expires, timestamp_millis(A.ms))", None], (HOUR_US, HOUR_US)),
        ("FROM A WHERE NOT EXISTS (SELECT 1 FROM B WHERE B.k = A.k WINDOW UNTIL A.expires, closes AT MOST 1 hour)",
         ["A.expires", "closes"], (HOUR_US, HOUR_US)),
        ("FROM A LEFT ANTI JOIN B ON A.k = B.k WINDOW UNTIL expires AT MOST 1 hour", ["expires", None],
         (HOUR_US, HOUR_US)),
    ],
)  # fmt: skip
def test_every_spelling(text: str, untils: list[str | None], window: tuple[int, int]):
    found = query(f"SELECT A.id {text}")
    assert texts(found) == untils
    assert (found.window.left, found.window.right) == window


def test_a_renamed_column_is_the_one_of_the_stream():
    found = query(
        "SELECT S.id FROM (SELECT id, k, expires AS x FROM A) S, B WHERE S.k = B.k WINDOW UNTIL S.x AT MOST 1 s"
    )
    assert found.until[Side.LEFT].sql == '"l.expires"'


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("FROM A, B WHERE A.k = B.k «WINDOW UNTIL A.expires»", "UNTIL has no AT MOST"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL «A.ms» AT MOST 1 hour", "A.ms is bigint, not a timestamp"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL «A.day» AT MOST 1 hour", "A.day is date, not a timestamp"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL «least(A.expires, B.ts)» AT MOST 1 hour", "speaks of both streams"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL A.expires, «A.ts» AT MOST 1 hour", "UNTIL names two times of A"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL A.expires AT MOST «5 ROWS»", "rows are no duration"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL A.expires AT «1» hour", "expected MOST after AT"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL «AT» MOST 1 hour", "expected a time after UNTIL"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL A.«nope» AT MOST 1 hour", "A has no column nope"),
        ("FROM A «[RANGE 1 hour]» A, B WHERE A.k = B.k WINDOW UNTIL A.expires AT MOST 1 hour", "a window of its own"),
        ("FROM A [ROWS 5] A, B [RANGE 1 hour] B WHERE A.k = B.k WINDOW UNTIL «A.expires»", "a number of rows"),
        ("FROM A, B WHERE A.k = B.k WINDOW UNTIL A.expires AT MOST «0 s»", "longer than zero"),
    ],
)
def test_what_is_refused_has_a_place_and_a_hint(case: str, message: str):
    text, place = marked(f"{STREAMS}CREATE QUERY q AS SELECT A.id {case};")
    with pytest.raises(SqlError) as error:
        parse_job(text)
    check(error.value, text, place, message)
