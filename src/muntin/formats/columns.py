"""Plain values as Arrow columns, strictly: a value that is not of the column's type is a misfit, never a NULL.

What a text may stand for: a time in ISO 8601 (UTC where it names no zone; digits beyond microseconds are cut off), a
decimal, bytes in base64, `NaN` and the infinities. A column of texts takes any value, as its JSON text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

LONGEST_SHOWN = 60
NUMBERS = {"nan", "inf", "-inf", "infinity", "-infinity", "+inf"}
"""Texts that stand for numbers that JSON has no sign for."""
Values = Sequence[Any]
NONE = type(None)


class Misfit(ValueError):
    """Why a value is no record of the schema, or no value of a column's type."""


def column(kind: pa.DataType, values: Values) -> pa.Array:
    """Values as a column; raises `Misfit` where one of them is not of its type."""
    try:
        return _column(kind, values)
    except Misfit:
        raise
    except (pa.ArrowException, OverflowError, ValueError, TypeError, InvalidOperation, RecursionError) as error:
        raise Misfit(f"{_shown(values)} is not {_named(kind)}") from error


def _column(kind: pa.DataType, values: Values) -> pa.Array:
    types = set(map(type, values)) - {NONE}
    if pa.types.is_integer(kind):
        return _plain(kind, values, types, {int})
    if pa.types.is_boolean(kind):
        return _plain(kind, values, types, {bool})
    if pa.types.is_floating(kind):
        return pa.array(values if types <= {float} else [_number(v) for v in values], kind)
    if pa.types.is_string(kind):
        return pa.array(values if types <= {str} else [_text(v) for v in values], kind)
    if pa.types.is_binary(kind):
        return pa.array(values if types <= {bytes} else [_bytes(v) for v in values], kind)
    if pa.types.is_timestamp(kind):
        return _times(kind, values, types)
    if pa.types.is_date(kind):
        return _plain(kind, values, types, {date}) if types <= {date} else _cast(kind, values, types)
    if pa.types.is_decimal(kind):
        return pa.array([_decimal(v) for v in values], kind)
    return _nested(kind, values, types)


def _plain(kind: pa.DataType, values: Values, types: set[type], wanted: set[type]) -> pa.Array:
    if not types <= wanted:
        raise TypeError
    return pa.array(values, kind)


def _cast(kind: pa.DataType, values: Values, types: set[type]) -> pa.Array:
    if not types <= {str}:
        raise TypeError
    return pa.array(values, pa.string()).cast(kind)


def _times(kind: pa.DataType, values: Values, types: set[type]) -> pa.Array:
    if types <= {datetime}:
        return pa.array(values, kind)
    if int in types or float in types:
        hint = "a number of seconds or milliseconds is declared BIGINT, with TIMESTAMP BY timestamp_millis(column)"
        raise Misfit(f"{_shown(values)} is not {_named(kind)}; {hint}")
    for parsed in ("us", "ns"):
        for zone in (kind.tz, None):
            try:
                return _cast(pa.timestamp(parsed, zone), values, types).cast(kind, safe=False)
            except pa.ArrowInvalid:
                continue
    if len(values) == 1:
        raise TypeError
    return pa.concat_arrays([_times(kind, [v], {type(v)} - {NONE}) for v in values])  # some with a zone, some without


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, float):
        return value
    if (isinstance(value, str) and value.lower() not in NUMBERS) or isinstance(value, bool):
        raise TypeError
    return float(value)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise Misfit(f"{_shown([value])} is not base64, as JSON has BINARY") from error


def _decimal(value: Any) -> Decimal | None:
    if value is None or isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return Decimal(str(value))


def _nested(kind: pa.DataType, values: Values, types: set[type]) -> pa.Array:
    if pa.types.is_struct(kind):
        if not types <= {dict}:
            raise TypeError
        fields = list(kind)
        parts = [column(f.type, [None if v is None else v.get(f.name) for v in values]) for f in fields]
        missing = pa.array([v is None for v in values], pa.bool_())
        return pa.StructArray.from_arrays(parts, fields=fields, mask=missing)
    if not types <= ({dict} if pa.types.is_map(kind) else {list}):
        raise TypeError
    offsets, total = list[int | None](), 0
    for value in values:
        offsets.append(None if value is None else total)
        total += 0 if value is None else len(value)
    ends = pa.array([*offsets, total], pa.int32())
    if pa.types.is_map(kind):
        keys = column(kind.key_type, [key for value in values if value is not None for key in value])
        items = column(kind.item_type, [item for value in values if value is not None for item in value.values()])
        return pa.MapArray.from_arrays(ends, keys, items).cast(kind)
    inner = column(kind.value_type, [item for value in values if value is not None for item in value])
    return pa.ListArray.from_arrays(ends, inner).cast(kind)


def _shown(values: Values) -> str:
    if len(values) != 1:
        return "a value"
    text = json.dumps(values[0], default=str, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _named(kind: pa.DataType) -> str:
    """A type as people call it: `bigint`, `timestamp`."""
    names = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}
    text = str(kind).partition("[")[0]
    return names.get(text, text).upper()
