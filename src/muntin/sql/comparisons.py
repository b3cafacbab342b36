"""Conditions that are nothing but a column against constants, which an index over the column can answer.

Only what comes to exactly the evaluator's answer for every value, NULL and NaN included. NULL satisfies no comparison,
negated or not, so NOT turns the operator around; NaN is greater than every number, so that holds for NaN too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from muntin.model import Comparison, Op
from muntin.model.types import INTEGERS
from muntin.sql.translate import Scope

_OPS: dict[type[exp.Expr], Op] = {
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
    exp.EQ: Op.IN,
    exp.NEQ: Op.NOT_IN,
}
_NOT = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT, Op.IN: Op.NOT_IN, Op.NOT_IN: Op.IN}
_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE, Op.IN: Op.IN, Op.NOT_IN: Op.NOT_IN}

_BITS = dict(zip(INTEGERS, (8, 16, 32, 64), strict=True))
_EXACT = 1 << 53
_EXACT_SCALE = 22
"""A decimal below 2^53 when its point is left out, with at most 22 digits after it, has one double by any method."""


@dataclass(frozen=True)
class _Term:
    """An operator between what may be a column and what may be constants."""

    column: exp.Expr
    op: Op
    constants: tuple[exp.Expr, ...]


def comparisons(scope: Scope, condition: exp.Expr) -> tuple[Comparison, ...]:
    """The comparisons that together say what a condition says; () where it is of another form."""
    negated = False
    node = condition.unnest()
    while isinstance(node, exp.Not):
        negated = not negated
        node = node.this.unnest()
    terms = _terms(node)
    if negated:  # of two terms, one would have to fail: no conjunction
        terms = [_Term(t.column, _NOT[t.op], t.constants) for t in terms] if len(terms) == 1 else []
    found = [_comparison(scope, term) for term in terms]
    return tuple(c for c in found if c is not None) if None not in found else ()


def _terms(node: exp.Expr) -> list[_Term]:
    if isinstance(node, exp.Between):
        return [_Term(node.this, Op.GE, (node.args["low"],)), _Term(node.this, Op.LE, (node.args["high"],))]
    if isinstance(node, exp.In):
        return [_Term(node.this, Op.IN, tuple(node.expressions))]
    op = _OPS.get(type(node))
    if op is None:
        return []
    if isinstance(node.this.unnest(), exp.Column):
        return [_Term(node.this, op, (node.expression,))]
    return [_Term(node.expression, _MIRRORED[op], (node.this,))]


def _comparison(scope: Scope, term: _Term) -> Comparison | None:
    column = term.column.unnest()
    if not isinstance(column, exp.Column):
        return None
    _, field = scope.resolve(column)
    constants = [c.unnest() for c in term.constants]
    known = [c for c in constants if not isinstance(c, exp.Null)]
    if not known or (len(known) < len(constants) and term.op is not Op.IN):
        return None
    if field.type == "string" and term.op not in (Op.IN, Op.NOT_IN):
        return None
    values = [_constant(c, field.type) for c in known]
    if None in values:
        return None
    return Comparison(field.name, term.op, tuple(dict.fromkeys(v for v in values if v is not None)))


def _constant(node: exp.Expr, kind: str) -> int | float | str | None:
    """A literal as a value of a column's type; None where it is no literal, or where the types meet in a third one."""
    if kind == "string":
        text = isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string)
        return node.name if text else None
    number = _number(node)
    if number is None:
        return None
    if kind in _BITS:
        return _integer(number, _BITS[kind])
    return _double(number) if kind in ("float", "double") else None


def _number(node: exp.Expr) -> str | None:
    """The text of a number literal, with its sign."""
    sign, plain = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    return sign + plain.name if isinstance(plain, exp.Literal) and not plain.is_string else None


def _integer(text: str, bits: int) -> int | None:
    value = int(text) if re.fullmatch(r"-?\d+", text) else None
    return value if value is not None and -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _double(text: str) -> float | None:
    """The double that a number literal is compared as; a zero has no sign."""
    if "e" in text.lower():
        return float(text) + 0.0
    digits, _, fraction = text.partition(".")
    exact = abs(int(digits + fraction)) < _EXACT and len(fraction) <= _EXACT_SCALE
    whole = "." not in text and _integer(text, 64) is not None
    return float(text) + 0.0 if exact or whole else None
