"""Structs, arrays and maps: fields and elements, and functions of them."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from muntin.model import common_type
from muntin.model.types import INTERVAL, nested_kind, nested_parts
from muntin.sql.casts import unify
from muntin.sql.catalog import accepted, function
from muntin.sql.places import did_you_mean, listing
from muntin.sql.translate import NULL, Translator, Value, coerce, duckdb_type_node, fill, rule


def unfold_fields(tree: exp.Expr, aliases: Collection[str], columns: Collection[str]) -> None:
    """`A.s.f` and `s.f`, which are read as columns of tables, become fields of columns, within `tree`."""
    known, tables = ({name.lower() for name in names} for names in (columns, aliases))
    for column in list(tree.find_all(exp.Column)):
        parts = column.parts
        first = 2 if parts[0].name.lower() in tables else 1
        if len(parts) <= first or column is tree or (first == 1 and parts[0].name.lower() not in known):
            continue
        base = exp.Column(this=parts[first - 1].copy(), table=parts[0].copy() if first == 2 else None)
        whole: exp.Expr = base
        for part in parts[first:]:
            whole = exp.Dot(this=whole, expression=part.copy())
        for node in (base, whole):
            node.meta.update({k: v for k, v in column.meta.items() if k in ("start", "end")})
        column.replace(whole)


@rule(exp.Dot)
def field(t: Translator, node: exp.Expr) -> Value:
    """A field of a struct."""
    value, name = t.value(node.this), node.expression
    if isinstance(name, exp.Star):
        names = [inner for inner, _ in nested_parts(value.type)] if nested_kind(value.type) == "struct" else []
        raise t.text.refuse("* of a struct", node, f"name its fields, each after a dot: {listing(names)}")
    if nested_kind(value.type) != "struct" or not isinstance(name, exp.Identifier):
        raise t.error(f"only a struct has fields, this is {value.type}", node, "write column.field of a struct")
    fields = {inner.lower(): (inner, kind) for inner, kind in nested_parts(value.type)}
    found = fields.get(name.name.lower())
    if found is None:
        names = [inner for inner, _ in fields.values()]
        hint = did_you_mean(name.name, names, f"fields are {listing(names)}")
        raise t.error(f"the struct has no field {name.name}", node, hint)
    return t.made(node, fill("struct_extract(a, f)", a=value.node, f=exp.Literal.string(found[0])), found[1])


@rule(exp.Bracket, args="this expressions")
def element(t: Translator, node: exp.Expr) -> Value:
    """`array[0]`, counted from 0, and `map['key']`; NULL where there is none."""
    value = t.value(node.this)
    if len(node.expressions) != 1 or nested_kind(value.type) not in ("array", "map"):
        raise t.error(f"only arrays and maps have elements, this is {value.type}", node, "write array[0] or map['key']")
    if nested_kind(value.type) == "map":
        return _of_key(t, node, value, node.expressions[0])
    index = accepted(t, "integer", node.expressions[0], "an element of an array")
    found = fill("CASE WHEN i >= 0 THEN list_extract(a, CAST(i AS BIGINT) + 1) END", a=value.node, i=index)
    return t.made(node, found, nested_parts(value.type)[0][1])


def _of_key(t: Translator, node: exp.Expr, value: Value, key: exp.Expr) -> Value:
    (_, wanted), (_, kind) = nested_parts(value.type)
    found = t.value(key)
    if found.type not in (wanted, NULL) and common_type(found.type, wanted) != wanted:
        raise t.error(f"the keys of the map are {wanted}, this is {found.type}", key, "bring it to that type with CAST")
    return t.made(node, fill("map_extract_value(a, k)", a=value.node, k=coerce(found, wanted)), kind)


@function("element_at(array or map, any) -> the element", "try_element_at(array or map, any) -> the element")
def element_at(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    """Counted from 1, or from the end with a negative number; or of a key of a map."""
    value = t.expect(
        t.value(arguments[0]), lambda k: nested_kind(k) in ("array", "map"), node.name.upper(), "an array or map"
    )
    if nested_kind(value.type) == "map":
        return _of_key(t, node, value, arguments[1])
    index = accepted(t, "integer", arguments[1], "element_at")
    found = fill("CASE WHEN i <> 0 THEN list_extract(a, CAST(i AS BIGINT)) END", a=value.node, i=index)
    return t.made(node, found, nested_parts(value.type)[0][1])


@function("size(array or map) -> int", "cardinality(array or map) -> int", "array_size(array or map) -> int")
def size(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = node.name.upper()
    value = t.expect(t.value(arguments[0]), lambda k: nested_kind(k) in ("array", "map"), name, "an array or map")
    count = "len(a)" if nested_kind(value.type) == "array" else "cardinality(a)"
    return t.made(node, fill(f"CAST({count} AS INTEGER)", a=value.node), "int")


@function("array_contains(array, any) -> boolean", "array_position(array, any) -> bigint")
def search(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = node.name.lower()
    value, item = t.expect(t.value(arguments[0]), _is_array, name.upper(), "an array"), t.value(arguments[1])
    kind = nested_parts(value.type)[0][1]
    if common_type(item.type, kind) != kind:
        raise t.error(f"the array has {kind}, this is {item.type}", arguments[1], "bring it to that type with CAST")
    values = {"a": value.node, "b": coerce(item, kind)}
    if name == "array_position":
        template = "CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN CAST(coalesce(list_position(a, b), 0) AS BIGINT) END"
        return t.made(node, fill(template, **values), "bigint")
    found = "WHEN list_contains(a, b) THEN TRUE WHEN list_count(a) < len(a) THEN NULL ELSE FALSE"
    return t.made(node, fill(f"CASE WHEN a IS NULL OR b IS NULL THEN NULL {found} END", **values), "boolean")


def _is_array(kind: str) -> bool:
    return nested_kind(kind) == "array"


@function("array_max(array) -> the element", "array_min(array) -> the element")
def extreme(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = node.name.lower()
    value = t.expect(t.value(arguments[0]), _is_array, name.upper(), "an array")
    return t.made(node, fill(f"list_{name[-3:]}(a)", a=value.node), nested_parts(value.type)[0][1])


@function("array_join(array, string) -> string")
def array_join(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    value = t.expect(t.value(arguments[0]), ("array<string>",), "ARRAY_JOIN", "an array<string>")
    by = accepted(t, "string", arguments[1], "array_join")
    template = "CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE coalesce(array_to_string(a, b), '') END"
    return t.made(node, fill(template, a=value.node, b=by), "string")


@function("map_keys(map) -> array", "map_values(map) -> array")
def map_part(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = node.name.lower()
    value = t.expect(t.value(arguments[0]), lambda k: nested_kind(k) == "map", name.upper(), "a map")
    kind = nested_parts(value.type)[0 if name == "map_keys" else 1][1]
    return t.made(node, fill(f"{name}(a)", a=value.node), f"array<{kind}>")


@function("array(any...) -> array")
def array(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    if not arguments:
        raise t.error("an array without values has no type", node, "write ARRAY(1, 2)")
    kind, nodes = unify(t, [_plain(t, n) for n in arguments], node, "choose between")
    if kind == NULL:
        raise t.error("an array of NULLs has no type", node, "write CAST(NULL AS type)")
    made = exp.Anonymous(this="list_value", expressions=nodes)
    return t.made(node, exp.Cast(this=made, to=duckdb_type_node(f"array<{kind}>")), f"array<{kind}>")


@function("named_struct(name, any, any...) -> struct")
def named_struct(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    names, values = [t.value(n) for n in arguments[::2]], [_plain(t, n) for n in arguments[1::2]]
    texts = [n.node.name for n in names if n.is_text and n.node.name.isidentifier()]
    if len(texts) < len(names) or len(names) != len(values) or any(v.type == NULL for v in values):
        raise t.error("NAMED_STRUCT takes names and values in turn", node, "write NAMED_STRUCT('a', x, 'b', y)")
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=v.node)
        for name, v in zip(texts, values, strict=True)
    ]
    kind = ",".join(f"{name}:{v.type}" for name, v in zip(texts, values, strict=True))
    return t.made(node, exp.Struct(expressions=fields), f"struct<{kind}>")


def _plain(t: Translator, node: exp.Expr) -> Value:
    """A value that can stand in an array or struct."""
    value = t.value(node)
    if value.type == INTERVAL:
        raise t.text.refuse("an interval within another value", node, "TIMESTAMPDIFF gives a number")
    return value
