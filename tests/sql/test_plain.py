"""What stands for something else in a SELECT: each query is the same as its plain spelling."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.model import JobSpec, Query, SqlError
from muntin.sql import parse_job, parse_query

from .test_errors import check, marked

STREAMS = """\
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, v BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'x');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, v BIGINT, z STRING) TIMESTAMP BY ts WITH (format = 'x');
"""
AB = "FROM A, B WHERE A.k = B.k"
END = "WINDOW 1 min"


@pytest.fixture(scope="module")
def spec() -> JobSpec:
    return parse_job(STREAMS)


def shape(query: Query) -> Any:
    """A query without what was written."""
    grouped = query.aggregation
    return (
        (query.left, query.right, query.window),
        [(key.left.sql, key.right.sql, key.type) for key in query.keys],
        (query.kind, query.subject, query.preserved),
        [None if where is None else where.sql for where in (*query.where, query.residual, query.after)],
        [(output.name, output.expr.sql, output.expr.type) for output in query.select],
        grouped
        and (
            [group.sql for group in grouped.groups],
            [(call.function, call.arg and call.arg.sql) for call in grouped.calls],
            grouped.having and grouped.having.sql,
            grouped.top and [order.expr.sql for order in grouped.top.order],
        ),
    )


SAME = [
    # aliases and positions
    ("SELECT A.v AS x, COUNT(*) AS n {ab} GROUP BY x", "SELECT A.v AS x, COUNT(*) AS n {ab} GROUP BY A.v"),
    ("SELECT A.v + 1 AS x, COUNT(*) AS n {ab} GROUP BY X", "SELECT A.v + 1 AS x, COUNT(*) AS n {ab} GROUP BY A.v + 1"),
    ("SELECT A.v AS x, B.z, SUM(B.v) {ab} GROUP BY 1, 2", "SELECT A.v AS x, B.z, SUM(B.v) {ab} GROUP BY A.v, B.z"),
    ("SELECT A.s AS z, COUNT(*) AS n {ab} GROUP BY A.s, z", "SELECT A.s AS z, COUNT(*) AS n {ab} GROUP BY A.s, B.z"),
    (
        "SELECT A.s AS x, COUNT(*) AS n {ab} GROUP BY x HAVING n > 1 AND x > 'a'",
        "SELECT A.s AS x, COUNT(*) AS n {ab} GROUP BY A.s HAVING COUNT(*) > 1 AND A.s > 'a'",
    ),
    (
        "SELECT A.s AS x, SUM(A.v) AS z {ab} GROUP BY x HAVING z > 1",
        "SELECT A.s AS x, SUM(A.v) AS z {ab} GROUP BY A.s HAVING SUM(A.v) > 1",
    ),
    (
        "SELECT A.s AS x, SUM(A.v) AS z {ab} GROUP BY x, z HAVING z > 'a' AND MAX(z) > 'b'",
        "SELECT A.s AS x, SUM(A.v) AS z {ab} GROUP BY A.s, B.z HAVING B.z > 'a' AND MAX(B.z) > 'b'",
    ),
    ("SELECT A.v + B.v AS x, x * 2 AS y {ab}", "SELECT A.v + B.v AS x, (A.v + B.v) * 2 AS y {ab}"),
    (
        "SELECT A.v AS s, B.v AS w {ab} ORDER BY s, 2 DESC LIMIT 3",
        "SELECT A.v AS s, B.v AS w {ab} ORDER BY A.v, B.v DESC LIMIT 3",
    ),
    # stars
    ("SELECT A.* EXCEPT (ts, V) {ab}", "SELECT A.id, A.k, A.s {ab}"),
    (
        "SELECT * EXCEPT (A.ts, B.ts, B.id, A.k, B.v) {ab}",
        "SELECT A.id, A.v, A.s, B.k, B.z {ab}",
    ),
    ('SELECT A.s {ab} AND A.s = "hot"', "SELECT A.s {ab} AND A.s = 'hot'"),
    ("SELECT a.* EXCEPT (ts), b.z {ab}", "SELECT A.id, A.k, A.v, A.s, B.z {ab}"),
    # USING
    ("SELECT k, z FROM A JOIN B USING (k) WHERE k > 3", "SELECT A.k, z FROM A JOIN B ON A.k = B.k WHERE A.k > 3"),
    ("SELECT B.k, z FROM A JOIN B USING (k)", "SELECT B.k, B.z {ab}"),
    (
        "SELECT * EXCEPT (A.ts, B.ts, A.v) FROM A JOIN B USING (k, id)",
        "SELECT A.k, A.id, A.s, B.v, B.z FROM A JOIN B ON A.k = B.k AND A.id = B.id",
    ),
    ("SELECT K, COUNT(*) FROM A JOIN B USING (k) GROUP BY k", "SELECT A.k, COUNT(*) {ab} GROUP BY A.k"),
    ("SELECT k, v2 FROM B JOIN (SELECT k, v AS v2 FROM A) S USING (k)", "SELECT B.k, A.v AS v2 {ab}"),
    ("SELECT k, z FROM A RIGHT JOIN B USING (k)", "SELECT B.k, B.z FROM A RIGHT JOIN B ON A.k = B.k"),
    (
        "SELECT * EXCEPT (A.ts, B.ts, A.id, B.id, A.v) FROM A FULL JOIN B USING (k) WHERE k > 3",
        "SELECT COALESCE(A.k, B.k) AS k, A.s, B.v, B.z FROM A FULL JOIN B ON A.k = B.k WHERE COALESCE(A.k, B.k) > 3",
    ),
    # subqueries of FROM
    (
        "WITH hot AS (SELECT * FROM A WHERE v > 3) SELECT h.id, B.z FROM hot h JOIN B ON h.k = B.k",
        "SELECT A.id, B.z {ab} AND A.v > 3",
    ),
    (
        "SELECT S.x, s, z FROM (SELECT id AS x, k, s FROM A WHERE v > 3 AND (s = 'a' OR s = 'b')) S, B "
        "WHERE S.k = B.k AND x < B.id",
        "SELECT A.id AS x, A.s, B.z {ab} AND A.id < B.id AND A.v > 3 AND (A.s = 'a' OR A.s = 'b')",
    ),
    (
        "WITH a1 (t, key, w) AS (SELECT ts, k, v FROM A i WHERE i.s = 'x'), a2 AS (SELECT key, w FROM a1 WHERE w > 1) "
        "SELECT * FROM a2, (SELECT z FROM (SELECT k AS q, z FROM B) U WHERE q > 2) T WHERE key < length(z)",
        "SELECT A.k AS key, A.v AS w, B.z FROM A, B WHERE A.k < length(B.z) AND A.s = 'x' AND A.v > 1 AND B.k > 2",
    ),
    (
        "WITH t AS (SELECT * FROM A WHERE v > 1) SELECT x.v, y.v AS w FROM t x, t y WHERE x.k = y.k AND x.s < y.s",
        "SELECT x.v, y.v AS w FROM A x, A y WHERE x.k = y.k AND x.s < y.s AND x.v > 1 AND y.v > 1",
    ),
    (
        "WITH t AS (SELECT v AS id, id AS v, k FROM A) SELECT id, v, COUNT(*) AS n FROM t, (SELECT k FROM B) u "
        "WHERE t.k = u.k GROUP BY id, 2 HAVING v > 1",
        "SELECT A.v AS id, A.id AS v, COUNT(*) AS n {ab} GROUP BY A.v, A.id HAVING A.id > 1",
    ),
    ("WITH A AS (SELECT * FROM A WHERE v > 1) SELECT A.v {ab}", "SELECT A.v {ab} AND A.v > 1"),
]


@pytest.mark.parametrize(("written", "plain"), SAME)
def test_a_query_is_the_same_as_its_plain_spelling(spec: JobSpec, written: str, plain: str) -> None:
    made, wanted = (parse_query(f"{q.format(ab=AB)} {END}", spec, name="q") for q in (written, plain))
    assert shape(made) == shape(wanted)


def test_a_subquery_and_a_common_table_expression_may_have_a_window(spec: JobSpec) -> None:
    written = "WITH t AS (SELECT * FROM A [RANGE 5 s]) SELECT t.v FROM t, B [NOW] WHERE t.k = B.k"
    outside = "WITH t AS (SELECT * FROM A) SELECT t.v FROM t [RANGE 5 s], (SELECT k FROM B [NOW]) u WHERE t.k = u.k"
    plain = "SELECT A.v FROM A [RANGE 5 s], B [NOW] WHERE A.k = B.k"
    assert shape(parse_query(written, spec, name="q")) == shape(parse_query(plain, spec, name="q"))
    assert shape(parse_query(outside, spec, name="q")) == shape(parse_query(plain, spec, name="q"))


def test_what_explain_shows_of_a_subquery_names_the_stream_as_the_query_does(spec: JobSpec) -> None:
    text = "WITH hot AS (SELECT * FROM A WHERE v > 3) SELECT h.id FROM hot h JOIN B USING (k) WINDOW 1 min"
    query = parse_query(text, spec, name="q")
    assert query.where[0] is not None and query.where[0].text == "h.v > 3"
    assert [key.left.text for key in query.keys] == ["h.k"]
    assert query.text == f"CREATE QUERY q AS {text}"


WRONG = [
    ("SELECT S.«s» FROM (SELECT id AS x, k FROM A) S, B WHERE S.k = B.k", "S has no column s"),
    ("SELECT «s» FROM (SELECT id AS x, k FROM A) S, B WHERE S.k = B.k", "S or B has no column s"),
    ("SELECT «id» FROM (SELECT id, k FROM A) S, B WHERE S.k = B.k", "id is in both streams"),
    ("SELECT A.v AS v, COUNT(*) {ab} GROUP BY «v»", "v is in both streams"),
    ("SELECT «COUNT(*)» AS n {ab} GROUP BY n", "GROUP BY cannot have the aggregate COUNT"),
    ("SELECT * EXCEPT («ts») {ab}", "ts is in both streams"),
    ("SELECT A.* EXCEPT («z») {ab}", "* has no column z"),
    ("SELECT «A.* EXCEPT (ts, id, k, v, s)» {ab}", "EXCEPT leaves no column"),
    ("SELECT «C».* {ab}", "FROM has no C"),
    ("SELECT k FROM A JOIN B USING («z»)", "A has no column z"),
    ("SELECT S.k FROM «(SELECT k FROM A)», B", "a subquery in FROM has no name"),
    ("SELECT S.k FROM (SELECT k FROM «Ab») S, B", "there is no stream Ab"),
    ("SELECT S.k FROM (SELECT «q» FROM A) S, B", "A has no column q"),
    ("SELECT S.k FROM (SELECT «B».k FROM A) S, B", "FROM has no B"),
    ("SELECT S.k FROM (SELECT k, «v AS K» FROM A) S, B", "two columns are called K"),
    ("SELECT S.k FROM (SELECT k FROM A) S («a», b), B", "S names 2 columns, its SELECT has 1"),
    ('SELECT «"v"» {ab}', '"v" in double quotes is a text'),
    ('SELECT A.s {ab} AND A.v > 3 AND «"Z"» = A.s', '"Z" in double quotes is a text'),
    ('SELECT A.s AS x {ab} ORDER BY «"x"» LIMIT 3', '"x" in double quotes is a text'),
    ('SELECT A.«"s"» {ab}', '"s" in double quotes is a text'),
    ("WITH t AS (SELECT * FROM A [NOW]) SELECT t.k FROM t «[NOW]», B", "t has a window already"),
]
REFUSED = [
    ("SELECT S.x FROM (SELECT «k + 1 AS x» FROM A) S, B", "an expression in a subquery of FROM"),
    ("SELECT S.k FROM (SELECT k FROM A«, B») S, B", "a join in a subquery of FROM"),
    ("SELECT S.k FROM (SELECT «DISTINCT» k FROM A) S, B", "DISTINCT in a subquery of FROM"),
    ("SELECT S.k FROM (SELECT k FROM A «GROUP BY k») S, B", "GROUP BY in a subquery of FROM"),
    ("SELECT S.k FROM (SELECT k FROM A «ORDER BY k») S, B", "ORDER BY in a subquery of FROM"),
    ("SELECT S.k FROM (SELECT k FROM A «LIMIT 5») S, B", "LIMIT in a subquery of FROM"),
    ("SELECT S.k FROM (SELECT k FROM A «WINDOW 5 s») S, B", "WINDOW in a subquery of FROM"),
    ("WITH t AS («SELECT k FROM A UNION SELECT k FROM B») SELECT t.k FROM t, B", "UNION in a subquery of FROM"),
]


@pytest.mark.parametrize(("case", "message"), [*WRONG, *((c, f"{m} is not supported yet") for c, m in REFUSED)])
def test_what_stands_for_nothing_is_told_where(spec: JobSpec, case: str, message: str) -> None:
    text, place = marked(f"{case.format(ab=AB)} {END}")
    with pytest.raises(SqlError) as error:
        parse_query(text, spec, name="q")
    check(error.value, text, place, message)
