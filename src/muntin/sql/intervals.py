"""Intervals: differences of timestamps, literals, and times that are moved by them.

In DuckDB's expressions an interval is a BIGINT of microseconds, so that it compares and adds as in Spark; outside it is
Arrow's duration.
"""

from __future__ import annotations

from sqlglot import exp

from muntin.model import UsageError
from muntin.model.types import INTEGERS, INTERVAL
from muntin.sql.offsets import interval_us
from muntin.sql.translate import NULL, TIMES, Translator, Value, attempt, duckdb_type_node, fill, rule

VERBS: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "divide",
    exp.IntDiv: "divide",
}
_HINT = "write INTERVAL 5 SECONDS, with a unit from microseconds to weeks"


@rule(exp.Interval, args="this unit")
def interval(t: Translator, node: exp.Expr) -> Value:
    assert isinstance(node, exp.Interval)
    try:
        us = interval_us(t.text, node)
    except UsageError as error:
        raise t.error(error.message, node, _HINT) from error
    if us is None:
        hint = "write a constant: INTERVAL 5 SECONDS; only constant offsets between event times make a window"
        raise t.text.refuse("an INTERVAL that is not constant", node, hint)
    number: exp.Expr = exp.Literal.number(abs(us))
    whole = exp.Neg(this=number) if us < 0 else number
    return t.made(node, exp.Cast(this=whole, to=duckdb_type_node("bigint")), INTERVAL)


def time_arithmetic(t: Translator, node: exp.Expr, left: Value, right: Value) -> Value:
    """Arithmetic with a time or an interval on one side at least."""
    kinds = (left.type, right.type)
    if isinstance(node, exp.Add) and (right.type in TIMES or kinds[0] in INTEGERS):
        left, right = right, left
    if isinstance(node, exp.Add | exp.Sub):
        moved = _sum(t, node, left, right)
        if moved is not None:
            return moved
    if isinstance(node, exp.Mul | exp.Div):
        scaled = _scaled(
            t, node, *((right, left) if isinstance(node, exp.Mul) and right.type == INTERVAL else (left, right))
        )
        if scaled is not None:
            return scaled
    hint = "times can be moved by an INTERVAL: ts + INTERVAL 5 SECONDS, and subtracted from each other"
    raise t.error(f"cannot {VERBS[type(node)]} {kinds[0]} and {kinds[1]}", node, hint)


def _sum(t: Translator, node: exp.Expr, left: Value, right: Value) -> Value | None:
    sign = "+" if isinstance(node, exp.Add) else "-"
    kinds = (left.type, right.type)
    if left.type in TIMES and right.type in TIMES and sign == "-":
        plain = (exp.Cast(this=v.node, to=duckdb_type_node("timestamp_ntz")) for v in (left, right))
        a, b = plain
        return t.made(node, fill("epoch_us(a) - epoch_us(b)", a=a, b=b), INTERVAL)
    if kinds == ("date", INTERVAL):
        left = Value(exp.Cast(this=left.node, to=duckdb_type_node("timestamp")), "timestamp", left.span)
    if left.type in ("timestamp", "timestamp_ntz") and right.type in (INTERVAL, NULL):
        return t.made(node, attempt(fill(f"a {sign} to_microseconds(b)", a=left.node, b=right.node)), left.type)
    if left.type == "date" and right.type in (*INTEGERS, NULL) and right.type != "bigint":
        return t.made(node, attempt(fill(f"a {sign} CAST(b AS INTEGER)", a=left.node, b=right.node)), "date")
    if set(kinds) <= {INTERVAL, NULL}:
        return t.made(node, attempt(fill(f"a {sign} b", a=left.node, b=right.node)), INTERVAL)
    return None


def _scaled(t: Translator, node: exp.Expr, left: Value, right: Value) -> Value | None:
    """An interval by an integer: a quotient is rounded half away from zero."""
    if left.type != INTERVAL or right.type not in INTEGERS:
        return None
    a, b = (exp.Cast(this=v.node, to=duckdb_type_node("HUGEINT")) for v in (left, right))
    if isinstance(node, exp.Mul):
        return t.made(node, exp.TryCast(this=fill("a * b", a=a, b=b), to=duckdb_type_node("bigint")), INTERVAL)
    size = "(2 * abs(a) + abs(b)) // nullif(2 * abs(b), 0)"
    signed = fill(f"CASE WHEN (a < 0) = (b < 0) THEN {size} ELSE -({size}) END", a=a, b=b)
    return t.made(node, exp.TryCast(this=signed, to=duckdb_type_node("bigint")), INTERVAL)
