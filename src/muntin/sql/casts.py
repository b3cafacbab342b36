"""CAST, date and timestamp literals, and Spark's names of types."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
from sqlglot import exp

from muntin.kernels.evaluate import evaluate
from muntin.model import common_type, is_numeric
from muntin.model.types import INTEGERS, INTERVAL, MAX_PRECISION, TYPES, decimal_parts
from muntin.sql import time_texts
from muntin.sql.places import SqlText
from muntin.sql.time_texts import BLANKS
from muntin.sql.translate import (
    NULL,
    TIMES,
    Translator,
    Value,
    at,
    coerce,
    decimal_parts_of,
    duckdb_type_node,
    fill,
    rule,
)

_WHOLE = r"[+-]?\d+"
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_FLOATING = rf"{_NUMBER}|(?i)[+-]?inf(?:inity)?|nan"
_TIME_TEXTS = {"date": time_texts.DATE, "timestamp": time_texts.TIMESTAMP, "timestamp_ntz": time_texts.TIMESTAMP_NTZ}

TYPES_HINT = f"types are {', '.join(TYPES)}, decimal(p,s), array<type>, map<type,type> and struct<name:type>"

_DTYPES = {
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.TEXT: "string",
    exp.DType.VARCHAR: "string",
    exp.DType.CHAR: "string",
    exp.DType.BINARY: "binary",
    exp.DType.VARBINARY: "binary",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}


def type_name(text: SqlText, node: exp.DataType) -> str:
    """The model's name of a type as Spark SQL writes it."""
    if node.this == exp.DType.DECIMAL:
        return _decimal_name(text, node)
    inner = node.expressions
    if node.this in (exp.DType.ARRAY, exp.DType.MAP) and len(inner) == (1 if node.this == exp.DType.ARRAY else 2):
        return f"{node.this.value.lower()}<{','.join(type_name(text, part) for part in inner)}>"
    if node.this == exp.DType.STRUCT and inner and all(isinstance(part, exp.ColumnDef) for part in inner):
        return f"struct<{','.join(_field_name(text, part) for part in inner)}>"
    known = _DTYPES.get(node.this)
    if known is None or node.args.get("nested"):
        written = text.slice(node) or node.sql("spark")
        raise text.error(f"the type {written} is not known", node, TYPES_HINT)
    return known


def _field_name(text: SqlText, part: exp.Expr) -> str:
    """`name:type`, for a field of a struct."""
    name, kind = part.this.name, part.args.get("kind")
    if re.fullmatch(r"\w+", name) is None or kind is None or part.args.get("constraints"):
        raise text.error("a field of a struct is a name and a type", part, "write STRUCT<a: INT, b: STRING>")
    return f"{name}:{type_name(text, kind)}"


def _decimal_name(text: SqlText, node: exp.DataType) -> str:
    sizes = [int(p.name) if re.fullmatch("[0-9]{1,3}", p.name) else -1 for p in node.expressions] or [10, 0]
    precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision and len(sizes) <= 2):
        hint = f"write DECIMAL(p, s) with 1 <= p <= {MAX_PRECISION} and 0 <= s <= p"
        raise text.error(f"no such decimal: {text.slice(node)}", node, hint)
    return f"decimal({precision},{scale})"


@rule(exp.Cast, exp.TryCast, args="this to safe")
def cast(t: Translator, node: exp.Expr) -> Value:
    """CAST and TRY_CAST alike: what does not cast is NULL."""
    to = node.args["to"]
    kind = type_name(t.text, to)
    value = t.value(node.this)
    if value.is_text and kind in TIMES:
        return at(time_literal(t, value, kind, node), node)
    return at(converted(t, value, kind, node), node)


def converted(t: Translator, value: Value, kind: str, source: exp.Expr) -> Value:
    """`value` as Spark casts it to `kind`."""
    if value.type in (kind, NULL):
        return t.made(source, exp.Cast(this=value.node, to=duckdb_type_node(kind)), kind)
    template = _conversion(value.type, kind)
    if template is None:
        hint = "to print a double, CAST it to DECIMAL(p, s) first" if kind == "string" else "leave it in its own type"
        raise t.text.refuse(f"CAST from {value.type} to {kind}", source, hint)
    return t.made(source, _targeted(fill(template, a=value.node), kind), kind)


def _targeted(node: exp.Expr, kind: str) -> exp.Expr:
    """A conversion with its target: `TIMESTAMP_S` stands for it, since DuckDB would not parse a free name."""
    for inner in node.find_all(exp.Cast):
        if inner.args["to"].this == exp.DType.TIMESTAMP_S:
            inner.set("to", duckdb_type_node(kind))
    return node


