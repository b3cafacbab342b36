"""Conditions that say how far two values, one of each stream, may be apart: rows in order of their values answer them.

    A.x < B.y                              B.y - A.x  in  [0, ...)
    ABS(A.x - B.x) <= 5                    B.x - A.x  in  [-5, 5]
    A.x BETWEEN B.y - 1 AND B.y + 2        B.y - A.x  in  [-2, 1]

What is found here only narrows where partners are looked for. The whole condition is evaluated on each pair that is
found, so a range may be too wide, and never too narrow. Hence what is left aside: `<` and `<=` are the same, and sums
of decimals that lose digits are not taken apart.

NaN is greater than every number, also where it is a difference: `A.x - B.x > 5` holds where one of the two is NaN,
wherever the other one lies. Such a condition over floating point says nothing, unless another one has an upper end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

from sqlglot import exp

from muntin.model import Side, SqlError, ValueRange, is_numeric
from muntin.model.types import MAX_PRECISION, decimal_parts
from muntin.sql.expressions import Expressions
from muntin.sql.offsets import offset_us
from muntin.sql.places import SqlText
from muntin.sql.sources import Names
from muntin.sql.translate import TIMES

MAX_DEPTH = 100
"""How many constants are taken off a sum."""
SINGLE, DOUBLE = 2.0**-20, 2.0**-48
"""The part of a value by which single and double precision may be off, after several roundings."""
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip
_NOT: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GTE, exp.GT: exp.LTE, exp.LTE: exp.GT, exp.GTE: exp.LT}


@dataclass(frozen=True)
class _OffsetValue:
    """An expression of one stream and a constant that is added to it; `size` is that of all constants in it."""

    side: Side
    base: exp.Expr
    constant: float
    size: float


@dataclass(frozen=True)
class _Difference:
    """`right - left + constant`, or the opposite of that where it was written the other way round."""

    values: ValueRange
    constant: float
    turned: bool
    size: float

    def plus(self, constant: float) -> _Difference:
        moved = self.constant + (-constant if self.turned else constant)
        return replace(self, constant=moved, size=self.size + abs(constant))


@dataclass(frozen=True)
class _Found:
    """A range, and whether it holds of pairs with NaN because NaN is great, or rules them out."""

    range: ValueRange
    admits_nan: bool = False
    excludes_nan: bool = False


class ValueRanges:
    """Reads the conditions of one query."""

    def __init__(self, text: SqlText, names: Names, expressions: Expressions):
        self.text = text
        self.names = names
        self.expressions = expressions

    def read(self, conditions: list[exp.Expr]) -> tuple[ValueRange, ...]:
        """What conditions that all hold say of two values: one range for each two that they compare."""
        found: dict[tuple[str, str], list[_Found]] = {}
        for condition in conditions:
            for node in _comparisons(condition.unnest()) if self._has_room(condition.unnest()) else ():
                if (one := self._range(node)) is not None:
                    found.setdefault(one.range.axis, []).append(one)
        narrowed = [_narrowed(alike) for alike in found.values()]
        return tuple(r for r in narrowed if r is not None)

    def _range(self, node: exp.Expr) -> _Found | None:
        kind = type(node)
        if kind not in _FLIPPED:
            return None
        this, other = node.this.unnest(), node.expression.unnest()
        if not self.names.used(this):
            this, other, kind = other, this, _FLIPPED[kind]
        if self.names.used(other):
            return self._compared(this, other, kind)
        constant = self._constant(other)
        return self._difference(this, kind, constant) if constant is not None else None

    def _compared(self, this: exp.Expr, other: exp.Expr, kind: type[exp.Expr]) -> _Found | None:
        """A sum of one stream against a sum of the other."""
        one, two = self._sum(this), self._sum(other)
        if one is None or two is None or one.side is two.side:
            return None
        if one.side is Side.LEFT:
            one, two, kind = two, one, _FLIPPED[kind]
        made = self._made(one, two)
        if made is None:
            return None
        return _Found(_bounded(made, kind, two.constant - one.constant, one.size + two.size))

    def _difference(self, node: exp.Expr, kind: type[exp.Expr], limit: float) -> _Found | None:
        """A difference of the two streams, or its size, against a constant."""
        is_size = isinstance(node, exp.Anonymous) and node.name.lower() == "abs" and len(node.expressions) == 1
        found = self._apart(node.expressions[0].unnest() if is_size else node)
        if found is None:
            return None
        values, shift, size = found.values, found.constant, found.size + abs(limit)
        if is_size:
            if kind not in (exp.LT, exp.LTE, exp.EQ):
                return None
            above = _bounded(values, exp.GTE, -limit - shift, size)
            return _Found(replace(_bounded(values, exp.LTE, limit - shift, size), low=above.low), excludes_nan=True)
        low_only = kind in (exp.GT, exp.GTE)
        floats = any(value.type in ("float", "double") for value in (values.left, values.right))
        if found.turned:
            limit, kind = -limit, _FLIPPED[kind]
        return _Found(_bounded(values, kind, limit - shift, size), low_only and floats, not low_only)

    def _apart(self, node: exp.Expr) -> _Difference | None:
        """What is the difference of two values, one of each stream, and constants."""
        if not isinstance(node, exp.Add | exp.Sub) or not self._keeps_digits(node):
            return None
        if (constant := self._constant(node.expression.unnest())) is not None:
            found = self._apart(node.this.unnest())
            return found and found.plus(constant if isinstance(node, exp.Add) else -constant)
        if isinstance(node, exp.Add):
            return None
        one, two = self._sum(node.this.unnest()), self._sum(node.expression.unnest())
        if one is None or two is None or one.side is two.side:
            return None
        turned = one.side is Side.LEFT
        if turned:
            one, two = two, one
        made = self._made(one, two)
        if made is None:
            return None
        return _Difference(made, one.constant - two.constant, turned, one.size + two.size)

    def _made(self, right: _OffsetValue, left: _OffsetValue) -> ValueRange | None:
        """The range of two values, without ends; None where they are of no types that have differences."""
        values = [self.expressions.expression(part.base) for part in (left, right)]
        kinds = [value.type for value in values]
        numbers = all(is_numeric(kind) for kind in kinds)
        if not numbers and (kinds[0] != kinds[1] or kinds[0] not in TIMES):
            return None
        return ValueRange(values[0], values[1], None, None, SINGLE if "float" in kinds else DOUBLE)

    def _sum(self, node: exp.Expr) -> _OffsetValue | None:
        """An expression of one stream, with the constants that are added to it taken off."""
        used = self.names.used(node)
        if len(used) != 1:
            return None
        total, size = 0.0, 0.0
        for _ in range(MAX_DEPTH):
            node = node.unnest()
            if not isinstance(node, exp.Add | exp.Sub) or not self._keeps_digits(node):
                break
            if (constant := self._constant(node.expression.unnest())) is not None:
                total += constant if isinstance(node, exp.Add) else -constant
                node = node.this
            elif isinstance(node, exp.Add) and (constant := self._constant(node.this.unnest())) is not None:
                total += constant
                node = node.expression
            else:
                break
            size += abs(constant)
        return _OffsetValue(next(iter(used)), node, total, size)

    def _keeps_digits(self, node: exp.Expr) -> bool:
        """Whether a sum is what its parts say: times move by intervals, and no digits of a decimal are cut off."""
        kinds = [self._type(end) for end in (node.this, node.expression, node)]
        if None in kinds or (any(kind in TIMES for kind in kinds[:2]) and any(is_numeric(str(k)) for k in kinds)):
            return False
        decimal = decimal_parts(str(kinds[2]))
        return decimal is None or decimal[0] < MAX_PRECISION

    def _has_room(self, node: exp.Expr) -> bool:
        """Whether the type in which the parts of a comparison meet has all their digits."""
        ends = [node.args[arg] for arg in ("this", "expression", "low", "high") if node.args.get(arg) is not None]
        kinds = [str(self._type(end)) for end in ends]
        if any(kind in ("float", "double") for kind in kinds):
            return True
        sizes = [size for kind in kinds if (size := decimal_parts(kind)) is not None]
        whole = max([20, *(precision - scale for precision, scale in sizes)])
        return not sizes or whole + max(scale for _, scale in sizes) <= MAX_PRECISION

    def _type(self, node: exp.Expr) -> str | None:
        try:
            return self.expressions.type_of(node)
        except SqlError:
            return None

    def _constant(self, node: exp.Expr) -> float | None:
        """A number or an interval, in microseconds."""
        sign, plain = (-1.0, node.this.unnest()) if isinstance(node, exp.Neg) else (1.0, node)
        if isinstance(plain, exp.Literal) and not plain.is_string:
            number = float(plain.name)
            return sign * number if isfinite(number) else None
        try:
            us = offset_us(self.text, plain) if isinstance(plain, exp.Interval) else None
        except SqlError:  # months are no constant
            return None
        return None if us is None else sign * us


def _comparisons(node: exp.Expr) -> Iterator[exp.Expr]:
    """The comparisons that a condition is made of."""
    if isinstance(node, exp.Not):
        inner = node.this.unnest()
        if type(inner) in _NOT:
            yield _NOT[type(inner)](this=inner.this.copy(), expression=inner.expression.copy())
    elif isinstance(node, exp.Between) and not node.args.get("symmetric"):
        yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    else:
        yield node


def _bounded(values: ValueRange, kind: type[exp.Expr], limit: float, size: float) -> ValueRange:
    """`right - left` against a limit, as far off as sums of constants of that size may be."""
    off = size * values.rounding
    low = limit - off if kind in (exp.GT, exp.GTE, exp.EQ) else None
    return replace(values, low=low, high=limit + off if kind in (exp.LT, exp.LTE, exp.EQ) else None)


def _narrowed(alike: list[_Found]) -> ValueRange | None:
    """What several ranges of the same two values say together; None where nothing is left."""
    nan = not any(one.excludes_nan for one in alike)
    sound = [one.range for one in alike if not (nan and one.admits_nan)]
    if not sound:
        return None
    lows = [r.low for r in sound if r.low is not None]
    highs = [r.high for r in sound if r.high is not None]
    return replace(sound[0], low=max(lows, default=None), high=min(highs, default=None))
