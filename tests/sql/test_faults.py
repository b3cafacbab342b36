"""A fault is NULL in its row and place; the index of selections and the evaluator agree on it."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from muntin.kernels.evaluate import arrow_type, evaluate
from muntin.model import Side
from muntin.plan.regions import Predicates
from muntin.sql import parse_job, parse_query

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "v": ("bigint", [2**63 - 1, 5, -(2**63)]),
    "ti": ("tinyint", [-128, -101, 5]),
    "p": ("decimal(12,4)", [Decimal("99999999.9999"), Decimal("2.5000"), None]),
    "w": ("decimal(38,18)", [Decimal("99999999999999999999.000000000000000000"), Decimal("1.5"), None]),
    "big": ("double", [1e300, -1e300, 1.5]),
    "s": ("string", [None, "Straße", "ab"]),
    "day": ("string", ["2024-01-31 12:30:45.5", "2024-07", "x"]),
}
SPEC = parse_job(
    "CREATE STREAM A (ts TIMESTAMP, k BIGINT, "
    + ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    + ") TIMESTAMP BY ts WITH (format = 'x');"
    "CREATE STREAM B (at TIMESTAMP, id BIGINT) TIMESTAMP BY at WITH (format = 'x');"
)
ROWS = pa.table({f"l.{name}": pa.array(values, arrow_type(kind)) for name, (kind, values) in COLUMNS.items()})

CASES: list[tuple[str, str, list[Any]]] = [
    ("p * p", "decimal(25,8)", [Decimal("9999999999980000.00000001"), Decimal("6.25000000"), None]),
    ("p * p > 1", "boolean", [True, True, None]),
    ("A.v + 1 > 5", "boolean", [None, True, False]),
    ("8 >= 2 * A.v", "boolean", [None, False, None]),
    ("-A.ti > 100", "boolean", [None, True, False]),
    ("COALESCE(v + 1, 0)", "bigint", [0, 6, 1 - 2**63]),
    ("v % -1", "bigint", [0, 0, 0]),
    (
        "w + w",
        "decimal(38,17)",
        [Decimal("199999999999999999998.00000000000000000"), Decimal("3.00000000000000000"), None],
    ),
    ("SUBSTRING(s, 2, -1)", "string", [None, "", ""]),
    ("SUBSTRING(s, v, 0)", "string", [None, "", ""]),
    ("UPPER(s)", "string", [None, "STRASSE", "AB"]),
    ("CAST(day AS DATE)", "date", [dt.date(2024, 1, 31), dt.date(2024, 7, 1), None]),
    ("CAST(big AS FLOAT)", "float", [math.inf, -math.inf, 1.5]),
    ("ROUND(p, 9)", "decimal(13,4)", [Decimal("99999999.9999"), Decimal("2.5000"), None]),
    ("FLOOR(p)", "decimal(9,0)", [Decimal(99999999), Decimal(2), None]),
]


@pytest.mark.parametrize(("text", "kind", "expected"), CASES, ids=[c[0] for c in CASES])
def test_an_expression_at_the_border_of_its_type(text: str, kind: str, expected: list[Any]) -> None:
    query = parse_query(f"SELECT {text} AS x FROM A, B WHERE k = id WINDOW 1 s", SPEC, name="q")
    expr = query.select[0].expr
    assert expr.type == kind
    assert evaluate(ROWS, [(expr.sql, kind)])[0].to_pylist() == expected


@pytest.mark.parametrize("text", [c[0] for c in CASES if c[1] == "boolean"])
def test_a_selection_that_can_overflow_is_left_to_the_evaluator_and_can_be_true(text: str) -> None:
    query = parse_query(f"SELECT ts FROM A, B WHERE k = id AND {text} WINDOW 1 s", SPEC, name="q")
    where = query.where[Side.LEFT]
    assert where is not None
    index = Predicates([where], SPEC.streams["A"].schema)
    assert not index.columns and [e.sql for e in index.opaque] == [where.conjuncts[0].sql]  # type: ignore[union-attr]
    assert not list(index.never())


def test_a_sum_takes_products_of_more_than_18_digits() -> None:
    text = "SELECT k, SUM(p * p) AS x FROM A, B WHERE k = id GROUP BY k WINDOW 1 s"
    (call,) = parse_query(text, SPEC, name="q").aggregation.calls  # type: ignore[union-attr]
    assert call.arg is not None and call.type == "decimal(35,8)"
    assert evaluate(ROWS, [(call.arg.sql, call.arg.type)])[0][0].as_py() == Decimal("9999999999980000.00000001")
