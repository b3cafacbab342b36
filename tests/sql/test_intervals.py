"""Comparisons of event times with constant offsets are windows, in every spelling."""

from __future__ import annotations

import pytest

from muntin.model import Axis, JobSpec, Query, SqlError, Window
from muntin.sql import parse_query

from .conftest import check, marked

S = 1_000_000
MIN, HOUR, DAY = 60 * S, 3600 * S, 86_400 * S
AB = "SELECT A.Value FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId"
BA = "SELECT A.Value FROM Humidity B, Temperature A WHERE A.LocationId = B.LocationId"
ON = "SELECT A.Value FROM Temperature A JOIN Humidity B ON A.LocationId = B.LocationId"


def band(low: int, high: int) -> Window:
    """What allows the differences `right.ts - left.ts` from `low` to `high`."""
    return Window(max(0, high + 1), max(0, 1 - low), starts=(max(0, low), max(0, -high)))


def bound(spec: JobSpec, text: str) -> Query:
    return parse_query(text, spec, name="q")


SPELLINGS = [
    ("B.ts BETWEEN A.ts - INTERVAL '10' MINUTE AND A.ts + INTERVAL '5' MINUTE", -10 * MIN, 5 * MIN),
    ("B.ts BETWEEN A.ts - INTERVAL 10 MINUTES AND A.ts + INTERVAL 5 MINUTES", -10 * MIN, 5 * MIN),
    ("(B.ts BETWEEN A.ts - INTERVAL '10 minutes' AND A.ts + INTERVAL '5 minutes')", -10 * MIN, 5 * MIN),
    ("A.ts BETWEEN B.ts - INTERVAL '5' MINUTE AND B.ts + INTERVAL '10' MINUTE", -10 * MIN, 5 * MIN),
    ("B.ts >= A.ts - INTERVAL 10 MINUTES AND B.ts <= A.ts + INTERVAL 5 MINUTES", -10 * MIN, 5 * MIN),
    ("A.ts - INTERVAL 10 MINUTES <= B.ts AND A.ts + INTERVAL 5 MINUTES >= B.ts", -10 * MIN, 5 * MIN),
    ("B.ts > A.ts - INTERVAL 10 MINUTES AND B.ts < A.ts + INTERVAL 5 MINUTES", 1 - 10 * MIN, 5 * MIN - 1),
    ("NOT B.ts <= A.ts - INTERVAL 10 MINUTES AND NOT (B.ts >= A.ts + INTERVAL 5 MINUTES)", 1 - 10 * MIN, 5 * MIN - 1),
    ("B.ts - INTERVAL 1 HOUR >= A.ts AND B.ts - INTERVAL 2 HOURS <= A.ts", HOUR, 2 * HOUR),
    ("B.ts > A.ts + INTERVAL 1 HOUR AND B.ts <= A.ts + INTERVAL 2 HOURS", HOUR + 1, 2 * HOUR),
    ("A.ts > B.ts + INTERVAL 1 HOUR AND A.ts < B.ts + INTERVAL 2 HOURS", 1 - 2 * HOUR, -HOUR - 1),
    ("B.ts >= A.ts AND B.ts < INTERVAL '1' DAY + A.ts", 0, DAY - 1),
    ("B.ts >= A.ts AND B.ts - A.ts <= INTERVAL '5' SECOND", 0, 5 * S),
    ("B.ts - A.ts BETWEEN INTERVAL '-5' SECOND AND INTERVAL '5' SECOND", -5 * S, 5 * S),
    ("B.ts - A.ts BETWEEN -INTERVAL '5' SECOND AND INTERVAL -1 SECOND", -5 * S, -S),
    ("INTERVAL 5 SECONDS >= A.ts - B.ts AND INTERVAL 5 SECONDS > B.ts - A.ts", -5 * S, 5 * S - 1),
    ("B.ts = A.ts + INTERVAL 5 SECONDS", 5 * S, 5 * S),
    ("A.ts = B.ts", 0, 0),
    ("B.ts >= A.ts AND B.ts <= timestampadd(MINUTE, 5, A.ts)", 0, 5 * MIN),
    ("B.ts >= dateadd(HOUR, -1, A.ts) AND B.ts <= A.ts", -HOUR, 0),
    ("B.ts >= A.ts AND B.ts <= A.ts + make_dt_interval(1, 2, 3, 4.5)", 0, DAY + 2 * HOUR + 3 * MIN + 4_500_000),
    ("B.ts >= A.ts AND B.ts <= A.ts + INTERVAL 1 HOUR + INTERVAL 5 MINUTES - INTERVAL 1 SECOND", 0, HOUR + 299 * S),
    ("B.ts >= A.ts AND B.ts <= A.ts + (INTERVAL 1 HOUR + INTERVAL 5 MINUTES)", 0, HOUR + 5 * MIN),
    ("B.ts >= A.ts AND B.ts <= A.ts + INTERVAL 1 DAY 2 HOURS", 0, DAY + 2 * HOUR),
    ("B.ts >= A.ts AND B.ts <= A.ts + INTERVAL '1 day 2 hours'", 0, DAY + 2 * HOUR),
    ("B.ts >= A.ts AND B.ts <= A.ts + INTERVAL '1 02:00:00.5' DAY TO SECOND", 0, DAY + 2 * HOUR + S // 2),
    ("B.ts >= A.ts + INTERVAL '-1:30' HOUR TO MINUTE AND B.ts <= A.ts", -90 * MIN, 0),
    ("B.ts >= A.ts AND B.ts <= A.ts + INTERVAL 1 HOUR AND B.ts <= A.ts + INTERVAL 1 MINUTE", 0, MIN),
]


@pytest.mark.parametrize(("condition", "low", "high"), SPELLINGS)
@pytest.mark.parametrize("start", [AB, BA, ON])
def test_event_times_with_constant_offsets_are_a_window(
    spec: JobSpec, start: str, condition: str, low: int, high: int
) -> None:
    query = bound(spec, f"{start} AND {condition}")
    assert query.window == band(low, high)
    assert query.residual is None and query.after is None
    assert len(query.keys) == 1, "equal times are a window beside another equality"


def test_ages_that_do_not_begin_at_zero_are_spelled_out(spec: JobSpec) -> None:
    query = bound(spec, f"{AB} AND B.ts BETWEEN A.ts + INTERVAL 1 HOUR AND A.ts + INTERVAL 2 HOURS")
    assert query.window == Window(2 * HOUR + 1, 0, starts=(HOUR, 0))
    query = bound(spec, f"{AB} AND A.ts BETWEEN B.ts + INTERVAL 1 HOUR AND B.ts + INTERVAL 2 HOURS")
    assert query.window == Window(0, 2 * HOUR + 1, starts=(0, HOUR))


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (f"{AB} AND B.ts >= A.ts WINDOW 1 min", 0, MIN - 1),
        (f"{AB} AND B.ts > A.ts + INTERVAL 1 SECOND WINDOW 1 min", S + 1, MIN - 1),
        (f"{AB} AND B.ts BETWEEN A.ts - INTERVAL 1 SECOND AND A.ts + INTERVAL 1 HOUR WINDOW 1 min", -S, MIN - 1),
        (f"{AB} AND B.ts >= A.ts".replace("Temperature A", "Temperature [RANGE 5 s] A"), 0, 5 * S - 1),
        (f"{AB} AND B.ts <= A.ts".replace("Humidity B", "Humidity [RANGE 5 s] B"), 1 - 5 * S, 0),
    ],
)
def test_an_interval_and_a_window_hold_together(spec: JobSpec, text: str, low: int, high: int) -> None:
    assert bound(spec, text).window == band(low, high)