_TARGET = "TIMESTAMP_S"


def _conversion(source: str, target: str) -> str | None:
    plain = f"TRY_CAST(a AS {_TARGET})"
    if source == "string" and target != "binary":
        return _from_string(target)
    if is_numeric(source):
        if is_numeric(target):
            return _between_numbers(source, target)
        if target == "string":
            return _number_as_text(source)
        if target == "timestamp":
            return _AS_INSTANT.get(source, _DECIMAL_INSTANT)
        return plain if target == "boolean" else None
    if source == "boolean":
        return plain if is_numeric(target) or target == "string" else None
    if source in _BYTES and target in _BYTES:
        return _BYTES[target]
    if source == INTERVAL:
        return _INTERVAL_TEXT if target == "string" else None
    if source == "timestamp" and is_numeric(target):
        return _SECONDS if target in INTEGERS else _number_of_seconds(target)
    if source in TIMES:
        if target == "string":
            return "CAST(CAST(a AS TIMESTAMP) AS VARCHAR)" if source != "date" else plain
        return plain if target in TIMES else None
    return None


_BYTES = {"string": "TRY(decode(a))", "binary": "encode(a)"}
_MICROS = "epoch_us(CAST(a AS TIMESTAMP))"
_WHOLE_SECONDS = f"CASE WHEN {_MICROS} % 1000000 < 0 THEN {_MICROS} // 1000000 - 1 ELSE {_MICROS} // 1000000 END"
_SECONDS = f"TRY_CAST({_WHOLE_SECONDS} AS {_TARGET})"
_INSTANT = "TRY(CAST(make_timestamp(TRY_CAST({} AS BIGINT)) AS TIMESTAMPTZ))"
_AS_INSTANT = {
    **{kind: _INSTANT.format("CAST(a AS HUGEINT) * 1000000") for kind in INTEGERS},
    **{kind: _INSTANT.format("trunc(CAST(a AS DOUBLE) * 1000000)") for kind in ("float", "double")},
}
_DECIMAL_INSTANT = _INSTANT.format("trunc(CAST(a AS DECIMAL(38, 12)) * 1000000)")
_INTERVAL_TEXT = """
    'INTERVAL ' || chr(39) || CASE WHEN a < 0 THEN '-' ELSE '' END
      || CAST(abs(a) // 86400000000 AS VARCHAR) || ' '
      || lpad(CAST(abs(a) // 3600000000 % 24 AS VARCHAR), 2, '0') || ':'
      || lpad(CAST(abs(a) // 60000000 % 60 AS VARCHAR), 2, '0') || ':'
      || lpad(CAST(abs(a) // 1000000 % 60 AS VARCHAR), 2, '0')
      || rtrim(rtrim('.' || lpad(CAST(abs(a) % 1000000 AS VARCHAR), 6, '0'), '0'), '.') || chr(39)
      || ' DAY TO SECOND'"""


def _number_of_seconds(target: str) -> str:
    """Seconds with their fraction."""
    if decimal_parts(target):
        return f"TRY_CAST(CAST({_MICROS} AS DECIMAL(19, 0)) * CAST(0.000001 AS DECIMAL(7, 6)) AS {_TARGET})"
    return f"CAST(CAST({_MICROS} AS DOUBLE) / 1000000 AS {_TARGET})"


def _number_as_text(source: str) -> str | None:
    """Where all digits of a decimal stand behind the point, DuckDB writes no zero before it."""
    if source in ("float", "double"):
        return None
    parts = decimal_parts(source)
    plain = "CAST(a AS VARCHAR)"
    return f"regexp_replace({plain}, '^(-?)[.]', '\\10.')" if parts and parts[0] == parts[1] else plain


_LARGEST_FLOAT = "3.4028234663852886e38"
_FLOAT_OVERFLOW = "3.4028235677973366e38"
"""Doubles from here on are nearer to the power of two that a float does not reach: Spark rounds them to Infinity."""

_TO_FLOAT = f"""
    CASE WHEN NOT isfinite(a) OR abs(a) <= {_LARGEST_FLOAT} THEN CAST(a AS FLOAT)
      WHEN a >= {_FLOAT_OVERFLOW} THEN CAST('Infinity' AS FLOAT)
      WHEN a <= -{_FLOAT_OVERFLOW} THEN CAST('-Infinity' AS FLOAT)
      WHEN a > 0 THEN CAST({_LARGEST_FLOAT} AS FLOAT)
      WHEN a < 0 THEN CAST(-{_LARGEST_FLOAT} AS FLOAT) END"""


