"""Rules for CASE, and functions that choose between values."""

from __future__ import annotations

from sqlglot import exp

from muntin.sql.casts import beside_decimals, unify
from muntin.sql.catalog import form, function
from muntin.sql.translate import Translator, Value, fill, rule, wrap

form("if(boolean, any, any = NULL) -> the common type")


@function("greatest(any, any...) -> the common type", "least(any, any...) -> the common type")
def extreme(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    name = node.name.upper()
    if len(arguments) < 2:
        raise t.error(f"{name} needs two values or more", node, f"write {name}(a, b)")
    kind, nodes = unify(t, [t.value(n) for n in arguments], node, "compare")
    return t.made(node, exp.Anonymous(this=name.lower(), expressions=nodes), kind)


@function(
    "coalesce(any, any...) -> the common type",
    "nvl(any, any) -> the common type",
    "ifnull(any, any) -> the common type",
)
def coalesce(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    kind, nodes = unify(t, [t.value(n) for n in arguments], node, "choose between")
    return t.made(node, exp.Coalesce(this=nodes[0], expressions=nodes[1:]), kind)


@function("nvl2(any, any, any) -> the common type")
def nvl2(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    condition, *branches = (t.value(n) for n in arguments)
    kind, (known, unknown) = unify(t, branches, node, "choose between")
    chosen = fill("CASE WHEN a IS NOT NULL THEN b ELSE c END", a=condition.node, b=known, c=unknown)
    return t.made(node, chosen, kind)


@function("nullif(any, any) -> the first")
def nullif(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    values = [t.value(n) for n in arguments]
    _, (left, right) = unify(t, beside_decimals(values), node, "compare")
    whole_node = fill("CASE WHEN a = b THEN NULL ELSE c END", a=left, b=right, c=values[0].node)
    return t.made(node, whole_node, values[0].type)


@function("isnull(any) -> boolean", "isnotnull(any) -> boolean")
def is_null(t: Translator, node: exp.Expr, arguments: list[exp.Expr]) -> Value:
    test = "a IS NULL" if node.name.lower() == "isnull" else "a IS NOT NULL"
    return t.made(node, fill(test, a=t.value(arguments[0]).node), "boolean")


@rule(exp.If, args="this true false")
def if_(t: Translator, node: exp.Expr) -> Value:
    condition = t.boolean(t.value(node.this), "IF")
    branches = [t.value(node.args["true"])]
    if (otherwise := t.optional(node, "false")) is not None:
        branches.append(otherwise)
    kind, nodes = unify(t, branches, node, "choose between")
    case = exp.Case(ifs=[exp.If(this=condition.node, true=nodes[0])], default=nodes[1] if len(nodes) > 1 else None)
    return t.made(node, case, kind)


@rule(exp.Case, args="this ifs default")
def case(t: Translator, node: exp.Expr) -> Value:
    ifs = node.args["ifs"]
    branches = [t.value(i.args["true"]) for i in ifs]
    if (default := t.optional(node, "default")) is not None:
        branches.append(default)
    kind, results = unify(t, branches, node, "choose between")
    operand, conditions = _conditions(t, node, ifs)
    built = [exp.If(this=c, true=r) for c, r in zip(conditions, results[: len(ifs)], strict=True)]
    return t.made(node, exp.Case(this=operand, ifs=built, default=results[-1] if default else None), kind)


def _conditions(t: Translator, node: exp.Expr, ifs: list[exp.Expr]) -> tuple[exp.Expr | None, list[exp.Expr]]:
    operand = t.optional(node, "this")
    values = [t.value(i.this) for i in ifs]
    if operand is None:
        return None, [t.boolean(v, "WHEN").node for v in values]
    _, (first, *rest) = unify(t, [operand, *values], node, "compare")
    return wrap(first), rest