@pytest.mark.parametrize("window", ["", " WINDOW 1 min"])
def test_bounds_that_cross_leave_nothing(spec: JobSpec, window: str) -> None:
    crossed = "B.ts > A.ts + INTERVAL 2 HOURS AND B.ts < A.ts + INTERVAL 1 HOUR"
    assert bound(spec, f"{AB} AND {crossed}{window}").window == Window(0, 0)
    assert bound(spec, f"{AB} AND B.ts > A.ts + INTERVAL 2 HOURS WINDOW 1 min").window == Window(0, 0)


def test_half_of_between_may_be_a_window_and_the_other_half_a_condition(spec: JobSpec) -> None:
    query = bound(spec, f"{AB} AND B.ts BETWEEN A.ts AND A.ts + INTERVAL 1 HOUR AND A.ts BETWEEN B.ts AND A.ts")
    assert query.window == band(0, 0) and query.residual is not None
    assert query.residual.text == "A.ts BETWEEN B.ts AND A.ts" and query.residual.sql == '"l.ts" <= "l.ts"'


def test_equal_times_alone_are_looked_up(spec: JobSpec) -> None:
    query = bound(spec, "SELECT A.Value FROM Temperature A, Humidity B WHERE B.ts = A.ts + INTERVAL 5 SECONDS")
    assert query.window == band(5 * S, 5 * S)
    assert [(k.left.text, k.right.text) for k in query.keys] == [("A.ts + INTERVAL 5 SECONDS", "B.ts")]


