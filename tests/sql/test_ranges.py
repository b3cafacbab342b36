"""What conditions of joins without an equality say of two values: never less than the condition itself allows."""

from __future__ import annotations

import pytest

from muntin.sql import parse_job

COLUMNS = "ts TIMESTAMP, id BIGINT, x DOUBLE, f FLOAT, i INT, d DATE, t TIMESTAMP, n DECIMAL(10,2), w DECIMAL(38,10)"
STREAMS = "".join(
    f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY ts WITH (format = 'parquet', path = '{name}');" for name in "AB"
)
DAY = 86_400_000_000


def ranges(condition: str) -> list[tuple[str, str, float | None, float | None]]:
    query = f"CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE {condition} WINDOW 1 min;"
    found = parse_job(STREAMS + query).queries["q"].ranges
    return [
        (r.left.text, r.right.text, *(end if end is None else round(end, 2) for end in (r.low, r.high))) for r in found
    ]


@pytest.mark.parametrize(
    ("condition", "expected"),
    {
        "ABS(A.x - B.x) < 5": [("A.x", "B.x", -5, 5)],
        "5 >= abs(B.x - A.x)": [("A.x", "B.x", -5, 5)],
        "ABS(A.x - B.x - 3) < 5": [("A.x", "B.x", -8, 2)],
        "ABS(B.x - (A.x + 3)) <= 5": [("A.x", "B.x", -2, 8)],
        "A.x BETWEEN B.x - 1 AND B.x + 2": [("A.x", "B.x", -2, 1)],
        "A.x < B.x": [("A.x", "B.x", 0, None)],
        "A.x >= B.x": [("A.x", "B.x", None, 0)],
        "B.i > A.i + 3": [("A.i", "B.i", 3, None)],
        "3 + A.i < B.i - 2 + 1": [("A.i", "B.i", 4, None)],
        "NOT (A.x >= B.x)": [("A.x", "B.x", 0, None)],
        "A.x - B.x < 9": [("A.x", "B.x", -9, None)],
        "A.i - B.i > 5": [("A.i", "B.i", None, -5)],
        "A.x - B.x BETWEEN 1 AND 2": [("A.x", "B.x", -2, -1)],
        "A.x * 2 < B.x / 4": [("A.x * 2", "B.x / 4", 0, None)],
        "1 - A.x < B.x": [("1 - A.x", "B.x", 0, None)],
        "A.x < B.x AND A.i < B.i": [("A.x", "B.x", 0, None), ("A.i", "B.i", 0, None)],
        "A.i < B.x": [("A.i", "B.x", 0, None)],
        "A.n - B.n <= 0.5": [("A.n", "B.n", -0.5, None)],
        "A.w < B.w": [("A.w", "B.w", 0, None)],
        "A.d BETWEEN B.d - INTERVAL 1 DAY AND B.d": [("A.d", "B.d", 0, DAY)],
        "A.d < B.d + 3": [("A.d", "B.d + 3", 0, None)],
        "A.t < B.t + INTERVAL '2' SECOND": [("A.t", "B.t", -2e6, None)],
        "A.t - B.t < INTERVAL 5 SECONDS": [("A.t", "B.t", -5e6, None)],
    }.items(),
)
def test_what_a_condition_says_of_two_values(condition, expected):
    assert ranges(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "A.x <> B.x",
        "A.x < B.x OR A.i > 3",
        "A.x + B.x < 5",
        "A.x - B.x > 5",  # NaN minus anything is greater than 5
        "ABS(A.x - B.x) > 5",
        "A.w - B.w < 0.5",  # loses digits
        "A.d < B.t",
        "A.x - B.x < B.i",
        "ABS(A.x - B.x) < A.i",
        "NOT (A.x BETWEEN B.x AND B.x + 1)",
    ],
)
def test_what_says_nothing_that_an_order_answers(condition):
    assert ranges(condition) == []


def test_an_upper_end_rules_out_nan_so_that_a_lower_end_holds():
    assert ranges("A.x - B.x > 5 AND A.x - B.x < 9") == [("A.x", "B.x", -9, -5)]


def test_a_join_with_an_equality_has_no_ranges():
    assert ranges("A.id = B.id AND A.x < B.x") == []
