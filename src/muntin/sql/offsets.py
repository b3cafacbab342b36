"""Constant offsets of times: INTERVAL, TIMESTAMPADD and MAKE_DT_INTERVAL in microseconds."""

from __future__ import annotations

import re

from sqlglot import exp

from muntin.model import UsageError
from muntin.sql.duration import parse_duration_us, parse_interval_us
from muntin.sql.places import SqlText

_IN_QUOTES = re.compile(r"interval\s*'([^']*)'", re.IGNORECASE)
_PARTS = ("day", "hour", "minute", "second")


def offset_us(text: SqlText, node: exp.Expr) -> int | None:
    """The constant that an INTERVAL, TIMESTAMPADD or MAKE_DT_INTERVAL brings; None for what brings none."""
    try:
        if isinstance(node, exp.Interval):
            return interval_us(text, node)
        if moves(node):
            unit, amount = node.expressions[0].name, _number(node.expressions[1])
            return parse_interval_us(amount, [unit]) if amount is not None else None
        if isinstance(node, exp.Anonymous) and node.name.lower() == "make_dt_interval":
            numbers = [_number(part) for part in node.expressions]
            if None in numbers or len(numbers) > len(_PARTS):
                return None
            return sum(parse_duration_us(f"{n} {part}") for n, part in zip(numbers, _PARTS, strict=False))
    except UsageError as error:
        raise text.error(error.message, node, error.hint or "write INTERVAL 5 SECONDS") from error
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


def moves(node: exp.Expr) -> bool:
    """Whether it is TIMESTAMPADD with a unit, a number and a time, by any of its names."""
    named = isinstance(node, exp.Anonymous) and node.name.lower() == "timestampadd"
    return named and len(node.expressions) == 3


def _number(node: exp.Expr) -> str | None:
    """A number with its sign, as text."""
    sign, node = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    return sign + node.name if isinstance(node, exp.Literal) and not node.is_string else None
