"""The parts of a selection: what an index can answer, and that its answer is the evaluator's."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.model import Comparison, Expr, Op, Side
from muntin.plan.regions import Predicates, Regions
from muntin.sql import parse_job, parse_query

TYPES = {
    "t": "tinyint", "small": "smallint", "i": "int", "b": "bigint", "f": "float", "v": "double", "s": "string",
    "d": "decimal(10,2)", "ok": "boolean", "day": "date",
}  # fmt: skip
COLUMNS = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
SPEC = parse_job(
    f"CREATE STREAM L (ts TIMESTAMP, id BIGINT, {COLUMNS}) TIMESTAMP BY ts WITH (format = 'x');"
    "CREATE STREAM R (at TIMESTAMP, k BIGINT, w DOUBLE) TIMESTAMP BY at WITH (format = 'x');"
)
SCHEMA = SPEC.streams["L"].schema


def selection(condition: str) -> Expr:
    """What a condition on `L` becomes."""
    query = parse_query(f"SELECT ts FROM L, R WHERE id = k AND {condition} WINDOW 1 s", SPEC, name="q")
    found = query.where[Side.LEFT]
    assert found is not None and query.where[Side.RIGHT] is None and query.residual is None
    return found


INDEXED = [
    ("i < 5", Op.LT, (5,)),
    ("i <= 5", Op.LE, (5,)),
    ("i > -5", Op.GT, (-5,)),
    ("i >= 5", Op.GE, (5,)),
    ("i = 5", Op.IN, (5,)),
    ("i <> 5", Op.NOT_IN, (5,)),
    ("i != 5", Op.NOT_IN, (5,)),
    ("5 < i", Op.GT, (5,)),
    ("5 <= i", Op.GE, (5,)),
    ("(-5) > (L.I)", Op.LT, (-5,)),
    ("5 >= i", Op.LE, (5,)),
    ("5 = i", Op.IN, (5,)),
    ("5 <> i", Op.NOT_IN, (5,)),
    ("i IN (1, 2, 1, (-3))", Op.IN, (1, 2, -3)),
    ("i IN (1, NULL)", Op.IN, (1,)),
    ("i NOT IN (1, 2)", Op.NOT_IN, (1, 2)),
    ("NOT (i > 3)", Op.LE, (3,)),
    ("NOT i = 3", Op.NOT_IN, (3,)),
    ("NOT NOT (i < 3)", Op.LT, (3,)),
    ("NOT (i NOT IN (1, NULL))", Op.IN, (1,)),
    ("NOT (3 >= i)", Op.GT, (3,)),
    ("t = 127", Op.IN, (127,)),
    ("t > -128", Op.GT, (-128,)),
    ("small < 32767", Op.LT, (32767,)),
    ("b > 9223372036854775807", Op.GT, (2**63 - 1,)),
    ("b >= -9223372036854775808", Op.GE, (-(2**63),)),
    ("v > 30", Op.GT, (30.0,)),
    ("v > -30.5", Op.GT, (-30.5,)),
    ("v < .5", Op.LT, (0.5,)),
    ("v < 1.5e3", Op.LT, (1500.0,)),
    ("v = 9007199254740993", Op.IN, (9007199254740992.0,)),
    ("v IN (1, 2.5, 1e1)", Op.IN, (1.0, 2.5, 10.0)),
    ("f = 0.1", Op.IN, (0.1,)),
    ("s = 'it''s'", Op.IN, ("it's",)),
    ("s <> ''", Op.NOT_IN, ("",)),
    ("'a' = s", Op.IN, ("a",)),
    ("s IN ('a', NULL, 'b')", Op.IN, ("a", "b")),
    ("s NOT IN ('a')", Op.NOT_IN, ("a",)),
    (r"s = r'a\b'", Op.IN, ("a\\b",)),
]


@pytest.mark.parametrize(("condition", "op", "values"), INDEXED, ids=[c[0] for c in INDEXED])
def test_a_column_against_constants_is_a_comparison(condition: str, op: Op, values: tuple[Any, ...]) -> None:
    (found,) = selection(condition).conjuncts
    assert isinstance(found, Comparison) and found.column in TYPES
    assert (found.op, found.values) == (op, values)
    assert [type(v) for v in found.values] == [type(v) for v in values]


OPAQUE = [
    "i > 2.5", "i = 2.0", "i > 1e1", "b > 9223372036854775808", "t > 128", "t = -129", "small IN (1, 40000)",
    "i = 2147483648", "i IN (1, 2.5)", "i = NULL", "i < NULL", "i IN (NULL)", "i NOT IN (1, NULL)", "i <> NULL",
    "i NOT BETWEEN 1 AND 2", "NOT (i BETWEEN 1 AND 2)", "i BETWEEN 1 AND NULL", "i BETWEEN 1 AND t", "i <=> 5",
    "i < t", "i = i", "i + 1 > 3", "-i > 3", "i > 1 + 1", "i > - -1", "CAST(i AS BIGINT) > 3", "i > CAST(3 AS INT)",
    "ABS(i) > 3", "i IS NULL", "i > 3 OR t > 3", "(i > 3 OR t > 3)", "NOT (i > 3 AND t > 3)", "3 IN (i, 4)",
    "3 BETWEEN i AND 4", "i IN (t, 4)", "s < 'a'", "s >= 'a'", "s BETWEEN 'a' AND 'b'", "s LIKE 'a%'", "s = s",
    "s = CONCAT('a', 'b')", "d > 3", "d = 2.5", "ok", "NOT ok", "ok = TRUE", "day = '2024-01-01'",
    "ts > '2024-01-01'", "day IN (DATE '2024-01-01')", "v > 12345678901234567.5", "v > 0.00000000000000000000001",
    "v > 12345678901234567890", "v > CAST('NaN' AS DOUBLE)", "v = NULL", "TRUE", "1 = 2", "NOT FALSE", "NULL",
]  # fmt: skip


@pytest.mark.parametrize("condition", OPAQUE)
def test_anything_else_stays_an_expression(condition: str) -> None:
    whole = selection(f"({condition})" if " OR " in condition else condition)
    (found,) = whole.conjuncts
    assert isinstance(found, Expr) and found.conjuncts == ()
    assert (found.sql, found.text, found.left) == (whole.sql, whole.text, whole.left)


def test_between_is_two_comparisons() -> None:
    assert selection("v BETWEEN -1 AND 2.5").conjuncts == (
        Comparison("v", Op.GE, (-1.0,)),
        Comparison("v", Op.LE, (2.5,)),
    )


def test_a_zero_has_no_sign() -> None:
    for text in ("0", "-0", "0.0", "-0.0", "-0e0"):
        (found,) = selection(f"v = {text}").conjuncts
        assert isinstance(found, Comparison)
        assert math.copysign(1, found.values[0]) == 1  # type: ignore[arg-type]


def test_parts_come_in_the_order_of_the_text_and_the_whole_stays_as_it_was() -> None:
    whole = selection("i > 3 AND (ok OR s = 'a') AND (v BETWEEN 1 AND 2 AND t = 1) AND 1 = 1")
    assert whole.text == "i > 3 AND (ok OR s = 'a') AND v BETWEEN 1 AND 2 AND t = 1 AND 1 = 1"
    parts = ("i > 3", "(ok OR s = 'a')", "v BETWEEN 1 AND 2", "t = 1", "1 = 1")
    assert whole.sql == " AND ".join(f"({selection(part).sql})" for part in parts)
    columns = [c.column if isinstance(c, Comparison) else c.left for c in whole.conjuncts]
    assert columns == ["i", ("ok", "s"), "v", "v", "t", ()]


def test_each_side_has_its_own_parts_and_conditions_over_both_are_not_taken_apart() -> None:
    text = "SELECT ts FROM L, R WHERE id = k AND w > 3 AND i > 2 AND v > w AND v < w + 5 AND 2 > 1 WINDOW 1 s"
    query = parse_query(text, SPEC, name="q")
    left, right = query.where
    assert left is not None and right is not None and query.residual is not None
    assert left.conjuncts[0] == Comparison("i", Op.GT, (2,))
    assert [c.text for c in left.conjuncts if isinstance(c, Expr)] == ["2 > 1"]
    assert right.conjuncts == (Comparison("w", Op.GT, (3.0,)),)
    assert query.residual.conjuncts == ()


# against the evaluator

EXAMPLES = int(os.environ.get("MUNTIN_EXAMPLES", "60"))
DOUBLES = (
    "0", "-0.0", "-0e0", "1", "-1", "0.1", "2.5", "-2.5", "3.", ".5", "1e3", "-1e-3", "1e-400", "1e308", "16777217",
    "9007199254740993", "9223372036854775807", "0.30000000000000004", "0.10000000149011612", "123456789012345678.9",
)  # fmt: skip
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, -2.5, 3.0, 0.5, 1e3, 1e308, 2.0**24, 2.0**53, 2.0**63, math.inf, -math.inf]
BITS = {"t": 8, "small": 16, "i": 32, "b": 64}
STRINGS = st.sampled_from(["", "a", "A", "ab", " a", "a ", "é", "e\u0301", "it's", "a\\b", "%", "\n", "😀", "NULL"])


def integers(bits: int) -> st.SearchStrategy[int]:
    most = 2 ** (bits - 1) - 1
    return st.one_of(st.integers(-4, 4), st.sampled_from([most, most - 1, -most - 1, -most]))


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


DOUBLE_VALUES = st.one_of(st.sampled_from([*FLOATS, math.nan]), st.floats())
SINGLE_VALUES = st.one_of(st.sampled_from([0.0, -0.0, 1.0, 2.5, 2.0**24, math.nan, math.inf]), st.floats(width=32))
ROW = st.fixed_dictionaries(
    {name: nullable(integers(bits)) for name, bits in BITS.items()}
    | {"f": nullable(st.one_of(SINGLE_VALUES, st.just(float(np.float32(0.1)))))}
    | {"v": nullable(DOUBLE_VALUES), "s": nullable(STRINGS), "ok": nullable(st.booleans())}
)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def constants(column: str) -> st.SearchStrategy[str]:
    if column == "s":
        return st.one_of(STRINGS.map(quoted), STRINGS.map(quoted), st.just("NULL"))
    if column in BITS:
        own, wider = integers(BITS[column]), integers(64)
        return st.one_of(own.map(str), own.map(str), own.map("({})".format), wider.map(str), st.sampled_from(DOUBLES))
    return st.one_of(st.sampled_from(DOUBLES), integers(64).map(str), DOUBLE_VALUES.filter(math.isfinite).map(repr))


@st.composite
def terms(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from([*BITS, "f", "v", "s"]))
    constant = constants(column)
    form = draw(st.sampled_from(["compare", "compare", "mirrored", "in", "not in", "between"]))
    op = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "<>", "!="]))
    if form == "compare":
        return f"{column} {op} {draw(constant)}"
    if form == "mirrored":
        return f"{draw(constant)} {op} L.{column}"
    if form == "between":
        return f"{column} BETWEEN {draw(constant)} AND {draw(constant)}"
    items = draw(st.lists(st.one_of(constant, constant, constant, st.just("NULL")), min_size=1, max_size=4))
    return f"{column} {form.upper()} ({', '.join(items)})"


@st.composite
def conditions(draw: st.DrawFn) -> str:
    first = draw(terms())
    form = draw(st.sampled_from(["plain"] * 5 + ["not", "not", "not not", "or", "null", "flag", "function"]))
    return {
        "plain": first,
        "not": f"NOT ({first})",
        "not not": f"NOT (NOT ({first}))",
        "or": f"({first} OR {draw(terms())})",
        "null": f"({first}) IS NULL",
        "flag": draw(st.sampled_from(["ok", "NOT ok", "TRUE", "1 = 2"])),
        "function": draw(st.sampled_from(["ABS(v) > 2", "CAST(t AS BIGINT) + i > 2", "LENGTH(s) = 1", "b / i > 1"])),
    }[form]


def place(regions: Regions, value: Any) -> int:
    """The region that a value lies in."""
    points = regions.points
    if value is None:
        return regions.size - 1
    if not regions.ordered:
        return points.index(value) if value in points else len(points)
    if value != value:
        return 2 * len(points)
    return 2 * sum(p < value for p in points) + (value in points)


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    names = [name for name in TYPES if name in rows[0]]
    return pa.table({f"l.{n}": pa.array([row[n] for row in rows], arrow_type(TYPES[n])) for n in names})


def evaluated(table: pa.Table, expr: Expr) -> list[bool]:
    (found,) = evaluate(table, [(expr.sql, expr.type)])
    return [value is True for value in found.to_pylist()]


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(ROW, min_size=1, max_size=12),
    st.lists(st.lists(conditions(), min_size=1, max_size=4).map(" AND ".join), min_size=1, max_size=4),
)
@pytest.mark.slow
def test_the_regions_of_a_row_say_what_the_evaluator_says(rows: list[dict[str, Any]], texts: list[str]) -> None:
    wholes = [selection(text) for text in texts]
    table = table_of(rows)
    predicates = Predicates(wholes, SCHEMA)
    codes = [
        np.array([place(regions, value) for value in table[f"l.{regions.column}"].to_pylist()])
        for regions in predicates.columns
    ]
    codes += [np.array(evaluated(table, expr), np.int64) for expr in predicates.opaque]
    holds = predicates.holds(codes)
    for n, whole in enumerate(wholes):
        assert holds[:, n].tolist() == evaluated(table, whole), texts[n]
    for code, possible in zip(codes, predicates.possible, strict=True):
        assert set(code.tolist()) <= set(possible.tolist())
