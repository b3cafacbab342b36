"""The table of functions, what each family gives, and what is refused with its name and a hint."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.model import JobSpec, SqlError
from muntin.sql import FORMS, FUNCTIONS, parse_job, parse_query

COLUMNS: dict[str, tuple[str, Any]] = {
    "ts": ("timestamp", dt.datetime(2024, 2, 29, 13, 45, 7, 900_000, tzinfo=dt.UTC)),
    "day": ("date", dt.date(2024, 1, 31)),
    "k": ("bigint", 7),
    "s": ("string", "Straße 7\n"),
    "bin": ("binary", b"ab"),
    "bad": ("binary", b"\xff"),
    "js": ("string", '{"a":{"b":[1,"x"]},"n":5}'),
    "ar": ("array<int>", [4, None]),
    "mp": ("map<string,int>", [("x", 1)]),
    "st": ("struct<a:int,b:struct<c:string>>", {"a": 1, "b": {"c": "z"}}),
}


@pytest.fixture(scope="module")
def spec() -> JobSpec:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    left = f"CREATE STREAM L ({columns}) TIMESTAMP BY ts WITH (format = 'parquet');"
    return parse_job(left + "CREATE STREAM R (since TIMESTAMP, id BIGINT) TIMESTAMP BY since WITH (format = 'x');")


def value(spec: JobSpec, sql: str) -> tuple[str, Any]:
    query = parse_query(f"SELECT {sql} AS x FROM L, R WHERE k = id WINDOW 1 s", spec, name="q")
    expr = query.select[0].expr
    table = pa.table({f"l.{n}": pa.array([v], arrow_type(t)) for n, (t, v) in COLUMNS.items()})
    (column,) = evaluate(table, [(expr.sql, expr.type)])
    return expr.type, column[0].as_py()


CASES: list[tuple[str, str, Any]] = [
    ("ts - TIMESTAMP '2024-02-29 13:45:00'", "interval day to second", dt.timedelta(seconds=7.9)),
    ("ts - day > INTERVAL '29 13:00:00' DAY TO SECOND", "boolean", True),
    ("(ts - day) / 2 + INTERVAL 1 DAY", "interval day to second", dt.timedelta(days=15, seconds=67953.95)),
    ("ts + (ts - ts)", "timestamp", COLUMNS["ts"][1]),
    ("CAST(INTERVAL '90' MINUTE AS STRING)", "string", "INTERVAL '0 01:30:00' DAY TO SECOND"),
    ("day + 1", "date", dt.date(2024, 2, 1)),
    ("TIMESTAMPDIFF(MONTH, day, ts)", "bigint", 0),
    ("EXTRACT(SECOND FROM ts)", "decimal(8,6)", pytest.approx(7.9)),
    ("DATE_FORMAT(ts, 'EEE d MMM yyyy, hh:mm a')", "string", "Thu 29 Feb 2024, 01:45 PM"),
    ("TO_TIMESTAMP('29.02.2024', 'dd.MM.yyyy')", "timestamp", dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    ("CAST(ts AS BIGINT)", "bigint", 1709214307),
    ("CAST(bin AS STRING)", "string", "ab"),
    ("CAST(bad AS STRING)", "string", None),
    ("UPPER(s)", "string", "STRASSE 7\n"),
    ("INITCAP('ß straße')", "string", "Ss Straße"),
    ("REPEAT('x', 100000000)", "string", None),
    ("s RLIKE '7$'", "boolean", True),
    (r"REGEXP_EXTRACT(s, '(\\w+)\\s(\\d)', 2)", "string", "7"),
    (r"REGEXP_REPLACE(s, '\\s+', '[$0]')", "string", "Straße[ ]7[\n]"),
    ("GET_JSON_OBJECT(js, '$.a.b[1]')", "string", "x"),
    ("FROM_JSON(js, 'n INT, a STRING').n", "int", 5),
    ("st.b.c", "string", "z"),
    ("ar[0] + SIZE(ar)", "int", 6),
    ("mp['x']", "int", 1),
    ("ARRAY_CONTAINS(ar, 5)", "boolean", None),
    ("NAMED_STRUCT('x', k, 'y', ar)", "struct<x:bigint,y:array<int>>", {"x": 7, "y": [4, None]}),
    ("ARRAY(k, 2)[1]", "bigint", 2),
]


@pytest.mark.parametrize(("sql", "kind", "expected"), CASES, ids=[c[0] for c in CASES])
def test_a_function_has_its_type_and_value(spec: JobSpec, sql: str, kind: str, expected: Any) -> None:
    found = value(spec, sql)
    assert found[0] == kind
    assert float(found[1]) == expected if kind.startswith("decimal") else found[1] == expected


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("LPAD(s)", "LPAD does not take 1 argument"),
        ("PI(1)", "PI does not take 1 argument"),
        ("SOUNDEX(s)", "SOUNDEX is not supported yet"),
        ("NO_SUCH(s)", "the function NO_SUCH is not supported yet"),
        ("LEFT(k, 1)", "LEFT needs string, this is bigint"),
        ("s RLIKE '(?=a)'", "(?=...) in a pattern is not supported yet"),
        (r"s RLIKE '(a)\\1'", r"\1 in a pattern is not supported yet"),
        ("s RLIKE 'a++'", "a possessive quantifier in a pattern is not supported yet"),
        ("s RLIKE '[a&&b]'", "a class within a class in a pattern is not supported yet"),
        ("s RLIKE '(a'", "the pattern is not a regular expression"),
        ("s RLIKE s", "RLIKE needs its pattern in quotes"),
        ("REGEXP_EXTRACT(s, 'a', 1)", "the pattern has 0 groups"),
        ("REGEXP_REPLACE(s, 'a*', 'b')", "the pattern of REGEXP_REPLACE can match nothing"),
        ("REGEXP_REPLACE(s, 'a', '$1')", "$1 is not a group of the pattern"),
        ("DATE_FORMAT(ts, 'yyyy ww')", "ww in the format of a time is not supported yet"),
        ("DATE_FORMAT(ts, 'yyyy ''')", "the format has a ' without an end"),
        ("TO_TIMESTAMP(s, 'yyyy yyyy')", "yyyy in the format of a time is not supported yet"),
        ("TO_TIMESTAMP(s, s)", "TO_TIMESTAMP needs its format in quotes"),
        ("TIMESTAMPDIFF(FORTNIGHT, ts, ts)", "TIMESTAMPDIFF does not know the unit FORTNIGHT"),
        ("EXTRACT(EPOCH FROM ts)", "EXTRACT does not know the field EPOCH"),
        ("GET_JSON_OBJECT(js, '$.a[*]')", "'$.a[*]' is not a path"),
        ("FROM_JSON(js, 'a')", "'a' is not a schema"),
        ("FROM_JSON(js, 'a ARRAY<INT>')", "a field of type array<int> in FROM_JSON is not supported yet"),
        ("st.x", "the struct has no field x"),
        ("k.x", "only a struct has fields, this is bigint"),
        ("s[0]", "only arrays and maps have elements, this is string"),
        ("mp[1]", "the keys of the map are string, this is int"),
        ("ar = ar", "cannot compare array<int> and array<int>"),
        ("CAST(ar AS STRING)", "CAST from array<int> to string is not supported yet"),
        ("ts * 2", "cannot multiply timestamp and int"),
        ("day + INTERVAL 1 MONTH", "is not always equally long"),
    ],
)
def test_what_cannot_be_done_is_told_where_and_why(spec: JobSpec, sql: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        value(spec, sql)
    assert message in str(error.value)
    assert error.value.hint


def test_the_table_can_be_listed() -> None:
    signatures = [f"{f.signature} -> {f.result}" for f in FUNCTIONS.values()]
    assert len(signatures) > 140
    assert "lpad(string, integer, string = ' ') -> string" in signatures
    assert "coalesce(any, any...) -> the common type" in signatures
    assert FORMS["position(string IN string)"] == "int"
    assert all(name == f.name == name.lower() for name, f in FUNCTIONS.items())
