"""Durations: `5 s`, `1 min`, `250 milliseconds`, `1.5 hours`, `INTERVAL '5' SECOND`, `'5 seconds'`.

And what stands after INTERVAL: `'1 day 2 hours'`, `'0 00:10:00' DAY TO SECOND`.
"""

from __future__ import annotations

import re
from decimal import Decimal, localcontext

from muntin.model import UsageError

_UNITS_US = {
    ("us", "usec", "usecs", "microsecond", "microseconds"): 1,
    ("ms", "msec", "msecs", "millisecond", "milliseconds"): 1_000,
    ("s", "sec", "secs", "second", "seconds"): 1_000_000,
    ("m", "min", "mins", "minute", "minutes"): 60_000_000,
    ("h", "hr", "hrs", "hour", "hours"): 3_600_000_000,
    ("d", "day", "days"): 86_400_000_000,
    ("w", "week", "weeks"): 604_800_000_000,
}
UNIT_US = {name: us for names, us in _UNITS_US.items() for name in names}
"""Microseconds in each unit, by all of its names."""

LIMIT_US = 36_525 * UNIT_US["day"]
"""The longest duration, a century: times and windows can be added without leaving int64."""

_NO_LENGTH = re.compile(r"(month|quarter|year)s?", re.IGNORECASE)
_CLOCK = ("day", "hour", "minute", "second")

DURATION_HINT = "write a number and a unit from microseconds to weeks, such as 5 s, 1 min or 12 HOURS"

_FORM = re.compile(
    r"(?:interval\s+)?(?P<q>'?)\s*(?P<number>[+-]?\s*(?:\d+\.?\d*|\.\d+))\s*(?P<q2>'?)\s*(?P<unit>[a-z]+)\s*'?",
    re.IGNORECASE,
)


def parse_duration_us(text: str) -> int:
    """Microseconds of a duration; raises UsageError where it is none, not whole microseconds, or past a century."""
    found = _FORM.fullmatch(text.strip())
    if found is None or text.count("'") not in (0, 2):
        raise UsageError(f"{text.strip()!r} is not a duration", hint=DURATION_HINT)
    unit_us = UNIT_US.get(found["unit"].lower())
    if _NO_LENGTH.fullmatch(found["unit"]):
        hint = "write days or weeks, such as 30 days"
        raise UsageError(f"a {found['unit'].rstrip('sS')} is not always equally long", hint=hint)
    if unit_us is None:
        raise UsageError(f"{found['unit']} is not a unit of time", hint=DURATION_HINT)
    with localcontext() as context:
        context.prec = 100
        amount_us = Decimal(re.sub(r"\s", "", found["number"])) * unit_us
        if abs(amount_us) > LIMIT_US:
            raise UsageError(f"{text.strip()} is too long", hint="the longest duration is 36525 days (a century)")
        if amount_us != int(amount_us):
            raise UsageError(f"{text.strip()} is not a whole number of microseconds", hint="use a smaller unit")
    return int(amount_us)


def parse_interval_us(amount: str, units: list[str]) -> int:
    """Microseconds of an amount after INTERVAL: of one unit, from one unit to another, or with the units inside."""
    if len(units) == 1:
        return parse_duration_us(f"{amount} {units[0]}")
    if not units:
        parts = re.findall(r"[+-]?\s*[\d.]+\s*[a-z]+", amount, re.IGNORECASE) or [amount]
        if re.sub(r"\s", "", "".join(parts)) != re.sub(r"\s", "", amount):
            raise UsageError(f"{amount!r} is not a duration", hint=DURATION_HINT)
        return sum(map(parse_duration_us, parts))
    first, last = (_CLOCK.index(unit.lower()) if unit.lower() in _CLOCK else -1 for unit in units)
    sign, numbers = -1 if amount.strip().startswith("-") else 1, re.split(r"[ :]+", amount.strip().lstrip("+-"))
    if not 0 <= first < last or len(numbers) != last - first + 1:
        raise UsageError(f"{amount!r} is not an interval from {units[0]} to {units[1]}", hint=DURATION_HINT)
    return sign * sum(parse_duration_us(f"{n} {unit}") for n, unit in zip(numbers, _CLOCK[first:], strict=False))