def test_times_alone_are_a_condition_over_both_streams(spec: JobSpec) -> None:
    query = bound(spec, "SELECT A.Value FROM Temperature A, Humidity B WHERE B.ts > A.ts WINDOW 1 min")
    assert query.window == band(1, MIN - 1)
    assert query.keys == () and query.residual is not None and query.residual.text == "B.ts > A.ts"


def test_a_window_of_rows_leaves_conditions_on_times_as_they_are(spec: JobSpec) -> None:
    query = bound(spec, f"{AB} AND B.ts > A.ts WINDOW 5 ROWS")
    assert query.window == Window(5, 5, (Axis.ROWS, Axis.ROWS))
    assert query.residual is not None and query.residual.text == "B.ts > A.ts"


@pytest.mark.parametrize(
    "condition",
    ["A.ts <> B.ts", "A.ts < B.ts OR A.Value > 5", "B.ts NOT BETWEEN A.ts AND A.ts", "A.day < B.ts",
     "CASE WHEN A.ok THEN A.ts ELSE B.ts END < B.ts", "DATE_TRUNC('HOUR', A.ts) < B.ts"],
)  # fmt: skip
def test_other_conditions_on_times_stay_conditions(spec: JobSpec, condition: str) -> None:
    query = bound(spec, f"{AB} AND ({condition}) WINDOW 1 min")
    assert query.window == Window(MIN, MIN) and query.residual is not None


FAULTS = [
    (f"{AB} AND B.ts >= A.ts".replace("Temperature A", "«Temperature A»"), "no window for A: B.ts may be"),
    (f"{AB} AND B.ts <= A.ts".replace("Humidity B", "«Humidity B»"), "no window for B: A.ts may be as much later"),
    (f"{AB} AND B.ts > A.day".replace("Temperature A", "«Temperature A»"), "only the event times A.ts and B.ts"),
    (
        f"{AB} AND B.ts < DATE_TRUNC('HOUR', A.ts) + INTERVAL 1 HOUR".replace("Temperature A", "«Temperature A»"),
        "only the event times A.ts and B.ts, compared with constant offsets, make one",
    ),
    (f"{AB} AND B.ts < A.ts + «INTERVAL A.t SECOND»", "an INTERVAL that is not constant is not supported yet"),
    (f"{AB} AND B.ts < A.ts + «INTERVAL '1' MONTH»", "a MONTH is not always equally long"),
    (f"{AB} AND B.ts < «timestampadd(YEAR, 1, A.ts)»", "a YEAR is not always equally long"),
    (f"{AB} AND B.ts < A.ts + «INTERVAL '5' PARSEC»", "PARSEC is not a unit of time"),
    (f"{AB} AND B.ts < A.ts + «INTERVAL '5:5' DAY TO SECOND»", "'5:5' is not an interval from DAY to SECOND"),
    (f"{AB} AND B.ts < A.ts + «INTERVAL '5 minutes or so'»", "'5 minutes or so' is not a duration"),
    (f"{AB} AND B.ts < A.ts + «INTERVAL 40000 DAYS» WINDOW 1 min", "too long"),
    (
        AB.replace("Temperature A, Humidity B", "Temperature A, «Humidity B»") + " AND A.ts > B.ts + INTERVAL 1 SECOND",
        "no window for B: A.ts may be as much later than B.ts as it likes",
    ),
    (
        f"«SELECT»{AB[6:].replace('A.Value', 'COUNT(*)', 1)} AND B.ts BETWEEN A.ts + INTERVAL 1 HOUR AND "
        "A.ts + INTERVAL 2 HOURS",
        "an aggregate over pairs of which one row has left when the other comes",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "message"), FAULTS)
def test_a_wrong_interval_is_told_where_and_what_to_do(spec: JobSpec, case: str, message: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as error:
        bound(spec, text)
    check(error.value, text, place, message)


def test_offsets_that_add_up_to_more_than_a_century_are_refused(spec: JobSpec) -> None:
    sums = " + ".join(["INTERVAL 30000 DAYS"] * 3)
    with pytest.raises(SqlError, match="may be too far apart"):
        bound(spec, f"{AB} AND B.ts BETWEEN A.ts AND A.ts + {sums}")


def test_a_very_long_sum_gets_a_message(spec: JobSpec) -> None:
    with pytest.raises(SqlError, match="too large") as error:
        bound(spec, f"{AB} AND B.ts < A.ts{' + INTERVAL 1 SECOND' * 2000}")
    assert error.value.hint
