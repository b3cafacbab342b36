"""Messages speak the user's language: functions by the names that were written, windows of other systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.model import JobSpec, SqlError
from muntin.sql import parse_job, parse_query
from muntin.sql.function_table import FUNCTIONS

from .test_errors import AB, END, check, marked

SPARK = (Path(__file__).parent / "spark_functions.txt").read_text().split()
"""The functions of Spark 4.3 (SHOW SYSTEM FUNCTIONS), but for those that are operators."""
ARGUMENTS = (
    "",
    "A.Value",
    "A.tag",
    "A.ts, A.tag",
    "A.tag, A.t",
    "A.tag, A.tag, A.tag",
    "A.t, 1, 2, 3, 4, 5, 6, 7, 8, 9",
)
OF_TYPES = ("cannot choose between", "cannot compare", "cannot divide", "CAST from", "the type ")
"""What is said of the types of values, not of a function."""


def fault(spec: JobSpec, expression: str) -> SqlError | None:
    try:
        parse_query(f"SELECT {expression} AS x {AB} {END}", spec, name="q")
    except SqlError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", SPARK)
def test_a_message_about_a_function_calls_it_what_the_user_did(spec: JobSpec, name: str) -> None:
    faults = [found for arguments in ARGUMENTS if (found := fault(spec, f"{name}({arguments})")) is not None]
    assert faults, "no function takes all of these"
    for found in faults:
        about_types = found.message.startswith(OF_TYPES)
        assert about_types or name in found.message.lower(), found.render()
        assert "sqlglot" not in found.render()


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("uper(A.tag)", "did you mean upper?"),
        ("date_formatt(A.ts, 'yyyy')", "did you mean date_format?"),
        ("varpop(A.Value)", "did you mean var_pop?"),
        ("date_of_birth(A.tag)", "there are "),
        ("frobnicate(A.tag)", "docs/sql.md lists the functions"),
        ("upper(A.tag, A.tag)", "write upper(string)"),
        ("SUM()", "write SUM(expression)"),
        ("CAST(A.tag)", "write cast(value AS type)"),
        ("trim(A.tag FOR 3)", "write trim("),
        ("now()", "a query sees event times only"),
        ("current_timestamp()", "a query sees event times only"),
        ("datediff(PARSEC, A.ts, B.ts)", "units are MICROSECOND"),
        ("from_json(A.tag, 'a INT, b STRING').*", "name its fields, each after a dot: a, b"),
    ],
)
def test_the_hint_about_a_function_helps(spec: JobSpec, call: str, hint: str) -> None:
    found = fault(spec, call)
    assert found is not None and found.hint is not None
    assert found.hint.startswith(hint), found.render()


FOREIGN = [
    (
        "SELECT COUNT(*) FROM TABLE(«TUMBLE(TABLE A, DESCRIPTOR(ts), INTERVAL '5' MINUTES)») x, B",
        "WINDOW 5 minutes EVERY 5",
    ),
    ("SELECT 1 FROM «HOP(A, ts, INTERVAL '1' MINUTE, INTERVAL '5' MINUTES)» x, B", "WINDOW 5 minutes EVERY 1 minute"),
    (f"SELECT COUNT(*) {AB} GROUP BY «window(A.ts, '10 minutes', '5 minutes')»", "WINDOW 10 minutes EVERY 5 minutes"),
    (f"SELECT COUNT(*) {AB} GROUP BY «TUMBLE(A.ts, INTERVAL '90' SECOND)»", "WINDOW 90 second EVERY 90 second"),
    (f"SELECT COUNT(*) {AB} GROUP BY «session_window(A.ts, '5 minutes')»", "WINDOW 5 min"),
    (f"SELECT COUNT(*) {AB} GROUP BY «SESSION(A.ts, INTERVAL '5' MINUTE)»", "WINDOW 5 min"),
    (f"SELECT COUNT(*) {AB} WINDOW «TUMBLING (SIZE 5 MINUTES)»", "WINDOW 5 minutes EVERY 5 minutes"),
    (f"SELECT COUNT(*) {AB} WINDOW «HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES)»", "WINDOW 1 hour EVERY 10 minutes"),
    ("SELECT A.t FROM Temperature A JOIN Humidity B «WITHIN 5 MINUTES» ON A.t = B.d", "WINDOW 5 minutes"),
    ("SELECT A.t FROM Temperature A JOIN Humidity B «WITHIN (1 HOUR, 5 MINUTES)» ON A.t = B.d", "[RANGE 5 min]"),
]


@pytest.mark.parametrize(("case", "hint"), FOREIGN)
def test_a_window_of_another_system_is_answered_with_ours(spec: JobSpec, case: str, hint: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as error:
        parse_query(text, spec, name="q")
    check(error.value, text, place, "window")
    assert error.value.hint is not None and hint in error.value.hint


HINTS = [
    ("SELECT * FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId WINDOW 1 s",
     "two columns are called ts", "* EXCEPT (B.ts, B.LocationId, B.Value, B.tag)"),
    ("SELECT A.tag.* FROM Temperature A, Humidity B WHERE A.t = B.d WINDOW 1 s", "* of a struct", "tag.x"),
    ("SELECT A.t FROM Temperature A JOIN Humidity FOR SYSTEM_TIME AS OF A.ts AS B ON A.t = B.d",
     "FOR ... AS OF", "A ASOF JOIN B ON A.k = B.k AND A.ts >= B.ts"),
    ("SELECT A.t FROM Temperature A ASOF JOIN Humidity B USING (tag) WINDOW 1 s",
     "ASOF JOIN with USING", "A ASOF JOIN B ON A.k = B.k AND A.ts >= B.ts"),
    (f"SELECT A.ts AT TIME ZONE 'UTC' AS x {AB} {END}", "AT TIME ZONE is not supported yet", "supported are"),
    ("SELECT A.t FROM Temperature A, Humidity B WHERE A.t = B.d AND B.ts >= A.ts AND B.ts < A.ts + (A.ts - B.ts)",
     "only constant offsets make a window", "add B.ts <= A.ts + INTERVAL 1 HOUR"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), HINTS)
def test_what_people_bring_from_elsewhere_is_answered_with_what_to_write(
    spec: JobSpec, text: str, message: str, hint: str
) -> None:
    with pytest.raises(SqlError) as error:
        parse_query(text, spec, name="q")
    assert message in error.value.message
    assert error.value.hint is not None and hint in error.value.hint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("datediff(HOUR, A.ts, B.ts)", "timestampdiff(HOUR, A.ts, B.ts)"),
        ("DATE_DIFF(day, A.ts, B.ts)", "timestampdiff(DAY, A.ts, B.ts)"),
        ("date_add(HOUR, 2, A.ts)", "timestampadd(HOUR, 2, A.ts)"),
        ("dateadd(HOUR, 2, A.ts)", "timestampadd(HOUR, 2, A.ts)"),
        ("dateadd(A.day, 2)", "date_add(A.day, 2)"),
    ],
)
def test_functions_of_a_unit_have_the_names_that_spark_gives_them(spec: JobSpec, one: str, other: str) -> None:
    found, meant = (parse_query(f"SELECT {e} AS x {AB} {END}", spec, name="q").select[0].expr for e in (one, other))
    assert (found.sql, found.type) == (meant.sql, meant.type)


def test_the_words_of_other_systems_may_be_names() -> None:
    job = parse_job(
        "CREATE STREAM session (ts TIMESTAMP, hop INT, within INT) TIMESTAMP BY ts WITH (format = 'x');"
        "CREATE QUERY tumble AS SELECT A.hop, B.within FROM session A, session B WHERE A.hop = B.within WINDOW 5 s;"
    )
    assert list(job.queries) == ["tumble"]


WRONG = [
    (f"SELECT A.t + «FROM» {AB[5:]} {END}", "something is missing here"),
    ("SELECT A.t FROM Temperature A, Humidity B WHERE (A.t = B.d WINDOW «1» min", "expected )"),
    ("SELECT A.t FROM Temperature A, Humidity B WHERE A.t = WINDOW «1» min", "something is missing before WINDOW"),
    (f"«SELEC» A.t {AB} {END}", "SELEC does not begin a statement"),
    (f"«SELECT» DISTINCT {AB} {END}", "the SELECT list is empty"),
    (f"SELECT A.t {AB} AND «A.tag IN 'x'» {END}", "IN with a value that is not in parentheses"),
]


@pytest.mark.parametrize(("case", "message"), WRONG)
def test_a_parse_error_is_told_in_plain_words(spec: JobSpec, case: str, message: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as error:
        parse_query(text, spec, name="q")
    check(error.value, text, place, message)


def test_a_word_that_begins_no_statement_may_be_meant_for_one(spec: JobSpec) -> None:
    with pytest.raises(SqlError, match="did you mean SELECT"):
        parse_query(f"SELEC A.t {AB} {END}", spec, name="q")


def test_every_function_of_the_table_is_one_that_can_be_called(spec: JobSpec) -> None:
    for name in FUNCTIONS:
        found = fault(spec, f"{name}(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)")
        assert found is None or "not supported yet" not in found.message, name
