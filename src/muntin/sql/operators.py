"""Rules for columns, literals and operators."""

from __future__ import annotations

from dataclasses import replace
from math import isinf

from sqlglot import exp

from muntin.model import is_numeric
from muntin.model.types import INTEGERS, INTERVAL, MAX_PRECISION
from muntin.sql.casts import beside_decimals, unify
from muntin.sql.decimals import decimal_arithmetic, decimal_result
from muntin.sql.intervals import VERBS, time_arithmetic
from muntin.sql.translate import (
    NULL,
    TIMES,
    Translator,
    Value,
    at,
    attempt,
    coerce,
    duckdb_type_node,
    fill,
    rule,
    wrap,
)

_COMPARE: dict[type[exp.Expr], type[exp.Expr]] = {
    kind: kind for kind in (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
}


@rule(exp.Column, args="this table db catalog")
def column(t: Translator, node: exp.Expr) -> Value:
    assert isinstance(node, exp.Column)
    side, field = t.scope.resolve(node)
    name = exp.to_identifier(side.prefix + field.name, quoted=True)
    return t.made(node, exp.Column(this=name), field.type)


@rule(exp.Paren, args="this")
def paren(t: Translator, node: exp.Expr) -> Value:
    return at(t.value(node.this), node)


@rule(exp.Boolean, args="this")
def boolean(t: Translator, node: exp.Expr) -> Value:
    return t.made(node, exp.Boolean(this=bool(node.this)), "boolean")


@rule(exp.Null)
def null(t: Translator, node: exp.Expr) -> Value:
    return t.made(node, exp.Null(), NULL)


@rule(exp.RawString, args="this")
def raw_string(t: Translator, node: exp.Expr) -> Value:
    return t.made(node, exp.Literal.string(node.name), "string")


@rule(exp.Literal, args="this is_string")
def literal(t: Translator, node: exp.Expr) -> Value:
    text = node.name
    if node.args["is_string"]:
        if "\0" in text:
            raise t.error("a string with a NUL character", node, "take it out")
        return t.made(node, exp.Literal.string(text), "string")
    return _number(t, node, text, negative=False)


def _number(t: Translator, node: exp.Expr, text: str, *, negative: bool) -> Value:
    """Spark's types of number literals: the narrowest of int, bigint, decimal; with an exponent double."""
    if len(text) > 400 or not text.isascii():
        raise t.error("the number is too long", node, f"write at most {MAX_PRECISION} digits, or a double: 1.5e40")
    plain: exp.Expr = exp.Literal.number(text)
    signed = exp.Neg(this=plain) if negative else plain
    if "e" in text.lower():
        if isinf(float(text)):
            raise t.error("the number does not fit into a double", node, "write a smaller one")
        return t.made(node, exp.Cast(this=signed, to=duckdb_type_node("double")), "double")
    whole, _, fraction = text.partition(".")
    if "." not in text:
        number = -int(text) if negative else int(text)
        for kind, bits in (("int", 31), ("bigint", 63)):
            if -(1 << bits) <= number < 1 << bits:
                return t.made(node, signed, kind)
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > MAX_PRECISION:
        raise t.error(f"the number has more than {MAX_PRECISION} digits", node, "write it as a double: 1.5e40")
    kind = f"decimal({max(digits, len(fraction), 1)},{len(fraction)})"
    return t.made(node, exp.Cast(this=signed, to=duckdb_type_node(kind)), kind)


@rule(exp.Neg, args="this")
def negate(t: Translator, node: exp.Expr) -> Value:
    operand = node.this
    if isinstance(operand, exp.Literal) and not operand.is_string:
        return _number(t, node, operand.name, negative=True)
    value = t.value(operand)
    if value.type != INTERVAL:
        t.number(value, "the minus sign")
    negated = exp.Neg(this=wrap(value.node))
    return t.made(node, attempt(negated) if value.type in (*INTEGERS, INTERVAL) else negated, value.type)


@rule(*_COMPARE)
def compare(t: Translator, node: exp.Expr) -> Value:
    values = beside_decimals([t.value(node.this), t.value(node.expression)])
    _, (left, right) = unify(t, values, node, "compare")
    return t.made(node, type(node)(this=wrap(left), expression=wrap(right)), "boolean")


@rule(exp.And, exp.Or)
def connect(t: Translator, node: exp.Expr) -> Value:
    """A chain of one operator is taken flat, so that a hundred alternatives do not nest a hundred deep."""
    operands: list[exp.Expr] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is type(node):
            stack += [current.expression, current.this]
        else:
            operands.append(current)
    word = "AND" if isinstance(node, exp.And) else "OR"
    parts = [wrap(t.boolean(t.value(o), word).node) for o in operands]
    joined = parts[0]
    for part in parts[1:]:
        joined = type(node)(this=joined, expression=part)
    return t.made(node, joined, "boolean")


@rule(exp.Not, args="this")
def negation(t: Translator, node: exp.Expr) -> Value:
    value = t.boolean(t.value(node.this), "NOT")
    return t.made(node, exp.Not(this=wrap(value.node)), "boolean")


@rule(exp.In, args="this expressions")
def membership(t: Translator, node: exp.Expr) -> Value:
    if not node.expressions:
        raise t.error("IN needs a list", node, "write x IN (1, 2, 3)")
    values = [t.value(n) for n in (node.this, *node.expressions)]
    _, (this, *items) = unify(t, values, node, "compare")
    return t.made(node, exp.In(this=wrap(this), expressions=items), "boolean")


@rule(exp.Between, args="this low high")
def between(t: Translator, node: exp.Expr) -> Value:
    values = [t.value(n) for n in (node.this, node.args["low"], node.args["high"])]
    _, (this, low, high) = unify(t, values, node, "compare")
    return t.made(node, exp.Between(this=wrap(this), low=wrap(low), high=wrap(high)), "boolean")


@rule(exp.Is, args="this expression negate")
def is_(t: Translator, node: exp.Expr) -> Value:
    value = t.value(node.this)
    what = node.expression
    if isinstance(what, exp.Boolean):
        t.boolean(value, "IS TRUE")
    elif not isinstance(what, exp.Null):
        raise t.refusal(node)
    held = fill("a IS NOT DISTINCT FROM b", a=value.node, b=what)
    return t.made(node, exp.Not(this=exp.Paren(this=held)) if node.args.get("negate") else held, "boolean")


@rule(exp.Like, exp.ILike, args="this expression negate")
def like(t: Translator, node: exp.Expr) -> Value:
    return _like(t, node, node, "\\")


@rule(exp.Escape)
def escaped_like(t: Translator, node: exp.Expr) -> Value:
    escape = node.expression
    if not isinstance(node.this, exp.Like | exp.ILike) or not isinstance(escape, exp.Literal) or len(escape.name) != 1:
        raise t.error("ESCAPE needs one character in quotes", escape, "write LIKE '...' ESCAPE '!'")
    return _like(t, node, node.this, escape.name)


def _like(t: Translator, source: exp.Expr, node: exp.Expr, escape: str) -> Value:
    extra = next((n for n, arg in node.args.items() if arg and n not in ("this", "expression", "negate")), None)
    if extra:
        raise t.text.refuse(f"LIKE with {extra}", node, "leave it out")
    text, pattern = (t.string(t.value(n), "LIKE") for n in (node.this, node.expression))
    if pattern.is_text:
        _check_pattern(t, pattern, escape)
    else:
        pattern = replace(pattern, node=_valid_pattern(pattern.node, escape))
    match = type(node)(this=wrap(text.node), expression=wrap(pattern.node))
    matched: exp.Expr = exp.Escape(this=match, expression=exp.Literal.string(escape))
    if node.args.get("negate"):  # NOT LIKE is one node, NOT IN is two
        matched = exp.Not(this=exp.Paren(this=matched))
    return t.made(source, matched, "boolean")


def _valid_pattern(pattern: exp.Expr, escape: str) -> exp.Expr:
    """A pattern from data: NULL where Spark would refuse it."""
    special = "".join(f"\\x{{{ord(char):x}}}" for char in escape)
    valid = f"(?s)(?:[^{special}]|{special}[_%{special}])*"
    return fill("CASE WHEN regexp_full_match(p, v) THEN p END", p=pattern, v=exp.Literal.string(valid))


def _check_pattern(t: Translator, pattern: Value, escape: str) -> None:
    rest = iter(pattern.node.name)
    for char in rest:
        if char == escape and next(rest, "") not in ("_", "%", escape):
            message = f"the pattern has {escape} before something that needs no escape"
            raise t.error(message, pattern, f"in a pattern write {escape}_ , {escape}% or {escape}{escape}")


@rule(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, args="this expression typed safe")
def arithmetic(t: Translator, node: exp.Expr) -> Value:
    left, right = t.value(node.this), t.value(node.expression)
    if {left.type, right.type} & {INTERVAL, *TIMES}:
        return time_arithmetic(t, node, left, right)
    _check_numbers(t, node, left, right)
    kind = _result_type(node, left, right)
    if kind.startswith("decimal"):
        return t.made(node, decimal_arithmetic(node, left, right, kind), kind)
    a, b = (coerce(v, kind) for v in (left, right))
    if isinstance(node, exp.Div):
        if left.integer is not None:
            a = exp.Cast(this=a, to=duckdb_type_node("double"))
        return t.made(node, fill("a / nullif(b, 0)", a=a, b=b), kind)
    if isinstance(node, exp.Mod):
        return t.made(node, _remainder(a, b, right, kind), kind)
    built = type(node)(this=wrap(a), expression=wrap(b))
    return t.made(node, attempt(built) if kind in INTEGERS else built, kind)


def _remainder(a: exp.Expr, b: exp.Expr, divisor: Value, kind: str) -> exp.Expr:
    """Of the smallest integer by -1, DuckDB takes the remainder for an overflow; by 1 it is the same."""
    if kind not in INTEGERS:
        return fill("a % nullif(b, 0)", a=a, b=b)
    if divisor.integer is not None and divisor.integer not in (0, -1):
        return fill("a % b", a=a, b=b)
    return fill("a % CASE WHEN b = -1 THEN 1 WHEN b <> 0 THEN b END", a=a, b=b)


@rule(exp.IntDiv)
def int_div(t: Translator, node: exp.Expr) -> Value:
    left, right = (t.expect(t.value(n), INTEGERS, "div", "an integer") for n in (node.this, node.expression))
    a, b = (exp.Cast(this=v.node, to=duckdb_type_node("bigint")) for v in (left, right))
    return t.made(node, attempt(fill("a // nullif(b, 0)", a=a, b=b)), "bigint")


def _check_numbers(t: Translator, node: exp.Expr, left: Value, right: Value) -> None:
    if all(is_numeric(v.type) or v.type == NULL for v in (left, right)):
        return
    hint = "arithmetic needs numbers: write CAST(... AS DOUBLE)"
    if "boolean" in (left.type, right.type):
        hint = "arithmetic needs numbers: write CASE WHEN ... THEN 1 ELSE 0 END"
    elif isinstance(node, exp.Add) and left.type == right.type == "string":
        hint = "join strings with ||"
    raise t.error(f"cannot {VERBS[type(node)]} {left.type} and {right.type}", node, hint)


def _result_type(node: exp.Expr, left: Value, right: Value) -> str:
    """Spark's type of an arithmetic result (ANSI: float beside another number is double)."""
    kinds = {left.type, right.type} - {NULL} or {"int"}
    if "double" in kinds or ("float" in kinds and (len(kinds) > 1 or isinstance(node, exp.Div))):
        return "double"
    if kinds == {"float"}:
        return "float"
    if kinds <= set(INTEGERS):
        return "double" if isinstance(node, exp.Div) else max(kinds, key=INTEGERS.index)
    return decimal_result(node, left, right)
