"""Functions of texts that hold JSON. A text that is not JSON has no value anywhere in it."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError

from muntin.model import SqlError
from muntin.model.types import INTEGERS, decimal_parts, nested_kind, nested_parts
from muntin.sql.casts import conversion_from_string, type_name
from muntin.sql.catalog import accepted, function
from muntin.sql.translate import Translator, Value, duckdb_type_node, fill

_STEP = re.compile(r"""\.([^.\[\]'"*]+)|\[(\d{1,9})\]|\['([^'"\]]+)'\]""")
_INTEGER_TYPES = "('BIGINT', 'UBIGINT')"
_NUMBER_TYPES = "('BIGINT', 'UBIGINT', 'DOUBLE')"


@function("get_json_object(string, path) -> string")
def get_json_object(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """What stands at a path (`$.a.b[0]`): texts without quotes, objects and arrays as JSON."""
    a, path = accepted(t, "string", arguments[0], "get_json_object"), t.value(arguments[1])
    if not path.is_text:
        raise t.error("GET_JSON_OBJECT needs its path in quotes", arguments[1], "write a literal: '$.a.b[0]'")
    found = fill(
        "json_extract_string(CASE WHEN json_valid(a) THEN a END, p)", a=a, p=_path(t, arguments[1], path.node.name)
    )
    return t.made(node, found, "string")


def _path(t: Translator, node: exp.Expr, text: str) -> exp.Expr:
    steps, at = ["$"], 1
    while text.startswith("$") and at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            break
        name = found[1] or found[3]
        steps.append(f'."{name}"' if name else f"[{found[2]}]")
        at = found.end()
    if not text.startswith("$") or at < len(text):
        raise t.error(f"'{text}' is not a path", node, "write $, then .name, ['name'] or [0]; * is not supported")
    return exp.Literal.string("".join(steps))


@function("from_json(string, schema) -> struct")
def from_json(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """A JSON object as a struct: a field that is missing, or of another type, is NULL."""
    a, schema = accepted(t, "string", arguments[0], "from_json"), t.value(arguments[1])
    kind = _struct(t, arguments[1], schema.node.name if schema.is_text else "")
    valid = fill("CASE WHEN json_valid(a) AND json_type(a) = 'OBJECT' THEN a END", a=a)
    whole = fill("CASE WHEN trim(a) <> '' THEN s END", a=a, s=_object(t, node, valid, kind))
    return t.made(node, exp.Cast(this=whole, to=duckdb_type_node(kind)), kind)


def _struct(t: Translator, node: exp.Expr, text: str) -> str:
    """The type that a schema such as `a INT, b STRING` describes."""
    hint = "write its fields in quotes: 'a INT, b STRING'"
    inside = re.fullmatch(r"\s*STRUCT\s*<(.*)>\s*", text, re.IGNORECASE | re.DOTALL)
    fields = inside[1] if inside else re.sub(r"((?:^|,(?![^(<]*[)>]))\s*\w+)\s+", r"\1: ", text)
    try:
        kind = type_name(t.text, exp.DataType.build(f"STRUCT<{fields}>", dialect="spark"))
    except (SqlglotError, SqlError) as error:
        raise t.error(f"FROM_JSON: '{text}' is not a schema", node, hint) from error
    return kind


def _object(t: Translator, node: exp.Expr, text: exp.Expr, kind: str) -> exp.Expr:
    """A struct of the fields of a JSON object, in the text of one or NULL."""
    fields = []
    for name, inner in nested_parts(kind):
        path = exp.Literal.string(f'$."{name}"')
        key = exp.to_identifier(name, quoted=True)
        fields.append(exp.PropertyEQ(this=key, expression=_field(t, node, text, path, inner)))
    return exp.Struct(expressions=fields)


def _field(t: Translator, node: exp.Expr, text: exp.Expr, path: exp.Expr, kind: str) -> exp.Expr:
    """One field in its type."""
    if nested_kind(kind) == "struct":
        inner = fill(
            "CASE WHEN json_type(j, p) = 'OBJECT' THEN CAST(json_extract(j, p) AS VARCHAR) END", j=text, p=path
        )
        return fill("CASE WHEN x IS NOT NULL THEN s END", x=inner, s=_object(t, node, inner, kind))
    if nested_kind(kind) or kind in ("binary", "timestamp_ntz"):
        raise t.text.refuse(f"a field of type {kind} in FROM_JSON", node, "read it as STRING, then FROM_JSON of that")
    value = fill("json_extract_string(j, p)", j=text, p=path)
    if kind == "string":
        return value
    if kind in INTEGERS or kind == "boolean":
        only = _INTEGER_TYPES if kind in INTEGERS else "('BOOLEAN')"
        template = f"CASE WHEN json_type(j, p) IN {only} THEN v END"
        return exp.TryCast(this=fill(template, j=text, p=path, v=value), to=duckdb_type_node(kind))
    if kind in ("float", "double"):
        words = "v IN ('NaN', 'Infinity', '+INF', 'INF', '-Infinity', '-INF')"
        word = "CASE WHEN v = 'NaN' THEN v WHEN v[1] = '-' THEN '-Infinity' ELSE 'Infinity' END"
        template = f"CASE WHEN json_type(j, p) IN {_NUMBER_TYPES} THEN v WHEN {words} THEN {word} END"
        return exp.TryCast(this=fill(template, j=text, p=path, v=value), to=duckdb_type_node(kind))
    if decimal_parts(kind):
        return fill(
            "CASE WHEN json_type(j, p) <> 'BOOLEAN' THEN x END", j=text, p=path, x=conversion_from_string(value, kind)
        )
    return fill(
        "CASE WHEN json_type(j, p) = 'VARCHAR' THEN x END", j=text, p=path, x=conversion_from_string(value, kind)
    )
