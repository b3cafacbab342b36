"""Rows as JSON: times in ISO 8601, intervals in microseconds, bytes in base64, NaN and infinity as text."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.model.event_time import EARLIEST_US, LATEST_US, time_text


def json_lines(table: pa.Table, more: Mapping[str, Any] | None = None) -> bytes:
    """Each row as an object on a line."""
    return b"".join([row + b"\n" for row in json_rows(table, more)])


def json_rows(table: pa.Table, more: Mapping[str, Any] | None = None) -> list[bytes]:
    """Each row as an object, with `more` first in each."""
    first = "".join(f"{json.dumps(k)}: {json.dumps(v)}, " for k, v in (more or {}).items())
    names = [json.dumps(name) for name in table.column_names]
    row = "{" + first.replace("%", "%%") + ", ".join(f"{n.replace('%', '%%')}: %s" for n in names) + "}"
    columns = [json_texts(column) for column in table.columns]
    return [(row % values).encode() for values in zip(*columns, strict=True)]


def json_texts(column: pa.ChunkedArray) -> list[str]:
    """Each value as JSON, `null` where there is none."""
    if pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return ["null" if v is None else v for v in column.cast(pa.string()).to_pylist()]
    if pa.types.is_temporal(kind) and not _has_four_digit_years(column):
        return ["null" if us is None else _time_text(us, kind) for us in _microseconds(column)]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        texts = pc.strftime(column.cast(pa.timestamp("us", "UTC")), "%Y-%m-%dT%H:%M:%SZ").to_pylist()
        return ["null" if v is None else f'"{v}"' for v in texts]
    return [json.dumps(_value(v)) for v in column.to_pylist(maps_as_pydicts="strict")]


DAY_US = 86_400_000_000


def _microseconds(column: pa.ChunkedArray) -> list[int | None]:
    """Times as whole numbers; those of dates may be too large for int64."""
    if pa.types.is_date(column.type):
        return [None if day is None else day * DAY_US for day in column.cast(pa.int32()).to_pylist()]
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()


def _has_four_digit_years(column: pa.ChunkedArray) -> bool:
    """Whether Arrow and Python can write all of these times; both have an end."""
    ends = pc.min_max(column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())).as_py()
    unit = DAY_US if pa.types.is_date(column.type) else 1
    return ends["min"] is None or (ends["min"] * unit >= EARLIEST_US and ends["max"] * unit <= LATEST_US)


def _time_text(us: int, kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        return f'"{time_text(us).partition("T")[0]}"'
    return f'"{time_text(us, "T", "microseconds")}Z"' if kind.tz is not None else f'"{time_text(us, " ")}"'


def _value(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {name: _value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
