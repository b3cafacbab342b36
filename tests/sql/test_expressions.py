"""Expressions mean what Spark SQL means: executed by the evaluator, compared with Spark's values.

The expected values are Spark's (ANSI coercion, failures as NULL), from its documentation and source.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from muntin.kernels.evaluate import arrow_type, evaluate, type_of
from muntin.model import Expr, JobSpec
from muntin.sql import parse_job, parse_query

COLUMNS: dict[str, tuple[str, Any]] = {
    "ts": ("timestamp", dt.datetime(2024, 2, 29, 13, 45, 7, 900_000, tzinfo=dt.UTC)),
    "k": ("bigint", 7),
    "i": ("int", -7),
    "z": ("int", 0),
    "tiny": ("tinyint", 100),
    "v": ("double", 2.675),
    "neg": ("double", -2.5),
    "nan": ("double", math.nan),
    "f": ("float", 0.1),
    "d": ("decimal(10,2)", Decimal("12.35")),
    "s": ("string", "Hello"),
    "pct": ("string", "50%_off"),
    "back": ("string", "a\\b"),
    "num": ("string", " 42 "),
    "bad": ("string", "4x"),
    "none": ("string", None),
    "nothing": ("double", None),
    "day": ("date", dt.date(2024, 2, 29)),
    "ntz": ("timestamp_ntz", dt.datetime(2024, 2, 29, 13, 45, 7)),
    "ok": ("boolean", True),
    "bin": ("binary", b"ab\xff"),
}


@pytest.fixture(scope="module")
def spec() -> JobSpec:
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    left = f"CREATE STREAM L ({columns}) TIMESTAMP BY ts WITH (format = 'parquet');"
    return parse_job(left + "CREATE STREAM R (t TIMESTAMP, id BIGINT) TIMESTAMP BY t WITH (format = 'parquet');")


def compile_(sql: str, spec: JobSpec) -> Expr:
    query = parse_query(f"SELECT {sql} AS x FROM L, R WHERE k = id WINDOW 1 s", spec, name="q")
    return query.select[0].expr


def run(expr: Expr) -> Any:
    table = pa.table({f"l.{n}": pa.array([v], arrow_type(t)) for n, (t, v) in COLUMNS.items()})
    (column,) = evaluate(table, [(expr.sql, expr.type)])
    return column[0].as_py()


UTC = dt.UTC
CASES: list[tuple[str, str, Any]] = [
    # literals
    ("1", "int", 1),
    ("-2147483648", "int", -2147483648),
    ("2147483648", "bigint", 2147483648),
    ("-9223372036854775808", "bigint", -9223372036854775808),
    ("9223372036854775808", "decimal(19,0)", Decimal(9223372036854775808)),
    ("1.50", "decimal(3,2)", Decimal("1.50")),
    ("0.05", "decimal(2,2)", Decimal("0.05")),
    ("1e3", "double", 1000.0),
    ("5L", "bigint", 5),
    ("1.5D", "double", 1.5),
    ("'it''s'", "string", "it's"),
    (r"'a\nb'", "string", "a\nb"),
    (r"'a\\b'", "string", "a\\b"),
    (r"r'a\nb'", "string", "a\\nb"),
    ('"double quoted"', "string", "double quoted"),
    ("'ünï'", "string", "ünï"),
    ("TRUE", "boolean", True),
    ("DATE '2024-02-29'", "date", dt.date(2024, 2, 29)),
    ("TIMESTAMP '2024-02-29 01:02:03.5'", "timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, 500_000, tzinfo=UTC)),
    ("TIMESTAMP '2024-02-29T01:02:03+01:00'", "timestamp", dt.datetime(2024, 2, 29, 0, 2, 3, tzinfo=UTC)),
    # comparisons
    ("v > 2", "boolean", True),
    ("i <> -7", "boolean", False),
    ("i != -7 OR k == 7", "boolean", True),
    ("f > 0.1", "boolean", True),
    ("nan = nan", "boolean", True),
    ("nan > 1e308", "boolean", True),
    ("nothing = 1", "boolean", None),
    ("nothing <=> NULL", "boolean", True),
    ("none <=> 'a'", "boolean", False),
    ("none IS NULL", "boolean", True),
    ("s IS NOT NULL", "boolean", True),
    ("ok IS TRUE", "boolean", True),
    ("ok IS NOT FALSE", "boolean", True),
    ("s IS DISTINCT FROM none", "boolean", True),
    ("i BETWEEN -7 AND 0", "boolean", True),
    ("i NOT BETWEEN -7 AND 0", "boolean", False),
    ("k IN (1, 7.0, 9)", "boolean", True),
    ("k IN (1, NULL)", "boolean", None),
    ("s NOT IN ('a', 'b')", "boolean", True),
    ("s = 'hello'", "boolean", False),
    ("NOT ok", "boolean", False),
    ("NOT ok OR ok AND i < 0", "boolean", True),
    ("day = '2024-02-29'", "boolean", True),
    ("ts >= '2024-02-29 13:45:07.9'", "boolean", True),
    ("ts > day", "boolean", True),
    ("ts BETWEEN '2024-02-01' AND '2024-03-01'", "boolean", True),
    ("ntz < ts", "boolean", True),
    # LIKE
    ("s LIKE 'H%o'", "boolean", True),
    ("s LIKE 'h%o'", "boolean", False),
    ("s ILIKE 'h_LLo'", "boolean", True),
    (r"pct LIKE '50\%\_off'", "boolean", True),
    (r"pct LIKE '5_\%%'", "boolean", True),
    (r"s LIKE 'H\%'", "boolean", False),
    (r"back LIKE 'a\\\\b'", "boolean", True),
    ("pct LIKE '50!%!_off' ESCAPE '!'", "boolean", True),
    ("s NOT LIKE 'x%'", "boolean", True),
    ("none LIKE 'x'", "boolean", None),
    # arithmetic
    ("1 + 2 * 3", "int", 7),
    ("(1 + 2) * 3", "int", 9),
    ("10 - (3 - 2)", "int", 9),
    ("tiny + 100", "int", 200),
    ("tiny + tiny", "tinyint", None),
    ("i + k", "bigint", 0),
    ("i / 2", "double", -3.5),
    ("7 / 2", "double", 3.5),
    ("12 / 2 / 3", "double", 2.0),
    ("12 / (6 / 3)", "double", 6.0),
    ("i / z", "double", None),
    ("COALESCE(i / z, 5)", "double", 5.0),
    ("COALESCE(i % z, 5)", "int", 5),
    ("i % 2", "int", -1),
    ("MOD(7, -2)", "int", 1),
    ("neg % 2", "double", -0.5),
    ("i div 2", "bigint", -3),
    ("k div z", "bigint", None),
    ("-i", "int", 7),
    ("- -5", "int", 5),
    ("-(i + 1)", "int", 6),
    ("+5", "int", 5),
    ("d + 1", "decimal(11,2)", Decimal("13.35")),
    ("d * 2", "decimal(12,2)", Decimal("24.70")),
    ("d - 0.005", "decimal(12,3)", Decimal("12.345")),
    ("d / 3", "decimal(14,6)", Decimal("4.116667")),
    ("d % 5", "decimal(3,2)", Decimal("2.35")),
    ("d * v", "double", 12.35 * 2.675),
    ("f + 1", "double", 1.1000000014901161),
    ("NULL + 1", "int", None),
    ("ts + INTERVAL 5 SECONDS", "timestamp", dt.datetime(2024, 2, 29, 13, 45, 12, 900_000, tzinfo=UTC)),
    ("INTERVAL '1' DAY + ts", "timestamp", dt.datetime(2024, 3, 1, 13, 45, 7, 900_000, tzinfo=UTC)),
    ("ntz - INTERVAL 1 HOUR", "timestamp_ntz", dt.datetime(2024, 2, 29, 12, 45, 7)),
    # conditionals
    ("CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' END", "string", "neg"),
    ("CASE WHEN i > 0 THEN 1 END", "int", None),
    ("CASE i WHEN -7 THEN 1 ELSE 2.5 END", "decimal(11,1)", Decimal("1.0")),
    ("CASE s WHEN 'x' THEN 1 WHEN 'Hello' THEN NULL ELSE 3 END", "int", None),
    ("IF(ok, 1, 2)", "int", 1),
    ("COALESCE(none, s)", "string", "Hello"),
    ("NVL(nothing, 1)", "double", 1.0),
    ("NULLIF(i, -7)", "int", None),
    ("NULLIF(i, 7)", "int", -7),
    # casts
    ("CAST(2.7 AS INT)", "int", 2),
    ("CAST(neg AS INT)", "int", -2),
    ("CAST(v AS BIGINT)", "bigint", 2),
    ("CAST(d AS INT)", "int", 12),
    ("CAST(nan AS INT)", "int", None),
    ("CAST(1e10 AS INT)", "int", None),
    ("CAST(300 AS TINYINT)", "tinyint", None),
    ("CAST(num AS INT)", "int", 42),
    ("CAST(bad AS INT)", "int", None),
    ("CAST('4.5' AS INT)", "int", None),
    ("CAST(' 4.5 ' AS DOUBLE)", "double", 4.5),
    ("CAST('1e3' AS DOUBLE)", "double", 1000.0),
    ("CAST('4.567' AS DECIMAL(5,2))", "decimal(5,2)", Decimal("4.57")),
    ("CAST(v AS DECIMAL(5,2))", "decimal(5,2)", Decimal("2.68")),
    ("CAST(12345.6 AS DECIMAL(5,2))", "decimal(5,2)", None),
    ("CAST(i AS STRING)", "string", "-7"),
    ("CAST(d AS STRING)", "string", "12.35"),
    ("CAST(ok AS STRING)", "string", "true"),
    ("CAST(ok AS INT)", "int", 1),
    ("CAST('YES' AS BOOLEAN)", "boolean", True),
    ("CAST('maybe' AS BOOLEAN)", "boolean", None),
    ("CAST(ts AS STRING)", "string", "2024-02-29 13:45:07.9"),
    ("CAST(day AS STRING)", "string", "2024-02-29"),
    ("CAST(ts AS DATE)", "date", dt.date(2024, 2, 29)),
    ("CAST(day AS TIMESTAMP)", "timestamp", dt.datetime(2024, 2, 29, tzinfo=UTC)),
    ("CAST(s AS DATE)", "date", None),
    ("i::DOUBLE", "double", -7.0),
    ("TRY_CAST(bad AS INT) IS NULL", "boolean", True),
    # numbers
    ("ABS(i)", "int", 7),
    ("ROUND(v, 2)", "double", 2.68),
    ("ROUND(neg)", "double", -3.0),
    ("ROUND(2.5)", "decimal(2,0)", Decimal(3)),
    ("ROUND(d, 1)", "decimal(10,1)", Decimal("12.4")),
    ("ROUND(nan, 1)", "double", math.nan),
    ("ROUND(1e300, 2)", "double", 1e300),
    ("ROUND(25, -1)", "int", 30),
    ("FLOOR(neg)", "bigint", -3),
    ("CEIL(neg)", "bigint", -2),
    ("CEILING(d)", "decimal(9,0)", Decimal(13)),
    ("FLOOR(i)", "bigint", -7),
    ("SQRT(16)", "double", 4.0),
    ("SQRT(neg)", "double", math.nan),
    ("POWER(2, 10)", "double", 1024.0),
    ("POW(z, -1)", "double", math.inf),
    ("EXP(0)", "double", 1.0),
    ("EXP(1000)", "double", math.inf),
    ("LN(1)", "double", 0.0),
    ("COALESCE(LN(z), 9)", "double", 9.0),
    ("LOG10(1000)", "double", 3.0),
    ("LOG10(neg)", "double", None),
    ("SIGN(neg)", "double", -1.0),
    ("SIGN(nan)", "double", math.nan),
    ("GREATEST(1, NULL, i)", "int", 1),
    ("LEAST(nothing, 3.5D, k)", "double", 3.5),
    ("GREATEST(nan, v)", "double", math.nan),
    # strings
    ("UPPER(s)", "string", "HELLO"),
    ("lower(s)", "string", "hello"),
    ("LENGTH('a🦆é')", "int", 3),
    ("LENGTH('a  ')", "int", 3),
    ("LENGTH(bin)", "int", 3),
    ("TRIM('  x\t ')", "string", "x\t"),
    ("LTRIM('  x ')", "string", "x "),
    ("RTRIM('  x ')", "string", "  x"),
    ("TRIM(BOTH 'x' FROM 'xxaxx')", "string", "a"),
    ("SUBSTRING(s, 2, 3)", "string", "ell"),
    ("SUBSTRING(s, 0, 2)", "string", "He"),
    ("SUBSTR(s, -3)", "string", "llo"),
    ("SUBSTRING(s, -3, 2)", "string", "ll"),
    ("SUBSTRING(s, -7, 4)", "string", "He"),
    ("SUBSTRING(s, -9, 2)", "string", ""),
    ("SUBSTRING(s, 2, -1)", "string", ""),
    ("SUBSTRING(s, 9)", "string", ""),
    ("SUBSTRING(s, z + 2, z + 1)", "string", "e"),
    ("SUBSTRING(s FROM 2 FOR 2)", "string", "el"),
    ("SUBSTRING(s, 1, CAST(NULL AS INT))", "string", None),
    ("CONCAT(s, '-', i)", "string", "Hello--7"),
    ("CONCAT(s, none)", "string", None),
    ("s || '!' || ok", "string", "Hello!true"),
    ("REPLACE(s, 'l', 'L')", "string", "HeLLo"),
    ("REPLACE(s, 'l')", "string", "Heo"),
    ("REPLACE(s, '', 'x')", "string", "Hello"),
    ("STARTSWITH(s, 'He')", "boolean", True),
    ("ENDSWITH(s, 'lo')", "boolean", True),
    ("CONTAINS(s, 'xx')", "boolean", False),
    # times
    ("YEAR(ts)", "int", 2024),
    ("MONTH(day)", "int", 2),
    ("DAY(ts)", "int", 29),
    ("HOUR(ts)", "int", 13),
    ("MINUTE(ntz)", "int", 45),
    ("SECOND(ts)", "int", 7),
    ("HOUR(day)", "int", 0),
    ("DATE_TRUNC('HOUR', ts)", "timestamp", dt.datetime(2024, 2, 29, 13, tzinfo=UTC)),
    ("date_trunc('week', ts)", "timestamp", dt.datetime(2024, 2, 26, tzinfo=UTC)),
    ("DATE_TRUNC('MM', day)", "timestamp", dt.datetime(2024, 2, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize(("sql", "kind", "expected"), CASES, ids=[c[0] for c in CASES])
def test_an_expression_has_sparks_type_and_value(spec: JobSpec, sql: str, kind: str, expected: Any) -> None:
    expr = compile_(sql, spec)
    assert expr.type == kind
    found = run(expr)
    if isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(found)
    else:
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize("sql", [c[0] for c in CASES])
def test_the_evaluator_can_type_what_the_rules_made(spec: JobSpec, sql: str) -> None:
    expr = compile_(sql, spec)
    assert type_of(expr.sql, [(f"l.{n}", t) for n, (t, _) in COLUMNS.items()])


def test_an_expression_knows_its_columns_and_its_text(spec: JobSpec) -> None:
    expr = compile_("I +  k /* c */ * i", spec)
    assert expr.left == ("i", "k")
    assert expr.right == ()
    assert expr.text == "I + k * i"
    assert compile_("`tiny`", spec).column == (0, "tiny")


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("L.i + 1 * (z - 2)", "(i + (1 * (z - 2)))"),
        ("UPPER(L.s)", "upper(s)"),
        ("CASE WHEN L.i > 1 THEN 2 END", "CASE WHEN (i > 1) THEN 2 END"),
        ("CAST(i AS DOUBLE)", "CAST(i AS DOUBLE)"),
        ("l.TINY", "tiny"),
    ],
)
def test_a_column_without_alias_is_named_as_spark_does(spec: JobSpec, sql: str, name: str) -> None:
    query = parse_query(f"SELECT {sql} FROM L, R WHERE k = id WINDOW 1 s", spec, name="q")
    assert query.select[0].name == name
