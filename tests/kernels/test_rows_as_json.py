"""Rows of dead letters as JSON: every value under its own name, whatever the column is called and whatever it holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from muntin.kernels.evaluate import rows_as_json


def only_json(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def read(table: pa.Table) -> list[dict[str, Any]]:
    return [json.loads(text, parse_constant=only_json) for text in rows_as_json(table).to_pylist()]


@pytest.mark.parametrize("name", ["t", "T", "_rows", "c0", "c1", "j", "select", "it's", "a b", "row", "x, y", "Größe"])
def test_a_row_is_whole_whatever_its_columns_are_called(name):
    table = pa.table({name: [7, None], "k": ["x", "y"], "other": [1, 2]})
    assert read(table) == [{name: 7, "k": "x", "other": 1}, {name: None, "k": "y", "other": 2}]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_what_json_has_no_number_for_is_text(kind):
    values = [float("nan"), float("inf"), float("-inf"), 1.5, -0.0, None]
    got = [row["v"] for row in read(pa.table({"v": pa.array(values, kind)}))]
    assert got == ["NaN", "Infinity", "-Infinity", 1.5, 0.0, None]


def test_every_type_of_a_stream_is_told():
    columns = {
        "flag": pa.array([True]),
        "small": pa.array([-3], pa.int8()),
        "large": pa.array([2**63 - 1]),
        "price": pa.array(["12.50"]).cast(pa.decimal128(10, 2)),
        "text": pa.array(['quote " back \\ line\n']),
        "day": pa.array([19723], pa.date32()),
        "at": pa.array([datetime(2024, 1, 1, 0, 0, 1, 5, UTC)], pa.timestamp("us", "UTC")),
    }
    (row,) = read(pa.table(columns))
    assert row == {
        "flag": True,
        "small": -3,
        "large": 2**63 - 1,
        "price": 12.5,
        "text": 'quote " back \\ line\n',
        "day": "2024-01-01",
        "at": "2024-01-01 00:00:01.000005+00",
    }


def test_nested_values_are_json_all_the_way_down():
    nan, inf = float("nan"), float("inf")
    columns = {
        "s": pa.array(
            [{"a": nan, "b": [inf, 1.5, None]}, None], pa.struct([("a", pa.float32()), ("b", pa.list_(pa.float64()))])
        ),
        "m": pa.array([[("k", -inf), ("l", 2.0)], None], pa.map_(pa.string(), pa.float64())),
        "r": pa.array([[{"x": [nan]}, None], []], pa.list_(pa.struct([("x", pa.list_(pa.float64()))]))),
        "plain": pa.array(
            [{"t": datetime(2024, 1, 1, tzinfo=UTC)}, None], pa.struct([("t", pa.timestamp("us", "UTC"))])
        ),
    }
    first, second = read(pa.table(columns))
    assert first["s"] == {"a": "NaN", "b": ["Infinity", 1.5, None]}
    assert first["m"] == {"k": "-Infinity", "l": 2.0}
    assert first["r"] == [{"x": ["NaN"]}, None]
    assert first["plain"] == {"t": "2024-01-01 00:00:00+00"}
    assert second == {"s": None, "m": None, "r": [], "plain": None}


def test_times_without_a_zone_are_told_to_the_ends_of_their_range():
    times = pa.array([-(2**63), 2**63 - 2, 0, None], pa.timestamp("us"))
    nested = pa.array([[{"t": -(2**63)}], [], None, [None]], pa.list_(pa.struct([("t", pa.timestamp("us"))])))
    got = read(pa.table({"at": times, "nested": nested}))
    earliest = "290309-12-21 (BC) 19:59:05.224192"
    assert [row["at"] for row in got] == [earliest, "294247-01-10 04:00:54.775806", "1970-01-01 00:00:00", None]
    assert [row["nested"] for row in got] == [[{"t": earliest}], [], None, [None]]
