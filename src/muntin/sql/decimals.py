"""Arithmetic between decimals: Spark's types, and Spark's digits in them.

Spark computes exactly and rounds once, half up, to the result's scale. DuckDB does so in 128 bits, enough where
Spark's result type holds every digit there can be; it multiplies in 64 bits unless an operand is wider, it divides in
doubles, and what needs more than 38 digits on the way is an overflow. Then the evaluator's own functions do it.
"""

from __future__ import annotations

from sqlglot import exp

from muntin.kernels.functions import exact_name
from muntin.model.types import MAX_PRECISION, decimal_parts
from muntin.sql.translate import NULL, Value, coerce, decimal_parts_of, duckdb_type_node, fill, wrap

Size = tuple[int, int]
"""Precision and scale."""

_MACHINE_DIGITS = 18
"""Digits that DuckDB keeps in 64 bits."""

_OPERATIONS: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "remainder",
}


def decimal_result(node: exp.Expr, left: Value, right: Value) -> str:
    """The type of an arithmetic result."""
    precision, scale = _unbounded(node, _size(left), _size(right))
    if precision > MAX_PRECISION:  # Spark keeps the whole digits and at least six of the fraction
        scale = max(MAX_PRECISION - (precision - scale), min(scale, 6))
        precision = MAX_PRECISION
    return f"decimal({precision},{scale})"


def decimal_arithmetic(node: exp.Expr, left: Value, right: Value, kind: str) -> exp.Expr:
    """DuckDB's expression for it."""
    sizes = _size(left), _size(right)
    a, b = (coerce(v, _name(size)) for v, size in zip((left, right), sizes, strict=True))
    if isinstance(node, exp.Div) or _digits_needed(node, *sizes) > MAX_PRECISION:
        parts = decimal_parts(kind)
        assert parts is not None
        name = exact_name(_OPERATIONS[type(node)], (sizes[0][1], sizes[1][1]), *parts)
        return exp.Anonymous(this=name, expressions=[a, b])
    if isinstance(node, exp.Mul) and max(p for p, _ in sizes) <= _MACHINE_DIGITS:
        a = exp.Cast(this=a, to=duckdb_type_node(_name((_MACHINE_DIGITS + 1, sizes[0][1]))))
    elif isinstance(node, exp.Add | exp.Sub):
        a, b = (exp.Cast(this=operand, to=duckdb_type_node(kind)) for operand in (a, b))
    built = type(node)(this=wrap(a), expression=fill("nullif(b, 0)", b=b) if isinstance(node, exp.Mod) else wrap(b))
    return exp.Cast(this=built, to=duckdb_type_node(kind))


def _digits_needed(node: exp.Expr, left: Size, right: Size) -> int:
    """The digits of the widest number on the way to the result."""
    (p1, s1), (p2, s2) = left, right
    if isinstance(node, exp.Mod):
        return max(p1 - s1, p2 - s2) + max(s1, s2)
    return _unbounded(node, left, right)[0]


def _unbounded(node: exp.Expr, left: Size, right: Size) -> Size:
    """The size that holds every result, were there no limit."""
    (p1, s1), (p2, s2) = left, right
    if isinstance(node, exp.Mul):
        return p1 + p2 + 1, s1 + s2
    if isinstance(node, exp.Div):
        scale = max(6, s1 + p2 + 1)
        return p1 - s1 + s2 + scale, scale
    scale = max(s1, s2)
    if isinstance(node, exp.Mod):
        return min(p1 - s1, p2 - s2) + scale, scale
    return max(p1 - s1, p2 - s2) + scale + 1, scale


def _size(value: Value) -> Size:
    return decimal_parts_of(value) if value.type != NULL else (1, 0)


def _name(size: Size) -> str:
    return "decimal({},{})".format(*size)
