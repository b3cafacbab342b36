"""Tables in FROM: what is looked up for which stream, and what becomes of the conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.model import JobSpec, Query, Side, SqlError
from muntin.plan import make_plan
from muntin.sql import parse_job, parse_query
from sql.conftest import STREAMS, check, marked

TABLES = """
CREATE TABLE Places (id BIGINT, building STRING, Floor INT, at STRUCT<x: INT, y: INT>)
  WITH (format = 'parquet', path = 'places');
CREATE TABLE Codes (code STRING, num BIGINT, weight DOUBLE) WITH (format = 'csv', path = 'codes', header = 'true');
"""
ON = "A.LocationId = B.LocationId"
AB = f"Temperature A JOIN Humidity B ON {ON}"


@pytest.fixture(scope="module")
def spec() -> JobSpec:
    return parse_job(STREAMS + TABLES)


def bound(spec: JobSpec, text: str) -> Query:
    return parse_query(f"{text} WINDOW 1 min", spec, name="q")


def placed(query: Query) -> dict[str, str]:
    names = ("left", "right", "residual", "after")
    return {n: e.text for n, e in zip(names, (*query.where, query.residual, query.after), strict=True) if e is not None}


FOUND, LOOKED = "A.LocationId = P.id", "P looked up"
FORMS = [
    (f"{AB} JOIN Places P ON A.LocationId = P.id", {"left": FOUND}),
    (f"{AB} INNER JOIN Places P ON P.id = A.LocationId", {"left": FOUND}),
    (f"{AB} LEFT JOIN Places P ON A.LocationId = P.id", {"left": LOOKED}),
    (f"{AB} LEFT OUTER JOIN Places P ON (A.LocationId = P.id)", {"left": LOOKED}),
    (f"Temperature A JOIN Places P ON A.LocationId = P.id JOIN Humidity B ON {ON}", {"left": FOUND}),
    (f"Temperature A, Humidity B, Places P WHERE {ON} AND A.LocationId = P.id", {"left": FOUND}),
    # what stands after a join that is not inner holds of what comes out of it, what stands before, of its rows
    (f"{AB.replace('JOIN', 'LEFT JOIN')} JOIN Places P ON A.LocationId = P.id", {"left": FOUND}),
    (f"{AB.replace('JOIN', 'RIGHT JOIN')} JOIN Places P ON A.LocationId = P.id", {"after": FOUND}),
    (f"Temperature A JOIN Places P ON A.LocationId = P.id RIGHT JOIN Humidity B ON {ON}", {"left": FOUND}),
    (f"{AB.replace('JOIN', 'RIGHT JOIN')} LEFT JOIN Places P ON A.LocationId = P.id", {"left": LOOKED}),
    (f"{AB.replace('JOIN', 'LEFT SEMI JOIN')} JOIN Places P ON A.LocationId = P.id", {"left": FOUND}),
    (f"{AB.replace('JOIN', 'FULL JOIN')} LEFT JOIN Places P ON A.LocationId = P.id", {}),
]  # fmt: skip


@pytest.mark.parametrize(("form", "places"), FORMS)
def test_each_spelling_looks_the_same_up(spec: JobSpec, form: str, places: dict[str, str]) -> None:
    query = bound(spec, f"SELECT A.t, P.building FROM {form}")
    (lookup,) = query.lookups
    assert (lookup.stream, lookup.table, [c.name for c in lookup.columns]) == ("Temperature", "Places", ["building"])
    assert [(k.expr.sql, k.column, k.type) for k in lookup.keys] == [('"l.LocationId"', "id", "bigint")]
    assert [o.name for o in query.select] == ["t", "building"]
    assert query.select[1].expr.columns(Side.LEFT) == (lookup.named("building"),)
    assert placed(query) == places


def test_columns_of_a_table_are_columns_of_its_stream(spec: JobSpec) -> None:
    text = f"SELECT building, P.floor + 1, P.at.x, count(*) AS n FROM {AB} JOIN Places P ON A.LocationId = P.id"
    query = bound(spec, f"{text} WHERE P.floor > 2 GROUP BY P.building, floor + 1, P.at.x")
    assert [o.name for o in query.select] == ["building", "(floor + 1)", "x", "n"]
    assert sorted(c.name for c in query.lookups[0].columns) == ["Floor", "at", "building"]
    assert placed(query) == {"left": "P.floor > 2 AND A.LocationId = P.id"}


def test_a_star_has_the_columns_of_tables(spec: JobSpec) -> None:
    query = bound(spec, f"SELECT P.*, A.t FROM {AB} LEFT JOIN Places P ON A.LocationId = P.id")
    assert [o.name for o in query.select] == ["id", "building", "Floor", "at", "t"]


def test_a_column_of_a_table_can_be_the_key_of_the_window_join(spec: JobSpec) -> None:
    text = "SELECT A.t FROM Temperature A JOIN Places P ON A.LocationId = P.id JOIN Humidity B ON P.building = B.tag"
    (key,) = bound(spec, text).keys
    assert key.left.sql == '"l.building of Places (id = LocationId)"' and key.right.sql == '"r.tag"'


def test_a_table_is_looked_into_by_what_another_table_says(spec: JobSpec) -> None:
    text = f"SELECT C.num FROM {AB} JOIN Places P ON A.LocationId = P.id LEFT JOIN Codes C ON C.code = P.building"
    first, second = bound(spec, text).lookups
    assert [c.name for c in first.columns] == ["building"]
    assert second.keys[0].expr.left == (first.named("building"),)


def test_keys_of_several_columns_and_expressions(spec: JobSpec) -> None:
    text = f"SELECT C.weight FROM {AB} JOIN Codes C ON lower(A.tag) = C.code AND A.t = C.num AND C.weight > 1"
    query = bound(spec, text)
    assert [(k.column, k.type) for k in query.lookups[0].keys] == [("code", "string"), ("num", "bigint")]
    assert "C.weight > 1" in placed(query)["left"]


def test_queries_with_and_without_tables_share_one_join(spec: JobSpec) -> None:
    job = parse_job(
        STREAMS
        + TABLES
        + f"CREATE QUERY a AS SELECT A.t FROM {AB} WINDOW 1 min;"
        + f"CREATE QUERY b AS SELECT P.building FROM {AB} JOIN Places P ON A.LocationId = P.id WINDOW 1 min;"
        + f"CREATE QUERY c AS SELECT X.Floor FROM {AB} LEFT JOIN Places X ON X.id = A.LocationId WINDOW 2 min;"
    )
    (join,) = make_plan(job).joins
    (lookup,) = join.streams[0].lookups
    assert [c.name for c in lookup.columns] == ["building", "Floor"], "only what some query wants"
    assert join.streams[1].lookups == ()
    assert join.streams[0].own == job.streams["Temperature"].schema


def test_the_queries_of_the_example_share_one_join_and_its_table_has_their_columns() -> None:
    folder = Path(__file__).parents[2] / "examples" / "places"
    job = parse_job((folder / "places.sql").read_text())
    (join,) = make_plan(job).joins
    (lookup,) = join.streams[0].lookups
    header = (folder / "places.csv").read_text().splitlines()[0].split(",")
    assert list(job.tables["Places"].schema.names) == header and len(join.queries) == 3
    assert {column.name for column in lookup.columns} <= set(header)


REFUSED = [
    (f"SELECT A.t FROM {AB} «RIGHT JOIN Places P ON A.LocationId = P.id»", "RIGHT JOIN with a table"),
    (f"SELECT A.t FROM {AB} «CROSS JOIN Places P»", "CROSS JOIN with a table"),
    (f"SELECT A.t FROM {AB} «JOIN Places P ON P.building = 'x'»", "no equality joins Places to a stream"),
    (f"SELECT A.t FROM {AB} «JOIN Places P ON A.LocationId < P.id»", "no equality joins Places to a stream"),
    (f"SELECT A.t FROM {AB} «JOIN Places P ON A.t = P.id AND B.LocationId = P.Floor»", "joined to several streams"),
    (f"SELECT A.t FROM {AB} LEFT JOIN Places P ON A.t = P.id AND «P.Floor > 2»", "another condition in LEFT JOIN"),
    (f"SELECT A.t FROM {AB} JOIN Places P ON «A.tag» = P.id", "types string and bigint"),
    (f"SELECT A.t FROM {AB} JOIN Codes C ON «A.Value» = C.weight", "types double and double"),
    (f"SELECT «P.nothing» FROM {AB} JOIN Places P ON A.LocationId = P.id", "Places has no column nothing"),
    (f"SELECT A.t FROM «Places P» JOIN Temperature A ON A.LocationId = P.id JOIN Humidity B ON {ON}", "FROM begins"),
    ("SELECT A.t FROM Temperature A JOIN «Places [RANGE 1 min] P» ON A.t = P.id", "no window"),
    ("SELECT A.t FROM «Temperature A» JOIN Places P ON A.LocationId = P.id", "joins two streams, this has one"),
    (f"SELECT A.t FROM {AB} «JOIN Places a ON A.LocationId = a.id»", "are called a"),
    ("SELECT A.t FROM Temperature A WHERE EXISTS (SELECT 1 FROM «Places» P WHERE P.id = A.t)", "a table, not a stream"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "message"), REFUSED)
def test_what_has_no_answer_is_refused_at_its_place(spec: JobSpec, case: str, message: str) -> None:
    text, place = marked(case)
    with pytest.raises(SqlError) as caught:
        parse_query(f"{text} WINDOW 1 min", spec, name="q")
    check(caught.value, f"{text} WINDOW 1 min", place, message)


STATEMENTS = [
    ("CREATE TABLE t «x» INT", "expected ( and the table's columns"),
    ("CREATE TABLE t (x INT «METADATA» ) WITH (format = 'csv')", "METADATA"),
    ("CREATE TABLE «t» (x INT)", "has no format"),
    ("CREATE TABLE t (x INT) «TIMESTAMP» BY x", "unexpected TIMESTAMP"),
    ("CREATE TABLE t (x INT, «x» INT) WITH (format = 'csv')", "already there"),
    ("CREATE TABLE «Humidity» (x INT) WITH (format = 'csv')", "already a stream Humidity"),
    ("CREATE TABLE «Places» (x INT) WITH (format = 'csv')", "the table Places is already there"),
]


@pytest.mark.parametrize(("case", "message"), STATEMENTS)
def test_a_wrong_table_is_told_what_is_wrong(case: str, message: str) -> None:
    text, _ = marked(case)
    with pytest.raises(SqlError) as caught:
        parse_job(STREAMS + TABLES + text)
    assert message in caught.value.message and caught.value.hint
