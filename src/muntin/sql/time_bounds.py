"""Comparisons of the two event times with constant offsets: they are windows (docs/semantics.md, section 2).

Each end of such a comparison is a sum: event times, taken once or the other way round, and a constant. Whatever the
spelling, `this - other` is then `right.ts - left.ts` plus a constant, or its opposite, against 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from muntin.model import Side, UsageError
from muntin.sql.duration import parse_duration_us, parse_interval_us
from muntin.sql.places import SqlText
from muntin.sql.sources import Names

MAX_DEPTH = 100
"""How deep a sum may nest; what is deeper is no sum of times."""

_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip
_NOT: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE, exp.GT: exp.LTE, exp.LTE: exp.GT, exp.GTE: exp.LT, exp.NEQ: exp.EQ,
}  # fmt: skip
_IN_QUOTES = re.compile(r"interval\s*'([^']*)'", re.IGNORECASE)
_PARTS = ("day", "hour", "minute", "second")


@dataclass(frozen=True)
class Bounds:
    """The differences `right.ts - left.ts` that are allowed, both ends included; None where there is no end."""

    low: int | None = None
    high: int | None = None

    def __and__(self, other: Bounds) -> Bounds:
        lows = [b.low for b in (self, other) if b.low is not None]
        highs = [b.high for b in (self, other) if b.high is not None]
        return Bounds(max(lows, default=None), min(highs, default=None))

    @property
    def is_empty(self) -> bool:
        return self.low is not None and self.high is not None and self.low > self.high


@dataclass(frozen=True)
class _Sum:
    """`left` times the left event time, `right` times the right one, and a constant: a time, or else an interval."""

    left: int
    right: int
    us: int

    @property
    def is_time(self) -> bool:
        return self.left + self.right == 1

    @property
    def is_interval(self) -> bool:
        return self.left + self.right == 0

    def plus(self, other: _Sum, sign: int) -> _Sum:
        return _Sum(self.left + sign * other.left, self.right + sign * other.right, self.us + sign * other.us)


class TimeBounds:
    """Reads conditions of one query."""

    def __init__(self, text: SqlText, names: Names):
        self.text = text
        self.names = names

    def split(self, condition: exp.Expr) -> tuple[Bounds | None, list[exp.Expr]]:
        """What a condition says of the event times, None where nothing, and what is left of it."""
        node = condition.unnest()
        if not isinstance(node, exp.Between) or node.args.get("symmetric"):
            found = self._bounds(node)
            return found, [] if found is not None else [condition]
        this, low, high = (node.args[arg].copy() for arg in ("this", "low", "high"))
        ends: list[exp.Expr] = [exp.GTE(this=this, expression=low), exp.LTE(this=this.copy(), expression=high)]
        for end in ends:
            end.meta.update(condition.meta)
        parts = [self._bounds(end) for end in ends]
        if parts == [None, None]:
            return None, [condition]
        whole = (parts[0] or Bounds()) & (parts[1] or Bounds())
        return whole, [end for end, part in zip(ends, parts, strict=True) if part is None]

    def _bounds(self, node: exp.Expr) -> Bounds | None:
        kind = type(node)
        if isinstance(node, exp.Not):
            node = node.this.unnest()
            if type(node) not in _NOT:
                return None
            kind = _NOT[type(node)]
        if kind not in _MIRRORED:
            return None
        one, other = self._sum(node.this), self._sum(node.expression)
        if one is None or other is None or one.is_time != other.is_time:
            return None
        total = one.plus(other, -1)  # total.us + right.ts - left.ts, or the opposite, is compared with 0
        if (total.left, total.right) == (1, -1):
            total, kind = _Sum(-1, 1, -total.us), _MIRRORED[kind]
        if (total.left, total.right) != (-1, 1):
            return None
        at = -total.us
        low = at + (kind is exp.GT) if kind in (exp.GT, exp.GTE, exp.EQ) else None
        return Bounds(low, at - (kind is exp.LT) if kind in (exp.LT, exp.LTE, exp.EQ) else None)

    def _sum(self, node: exp.Expr, depth: int = 0) -> _Sum | None:
        """An expression as a sum of event times and constants; None where it is none."""
        if depth > MAX_DEPTH:
            return None
        if isinstance(node, exp.Paren):
            return self._sum(node.this, depth + 1)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            side, field = self.names.resolve(node)
            is_time = field.name == self.names.sides[side].stream.time
            return _Sum(side is Side.LEFT, side is Side.RIGHT, 0) if is_time else None
        if isinstance(node, exp.Neg):
            inner = self._sum(node.this, depth + 1)
            return _Sum(0, 0, 0).plus(inner, -1) if inner is not None and inner.is_interval else None
        if isinstance(node, exp.Add | exp.Sub):
            one, other = self._sum(node.this, depth + 1), self._sum(node.expression, depth + 1)
            if one is None or other is None:
                return None
            total = one.plus(other, 1 if isinstance(node, exp.Add) else -1)
            return total if total.is_time or total.is_interval else None
        us = self._constant_us(node)
        if us is None:
            return None
        base = self._sum(node.expressions[2], depth + 1) if _moves(node) else _Sum(0, 0, 0)
        return base.plus(_Sum(0, 0, us), 1) if base is not None else None

    def _constant_us(self, node: exp.Expr) -> int | None:
        """The constant that an INTERVAL, TIMESTAMPADD or MAKE_DT_INTERVAL brings; None for what brings none."""
        try:
            if isinstance(node, exp.Interval):
                return interval_us(self.text, node)
            if _moves(node):
                unit, amount = node.expressions[0].name, _number(node.expressions[1])
                return parse_interval_us(amount, [unit]) if amount is not None else None
            if isinstance(node, exp.Anonymous) and node.name.lower() == "make_dt_interval":
                numbers = [_number(part) for part in node.expressions]
                if None in numbers or len(numbers) > len(_PARTS):
                    return None
                return sum(parse_duration_us(f"{n} {part}") for n, part in zip(numbers, _PARTS, strict=False))
        except UsageError as error:
            raise self.text.error(error.message, node, error.hint or "write INTERVAL 5 SECONDS") from error
        return None


def interval_us(text: SqlText, node: exp.Interval) -> int | None:
    """Microseconds of an INTERVAL; None where it is no constant. Raises UsageError where it is no duration."""
    whole = _IN_QUOTES.fullmatch(text.slice(node))  # sqlglot leaves out what it does not understand there
    if whole is not None:
        return parse_interval_us(whole[1], [])
    unit, amount = node.args.get("unit"), node.this.unnest()
    number = amount.name if isinstance(amount, exp.Literal) else _number(amount)
    if number is None:
        return None
    units = [part.name for part in (unit.this, unit.expression)] if isinstance(unit, exp.IntervalSpan) else []
    return parse_interval_us(number, units or ([unit.name] if unit is not None else []))


def _moves(node: exp.Expr) -> bool:
    """Whether it is TIMESTAMPADD or DATEADD with a unit, a number and a time."""
    named = isinstance(node, exp.Anonymous) and node.name.lower() in ("timestampadd", "dateadd")
    return named and len(node.expressions) == 3


def _number(node: exp.Expr) -> str | None:
    """A number with its sign, as text."""
    sign, node = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    return sign + node.name if isinstance(node, exp.Literal) and not node.is_string else None
