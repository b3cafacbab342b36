"""Keys and payload of every type: equality as Spark SQL has it, values that come out as they went in."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from muntin import oracle
from muntin.kernels.evaluate import arrow_type
from muntin.model import Window
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

UTC = datetime.UTC
VALUES: dict[str, list[Any]] = {
    "DOUBLE": [math.nan, -0.0, 0.0, math.inf, -math.inf, 5e-324, 1.5, None],
    "FLOAT": [math.nan, -0.0, 0.0, 1.5, None],
    "BIGINT": [-(2**63), 2**63 - 1, 2**53 + 1, 2**53, 0, None],
    "DECIMAL(38,10)": [decimal.Decimal("-0.0000000001"), decimal.Decimal(10) ** 27, decimal.Decimal(0), None],
    "TIMESTAMP": [datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, tzinfo=UTC), None],
    "DATE": [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31), None],
    "BOOLEAN": [True, False, None],
    "STRING": ["", "a", "A", "a ", "ä", "a\0b", "x" * 1_000_000, "x" * 999_999 + "y", None],
    "BINARY": [b"", b"\0", b"\xff" * 1000, None],
}


def stream(name: str, kind: str) -> str:
    return (
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k {kind}, p {kind}) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{name}');\n"
    )


def rows_of(values: list[Any], offset: int) -> list[dict[str, Any]]:
    return [{"ts": n + offset, "id": n, "k": v, "p": v} for n, v in enumerate(values)]


def table_of(rows: list[dict[str, Any]], kind: str) -> pa.Table:
    value = arrow_type(kind.lower())
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", value), ("p", value)])
    return pa.Table.from_pylist(rows, schema)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("shards", [1, 3])
def test_keys_of_every_type_are_equal_where_the_oracle_says_so(kind, shards):
    sql = stream("A", kind) + stream("B", kind)
    sql += "CREATE QUERY q AS SELECT A.id AS a, B.id AS b, A.p AS p FROM A, B WHERE A.k = B.k WINDOW 1 s;"
    local = LocalJob(parse_job(sql), shards)
    left, right = rows_of(VALUES[kind], 0), rows_of(VALUES[kind][::-1], 3)
    got = [local.push({"A": table_of(left, kind), "B": table_of(right, kind)}), local.push({}, ended=True)]
    pairs = oracle.answer(Window(10**6, 10**6), left, right, (oracle.columns("k"), oracle.columns("k")))
    wanted = sorted((p.left["id"], p.right["id"]) for p in pairs)
    found = pa.concat_tables([answers["q"] for answers in got])
    assert wanted and sorted(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == wanted
    for a, p in zip(found["a"].to_pylist(), found["p"].to_pylist(), strict=True):
        assert repr(p) == repr(table_of(left, kind)["p"][a].as_py()), "payload comes out as it went in"


def test_numbers_of_different_types_compare_as_numbers():
    sql = stream("A", "INT") + stream("B", "DECIMAL(12,2)")
    sql += "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 1 s;"
    local = LocalJob(parse_job(sql))
    left = table_of(rows_of([1, 2, 3], 0), "INT")
    right = table_of(
        rows_of([decimal.Decimal("2.00"), decimal.Decimal("2.50"), decimal.Decimal("1")], 0), "DECIMAL(12,2)"
    )
    found = pa.concat_tables([local.push({"A": left, "B": right})["q"], local.push({}, ended=True)["q"]])
    assert sorted(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == [(0, 2), (1, 0)]


@pytest.mark.parametrize(
    ("condition", "count"), [("A.id = A.id", 9), ("A.id < 0", 0), ("A.id / B.id > -1", 6), ("1 / A.id = 1 / B.id", 2)]
)
def test_predicates_that_always_hold_never_hold_or_divide_by_zero(condition, count):
    sql = stream("A", "INT") + stream("B", "INT")
    sql += f"CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND {condition} WINDOW 1 s;"
    local = LocalJob(parse_job(sql))
    table = table_of(rows_of([7, 7, 7], 0), "INT")
    total = local.push({"A": table, "B": table})["q"].num_rows + local.push({}, ended=True)["q"].num_rows
    assert total == count
