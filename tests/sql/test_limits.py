"""Texts that are too long or too deep get a message, soon."""

from __future__ import annotations

import pytest

from muntin.model import JobSpec, SqlError
from muntin.sql import parse_job, parse_query

from .conftest import STREAMS
from .test_errors import AB, END

COMMON = ", ".join(f"c{n} AS (SELECT * FROM {f'c{n - 1}' if n else 'Temperature'} WHERE t > {n})" for n in range(60))
LARGE = {
    "parentheses": f"SELECT A.t {AB} AND {'(' * 10_000}A.t > 1{')' * 10_000} {END}",
    "open parentheses": f"SELECT A.t {AB} AND {'(' * 10_000}",
    "ORs": f"SELECT A.t {AB} AND ({' OR '.join(['A.t > 1'] * 5_000)}) {END}",
    "HAVING": f"SELECT COUNT(*) {AB} GROUP BY A.t HAVING {' AND '.join(['COUNT(*) > 1'] * 5_000)} {END}",
    "aliases": f"SELECT A.t AS x0, {', '.join(f'x{n} + x{n} AS x{n + 1}' for n in range(40))} {AB} {END}",
    "subqueries": f"SELECT S.t FROM {'(SELECT * FROM ' * 500}Temperature{') S' * 500}, Humidity B {END}",
    "common table expressions": f"WITH {COMMON} SELECT B.d FROM c1, Humidity B WHERE c1.t = B.d {END}",
    "brackets": f"SELECT A.t{'[1]' * 10_000} AS x {AB} {END}",
    "types": f"SELECT CAST(A.t AS {'ARRAY<' * 10_000}INT{'>' * 10_000}) AS x {AB} {END}",
    "SELECTs in parentheses": f"{'(' * 10_000}SELECT 1{')' * 10_000}",
    "a statement of 300 KB": f"SELECT A.t {AB} AND A.tag = '{'é' * 150_000}' {END}",
    "a text of 1.1 MB": f"SELECT A.t {AB} AND A.tag = '{'x' * 1_100_000}' {END}",
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_text_that_is_too_large_gets_a_short_message(spec: JobSpec, text: str) -> None:
    with pytest.raises(SqlError, match=r"nested|too large|longer than|more than 50 subqueries") as error:
        parse_query(text, spec, name="q")
    assert error.value.hint and error.value.place
    assert len(error.value.render()) < 1_000


def test_many_conditions_are_no_fault(spec: JobSpec) -> None:
    conditions = " AND ".join(f"A.Value <> {n}" for n in range(1_000))
    query = parse_query(f"SELECT A.t {AB} AND {conditions} {END}", spec, name="q")
    assert query.where[0] is not None and len(query.where[0].conjuncts) == 1_000


def test_a_job_may_be_longer_than_one_statement() -> None:
    comment = f"/* {'x' * 150_000} */"
    queries = "\n".join(f"CREATE QUERY q{n} AS SELECT {comment} A.t {AB} {END};" for n in range(3))
    assert len(parse_job(STREAMS + queries).queries) == 3


def test_a_long_line_is_shown_around_the_fault() -> None:
    with pytest.raises(SqlError) as error:
        parse_job(f"{STREAMS}CREATE QUERY q AS SELECT A.ts{' ' * 5_000}, A.nope AS x{' ' * 5_000} {AB} {END}")
    shown = error.value.render().splitlines()
    assert "A.nope AS x" in shown[1]
    assert shown[1][shown[2].index("^") :].startswith("nope")
