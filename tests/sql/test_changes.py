"""CREATE [OR REPLACE] QUERY and DROP QUERY for a job that runs, and texts of queries that can be read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.model import Change, JobSpec, Query, SqlError
from muntin.sql import parse_change, parse_job, parse_query

from .conftest import STREAMS
from .test_errors import AB, END, WORDS, check, marked

ROOT = Path(__file__).parents[2]
JOBS = sorted([*(ROOT / "tests/plan/golden").glob("*.sql"), *(ROOT / "examples").glob("*.sql")])
QUERY = f"SELECT A.ts {AB} {END}"
OTHER = f"SELECT B.tag {AB} AND A.Value > 30 WINDOW 5 s"
RUNNING = parse_job(f"{STREAMS} CREATE QUERY Hot AS {QUERY}; CREATE QUERY cold AS {QUERY}")
AWKWARD = (
    f"SELECT A.tag || '; -- no comment' AS `x;y`, -- a comment; with '\n A.Value /* one more */ + 1 AS v {AB} {END}"
)


def without(spec: JobSpec, name: str) -> JobSpec:
    return replace(spec, queries={n: q for n, q in spec.queries.items() if n != name})


def queried(change: Change) -> Query:
    assert change.query is not None and change.query.name == change.name
    return change.query


def assert_reads_back(query: Query, spec: JobSpec) -> None:
    again = parse_query(query.text, without(spec, query.name), name=query.name)
    assert replace(again, text="") == replace(query, text="")
    assert again.text == query.text


@pytest.mark.parametrize("create", ["CREATE QUERY", "CREATE OR REPLACE QUERY", "create\n Or  replace /* c */ query"])
def test_a_query_that_there_is_not_is_added(create: str) -> None:
    change = parse_change(f"-- new\n{create} mild AS {OTHER};", RUNNING)
    assert change == Change("add", "mild", parse_query(OTHER, RUNNING, name="mild"))
    assert queried(change).text == f"CREATE QUERY mild AS {OTHER}"


@pytest.mark.parametrize("written", ["Hot", "HOT", "`hot`"])
def test_a_query_that_there_is_may_be_replaced_and_keeps_its_spelling(written: str) -> None:
    change = parse_change(f"CREATE OR REPLACE QUERY {written} AS {OTHER}", RUNNING)
    assert change == Change("replace", "Hot", parse_query(OTHER, without(RUNNING, "Hot"), name="Hot"))
    assert queried(change).text == f"CREATE QUERY Hot AS {OTHER}"


def test_a_query_may_be_replaced_by_itself() -> None:
    old = RUNNING.queries["Hot"]
    change = parse_change(old.text.replace("CREATE", "CREATE OR REPLACE"), RUNNING)
    assert change == Change("replace", "Hot", old)


@pytest.mark.parametrize("text", ["DROP QUERY hot", "drop query HOT;", "DROP QUERY `Hot` ; -- gone\n;"])
def test_a_query_that_there_is_may_be_dropped(text: str) -> None:
    assert parse_change(text, RUNNING) == Change("drop", "Hot", None)


def test_a_change_leaves_the_job_as_it_is() -> None:
    before = dict(RUNNING.queries)
    for text in (f"CREATE QUERY mild AS {OTHER}", f"CREATE OR REPLACE QUERY hot AS {OTHER}", "DROP QUERY hot"):
        parse_change(text, RUNNING)
    assert RUNNING.queries == before


WRONG = [
    # one statement, and which
    ("«»", "expected CREATE QUERY or DROP QUERY"),
    ("«» ; -- nothing", "expected CREATE QUERY or DROP QUERY"),
    (f"CREATE QUERY a AS {QUERY};\n«CREATE QUERY b AS {QUERY}»", "expected CREATE QUERY or DROP QUERY, and one only"),
    ("DROP QUERY hot; «DROP QUERY cold»;", "and one only"),
    (f"«{QUERY}»", "expected CREATE QUERY or DROP QUERY"),
    ("«SET shards = 4»", "expected CREATE QUERY or DROP QUERY"),
    ("«CREATE STREAM S (ts TIMESTAMP) TIMESTAMP BY ts WITH (format = 'x')»", "expected CREATE QUERY or DROP QUERY"),
    ("«INSERT INTO x VALUES (1)»", "expected CREATE QUERY or DROP QUERY"),
    ("«hot»", "expected CREATE QUERY or DROP QUERY"),
    ("CREATE «VIEW» t AS SELECT 1", "CREATE VIEW is not a statement here"),
    ("CREATE OR REPLACE «STREAM» S (ts TIMESTAMP)", "only queries can be replaced"),
    ("DROP «STREAM» Temperature", "only queries can be dropped"),
    # names
    (f"CREATE QUERY «HOT» AS {QUERY}", "there is already a query Hot"),
    ("DROP QUERY «mild»", "there is no query mild"),
    ("DROP QUERY «Temperature»", "there is no query Temperature"),
    ("DROP «QUERY»", "expected the query's name"),
    ("DROP QUERY «IF» EXISTS hot", "DROP QUERY IF EXISTS is not supported yet"),
    ("DROP QUERY hot«,» cold", "unexpected ,"),
    (f"CREATE QUERY «`a b`» AS {QUERY}", "cannot name a query"),
    (f"CREATE OR REPLACE QUERY «{'q' * 101}» AS {QUERY}", "101 characters"),
    # the query itself
    (f"CREATE QUERY a AS SELECT A.«Valu» {AB} {END}", "Temperature has no column Valu"),
    (f"CREATE OR REPLACE QUERY hot AS\nSELECT A.«Valu» {AB} {END}", "Temperature has no column Valu"),
    (f"CREATE OR REPLACE QUERY hot AS SELECT A.ts FROM «Hot» A, Humidity B {END}", "there is no stream Hot"),
    (f"CREATE OR REPLACE QUERY hot AS {QUERY} «EMIT CHANGES»", "EMIT and EVERY go with aggregates"),
    ("CREATE OR REPLACE QUERY hot «SELECT» 1", "expected AS after the query's name"),
    (f"CREATE QUERY a AS SELECT A.ts «,» {AB} {END}".replace("«,» FROM", ", «FROM»"), "missing beside the comma"),
    (f"CREATE QUERY a AS SELECT «'open {AB} {END}»", "this string does not end"),
]


@pytest.mark.parametrize(("case", "message"), WRONG)
def test_a_wrong_change_is_told_where_and_what_to_do(case: str, message: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as error:
        parse_change(text, RUNNING, source="change.sql")
    check(error.value, text, replace(place, length=max(place.length, 1)), message)
    assert error.value.render().startswith(f"change.sql:{place.line}:{place.column}: ")
    assert "job file" not in error.value.render()


def test_the_hint_for_a_name_that_is_taken_names_both_ways_out() -> None:
    with pytest.raises(SqlError) as error:
        parse_change(f"CREATE QUERY hot AS {QUERY}", RUNNING)
    hint = error.value.hint or ""
    assert "CREATE OR REPLACE QUERY Hot" in hint and "DROP QUERY Hot" in hint


@pytest.mark.parametrize(
    ("count", "hint"),
    [
        (0, "queries are none"),
        (1, "queries are q0"),
        (6, "queries are q0, q1, q2, q3, q4, q5"),
        (9, "queries are q0, q1, q2, q3, q4, q5 and 3 more"),
    ],
)
def test_the_hint_for_an_unknown_name_lists_at_most_six(count: int, hint: str) -> None:
    query = parse_query(QUERY, without(RUNNING, "Hot"), name="Hot")
    spec = replace(RUNNING, queries={f"q{i}": replace(query, name=f"q{i}") for i in range(count)})
    with pytest.raises(SqlError) as error:
        parse_change("DROP QUERY another", spec)
    assert error.value.hint == hint


def test_the_hint_for_a_name_nearly_right_says_which() -> None:
    with pytest.raises(SqlError) as error:
        parse_change("DROP QUERY colt", RUNNING)
    assert error.value.hint == "did you mean cold? queries are Hot, cold"


@pytest.mark.parametrize("path", JOBS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_the_text_of_every_query_reads_back(path: Path) -> None:
    spec = parse_job(path.read_text())
    assert spec.queries
    for query in spec.queries.values():
        assert_reads_back(query, spec)
        rest, select = without(spec, query.name), query.text.removeprefix(f"CREATE QUERY {query.name} AS ")
        added = parse_change(query.text, rest)
        replaced = parse_change(f"CREATE OR REPLACE QUERY {query.name.upper()} AS {select};", spec)
        assert (added.kind, replaced.kind) == ("add", "replace")
        for same in (queried(added), queried(replaced), parse_query(select, rest, name=query.name)):
            assert same == query
            assert_reads_back(same, rest)


@pytest.mark.parametrize("select", [QUERY, OTHER, AWKWARD, f"\n{QUERY} -- the end", f"/* first */ {OTHER} /* last */"])
def test_comments_quotes_and_lines_do_not_keep_a_text_from_reading_back(spec: JobSpec, select: str) -> None:
    made = [
        parse_query(f"{select}\n;", spec, name="order"),
        parse_query(f"CREATE QUERY `order` AS {select}", spec),
        queried(parse_change(f"-- c\nCREATE QUERY order AS {select}\n;", spec)),
        queried(parse_change(f"CREATE OR REPLACE QUERY order AS {select}", spec)),
        parse_job(f"{STREAMS} CREATE OR REPLACE QUERY order AS {select}").queries["order"],
    ]
    for query in made:
        assert replace(query, text="") == replace(made[0], text="")
        assert_reads_back(query, spec)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "OR", "REPLACE", "Hot"]), max_size=12).map(" ".join))
def test_any_soup_of_words_is_a_change_or_refused_with_a_hint(soup: str) -> None:
    for text in (
        soup,
        f"CREATE OR REPLACE {soup}",
        f"DROP QUERY {soup}",
        f"CREATE OR REPLACE QUERY hot AS {QUERY} {soup}",
    ):
        try:
            change = parse_change(text, RUNNING)
        except SqlError as error:
            assert error.hint and error.place and error.render()
        else:
            assert change.query is None or change.query.name == change.name
