"""Comparisons of the two event times with constant offsets: they are windows (docs/semantics.md, section 2).

Each end of such a comparison is a sum: event times, taken once or the other way round, and a constant. Whatever the
spelling, `this - other` is then `right.ts - left.ts` plus a constant, or its opposite, against 0. The same holds for
the whole numbers that event times are made of (`TIMESTAMP BY timestamp_millis(t)`), where constants are numbers, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from muntin.model import Side
from muntin.sql.event_times import EventTimes
from muntin.sql.offsets import moves, offset_us
from muntin.sql.places import SqlText

MAX_DEPTH = 100
"""How deep a sum may nest; what is deeper is no sum of times."""

_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ,
}  # fmt: skip
_NOT: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE, exp.GT: exp.LTE, exp.LTE: exp.GT, exp.GTE: exp.LT, exp.NEQ: exp.EQ,
}  # fmt: skip


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

    def __init__(self, text: SqlText, times: EventTimes):
        self.text = text
        self.times = times

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
        for unit_us in self.times.units_us:
            one, other = self._sum(node.this, unit_us), self._sum(node.expression, unit_us)
            if one is not None and other is not None and one.is_time == other.is_time:
                return self._compared(one, other, kind)
        return None

    @staticmethod
    def _compared(one: _Sum, other: _Sum, kind: type[exp.Expr]) -> Bounds | None:
        total = one.plus(other, -1)  # total.us + right.ts - left.ts, or the opposite, is compared with 0
        if (total.left, total.right) == (1, -1):
            total, kind = _Sum(-1, 1, -total.us), _MIRRORED[kind]
        if (total.left, total.right) != (-1, 1):
            return None
        at = -total.us
        low = at + (kind is exp.GT) if kind in (exp.GT, exp.GTE, exp.EQ) else None
        return Bounds(low, at - (kind is exp.LT) if kind in (exp.LT, exp.LTE, exp.EQ) else None)

    def _sum(self, node: exp.Expr, unit_us: int | None, depth: int = 0) -> _Sum | None:
        """An expression as a sum of event times and constants, or of numbers that count `unit_us` microseconds; None
        where it is none."""
        if depth > MAX_DEPTH:
            return None
        if isinstance(node, exp.Paren):
            return self._sum(node.this, unit_us, depth + 1)
        side = self._side(node, unit_us)
        if side is not None:
            return _Sum(side is Side.LEFT, side is Side.RIGHT, 0)
        if isinstance(node, exp.Neg):
            inner = self._sum(node.this, unit_us, depth + 1)
            return _Sum(0, 0, 0).plus(inner, -1) if inner is not None and inner.is_interval else None
        if isinstance(node, exp.Add | exp.Sub):
            one, other = (self._sum(end, unit_us, depth + 1) for end in (node.this, node.expression))
            if one is None or other is None:
                return None
            total = one.plus(other, 1 if isinstance(node, exp.Add) else -1)
            return total if total.is_time or total.is_interval else None
        if unit_us is not None:
            return _Sum(0, 0, int(node.name) * unit_us) if node.is_int else None
        us = offset_us(self.text, node)
        if us is None:
            return None
        base = self._sum(node.expressions[2], unit_us, depth + 1) if moves(node) else _Sum(0, 0, 0)
        return base.plus(_Sum(0, 0, us), 1) if base is not None else None

    def _side(self, node: exp.Expr, unit_us: int | None) -> Side | None:
        """The side whose event time this is, or the number that it is made of."""
        if unit_us is None:
            return self.times.side_of(node)
        found = self.times.counted(node) if isinstance(node, exp.Column) else None
        return found[0] if found is not None and found[1] == unit_us else None
