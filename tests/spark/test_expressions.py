"""Expressions mean what Spark SQL means: the same rows and texts, values and types side by side in one session."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from muntin.kernels.evaluate import evaluate
from muntin.model import Expr
from muntin.sql import parse_job, parse_query

from . import expressions as made
from . import more_expressions as more
from .expressions import Term

RANDOM = int(os.environ.get("MUNTIN_EXPRESSIONS", "400"))
"""How many random expressions are compared."""
AT_ONCE = 250
"""Expressions of one SELECT: neither engine likes thousands."""

SPEC = parse_job(
    "CREATE STREAM L (at TIMESTAMP, k BIGINT, "
    + ", ".join(f"{name} {kind}" for name, (kind, _) in made.COLUMNS.items())
    + ") TIMESTAMP BY at WITH (format = 'x');"
    "CREATE STREAM R (since TIMESTAMP, id BIGINT) TIMESTAMP BY since WITH (format = 'x');"
)


def compiled(texts: Sequence[str]) -> list[Expr]:
    items = ", ".join(f"{text} AS x{n}" for n, text in enumerate(texts))
    query = parse_query(f"SELECT {items} FROM L, R WHERE k = id WINDOW 1 s", SPEC, name="q")
    return [output.expr for output in query.select]


def ours(rows: pa.Table, texts: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """Type and values of each expression, by our front end and evaluator."""
    exprs = compiled(texts)
    named = rows.rename_columns([f"l.{name}" for name in rows.column_names])
    values = evaluate(named, [(e.sql, e.type) for e in exprs])
    return [(e.type, plain(column)) for e, column in zip(exprs, values, strict=True)]


def sparks(spark: Any, rows: pa.Table, texts: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """Type and values of each expression, by Spark."""
    spark.conf.set("spark.sql.legacy.timeParserPolicy", "CORRECTED")  # the other policies stop where Spark 2 differed
    schema = ", ".join(f"{name} {kind}" for name, (kind, _) in made.COLUMNS.items())
    spark.createDataFrame(rows, schema).createOrReplaceTempView("edge_values")
    frame = spark.sql(f"SELECT {', '.join(f'{text} AS x{n}' for n, text in enumerate(texts))} FROM edge_values")
    types = [field.dataType.simpleString() for field in frame.schema]
    return [(kind, plain(column)) for kind, column in zip(types, frame.toArrow().columns, strict=True)]


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Values that Python can hold: times as numbers, since their years may be none of Python's."""
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return list(column.to_pylist(maps_as_pydicts="strict"))


def agree(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(agree(a[k], b[k], tolerance) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.copysign(1, a) == math.copysign(1, b) and (a == b or math.isclose(a, b, rel_tol=tolerance))
    return bool(a == b)


def differences(spark: Any, terms: Iterable[Term], tolerance: float = 0.0) -> list[str]:
    """Where the two do not agree, one line for each expression with its first row."""
    listed = list(dict.fromkeys(terms))
    rows = made.rows()
    found = []
    for start in range(0, len(listed), AT_ONCE):
        part = listed[start : start + AT_ONCE]
        mine, wanted = ours(rows, [t.text for t in part]), sparks(spark, rows, [t.spark for t in part])
        found += [
            line for t, a, b in zip(part, mine, wanted, strict=True) if (line := difference(rows, t, a, b, tolerance))
        ]
    return found


def difference(
    rows: pa.Table, term: Term, mine: tuple[str, list[Any]], wanted: tuple[str, list[Any]], tolerance: float
) -> str | None:
    if mine[0] != wanted[0]:
        return f"{term.text}: the type is {mine[0]}, Spark's is {wanted[0]}"
    for n, (a, b) in enumerate(zip(mine[1], wanted[1], strict=True)):
        if not agree(a, b, tolerance):
            used = {c: rows[c][n].as_py() for c in rows.column_names if f" {c} " in _words(term.text)}
            return f"{term.text}: {a!r}, Spark says {b!r} for {used}"
    return None


def _words(text: str) -> str:
    return " " + "".join(c if c.isalnum() or c == "_" else " " for c in text) + " "


@pytest.mark.spark
@pytest.mark.parametrize(
    "group", [made.casts, made.functions, made.operators, more.texts, more.times, more.others], ids=lambda g: g.__name__
)
def test_each_operation_on_each_type_has_sparks_type_and_values(spark: Any, group: Any) -> None:
    terms = list(group())
    assert len(terms) > 200
    assert differences(spark, terms) == []


@pytest.mark.spark
def test_functions_of_the_mathematical_library_agree_but_for_the_last_digit(spark: Any) -> None:
    assert differences(spark, made.approximate(), tolerance=1e-14) == []


@pytest.mark.spark
def test_random_expressions_have_sparks_types_and_values(spark: Any) -> None:
    generator = made.Generator(seed=RANDOM)
    terms = [generator.any(1 + n % 3) for n in range(RANDOM)]
    assert differences(spark, terms) == []


@pytest.mark.spark
def test_the_comparison_itself_finds_a_difference(spark: Any) -> None:
    wrong = [Term("integer", "b + 1", "try_add(b, 2)"), Term("float", "t + 1", "try_add(t, 1L)"), made.column("s")]
    first, second = differences(spark, wrong)
    assert first.startswith("b + 1: ") and "Spark says" in first
    assert second == "t + 1: the type is int, Spark's is bigint"