def _between_numbers(source: str, target: str) -> str:
    if target in INTEGERS and source not in INTEGERS:
        return f"TRY_CAST(trunc(a) AS {_TARGET})"
    if target.startswith("decimal") and source in ("float", "double"):
        return f"TRY_CAST(CAST(CAST(a AS DOUBLE) AS VARCHAR) AS {_TARGET})"
    return _TO_FLOAT if (source, target) == ("double", "float") else f"TRY_CAST(a AS {_TARGET})"


def _from_string(target: str) -> str | None:
    if target == "boolean":
        return (
            "CASE lower(trim(a)) WHEN 't' THEN TRUE WHEN 'true' THEN TRUE WHEN 'y' THEN TRUE WHEN 'yes' THEN TRUE "
            "WHEN '1' THEN TRUE WHEN 'f' THEN FALSE WHEN 'false' THEN FALSE WHEN 'n' THEN FALSE WHEN 'no' THEN FALSE "
            "WHEN '0' THEN FALSE END"
        )
    if target in TIMES:
        return _TIME_TEXTS[target]
    if target in ("float", "double"):  # Java takes 1d and 1f for numbers
        return f"TRY_CAST(regexp_extract(a, '^{BLANKS}({_FLOATING})[dDfF]?{BLANKS}$', 1) AS {_TARGET})"
    form = _WHOLE if target in INTEGERS else _NUMBER
    return f"TRY_CAST(regexp_extract(a, '^{BLANKS}({form}){BLANKS}$', 1) AS {_TARGET})"


def conversion_from_string(node: exp.Expr, kind: str) -> exp.Expr:
    """A text as Spark casts it to a type."""
    template = _from_string(kind)
    assert template is not None
    return _targeted(fill(template, a=node), kind)


def time_literal(t: Translator, value: Value, kind: str, source: exp.Expr) -> Value:
    """A string literal as a date or timestamp, checked now: a typo must not become a NULL that matches nothing."""
    result = converted(t, value, kind, source)
    if not _has_value(result.node.sql("duckdb"), kind):
        example = "2024-01-31" if kind == "date" else "2024-01-31 12:00:00"
        raise t.error(f"'{value.node.name}' is not a {kind}", value, f"write it as '{example}'")
    if re.fullmatch(time_texts.PLAIN, value.node.name) is None:
        return result
    constant = exp.Literal.string(value.node.name.strip())
    return Value(exp.Cast(this=constant, to=duckdb_type_node(kind)), kind, value.span)


@lru_cache(maxsize=10_000)
def _has_value(sql: str, kind: str) -> bool:
    """Whether a constant is not NULL; asked once, since many queries compare with the same one."""
    (found,) = evaluate(pa.table({"_": [0]}), [(sql, kind)])
    return found[0].as_py() is not None


def unify(t: Translator, values: list[Value], source: exp.Expr, verb: str) -> tuple[str, list[exp.Expr]]:
    """The type in which values meet (in a comparison, as branches of CASE, ...) and their nodes in it.

    String literals become dates or timestamps where the others are: `ts > '2024-01-01'`.
    """
    times = [v.type for v in values if v.type in TIMES]
    dated = [time_literal(t, v, times[0], source) if times and v.is_text else v for v in values]
    kind, first = NULL, dated[0]
    for value in dated:
        met = value.type if kind == NULL else kind if value.type == NULL else common_type(kind, value.type)
        if met is None:
            raise t.error(f"cannot {verb} {kind} and {value.type}", source, _meeting_hint(first, value, verb))
        first = value if kind == NULL else first
        kind = met
    return kind, [coerce(v, kind) for v in dated]


def beside_decimals(values: list[Value]) -> list[Value]:
    """Integer literals as decimals of just their digits, where they are compared with a decimal."""
    if not any(decimal_parts(v.type) for v in values):
        return values
    return [v if v.integer is None else _narrowed(v) for v in values]


def _narrowed(literal: Value) -> Value:
    kind = "decimal({},{})".format(*decimal_parts_of(literal))
    return replace(literal, node=exp.Cast(this=literal.node, to=duckdb_type_node(kind)), type=kind)


def _meeting_hint(left: Value, right: Value, verb: str) -> str:
    for one, other in ((left, right), (right, left)):
        if verb == "compare" and one.is_text and is_numeric(other.type):
            number = re.fullmatch(r"\s*[+-]?\d+\.?\d*\s*", one.node.name)
            return "write the number without quotes" if number else "compare it with a number"
    return "bring both to one type with CAST(... AS ...)"
