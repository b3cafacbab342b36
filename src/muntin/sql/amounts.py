"""Amounts other than durations: numbers of rows (`100 ROWS`), rates (`100 PER SECOND`), sizes in bytes (`'8 GB'`)."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext

from muntin.model import UsageError

ROWS_HINT = "write a whole number from 1 on, such as 100 ROWS"
LIMIT_ROWS = 10**12
"""The largest number of rows: a row's place and a window can be added without leaving int64."""

_ROWS = re.compile(r"(?P<number>[+-]?\s*[\d.]+(?:e[+-]?\d+)?)\s*rows?", re.IGNORECASE)

RATE_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600}
"""Seconds in each unit of a rate."""

RATE_HINT = "write a positive number and a unit: RATE 100 PER SECOND, RATE 2.5 PER MINUTE or RATE 10 PER HOUR"

_DECIMAL_UNITS = {name: 1000**n for n, name in enumerate(("b", "kb", "mb", "gb", "tb"))}
_BINARY_UNITS = {name: 1024**n for n, name in enumerate(("b", "kib", "mib", "gib", "tib"))}
UNIT_BYTES = _DECIMAL_UNITS | _BINARY_UNITS
"""Bytes in each unit: KB and its like count by 1000, KiB and its like by 1024."""

BYTES_HINT = "write a positive number and a unit in quotes, such as '8 GB' or '512 MiB'"
LIMIT_BYTES = 1 << 60

_BYTES = re.compile(r"(?P<number>[+-]?\s*(?:\d+\.?\d*|\.\d+))\s*(?P<unit>[a-z]*)", re.IGNORECASE)


def is_row_count(text: str) -> bool:
    """Whether the text speaks of rows, well or badly."""
    return re.search(r"rows?\s*$", text, re.IGNORECASE) is not None


def parse_rows(text: str) -> int:
    """The number of `n ROWS`; raises UsageError where it is none, not whole, not positive, or past any stream."""
    found = _ROWS.fullmatch(text.strip())
    number = re.sub(r"\s", "", found["number"]) if found else ""
    if re.fullmatch(r"[+-]?\d+", number) is None:
        what = "not a whole number of rows" if number else "not a number of rows"
        raise UsageError(f"{text.strip()} is {what}", hint=ROWS_HINT)
    digits = number.lstrip("+-").lstrip("0")
    if not digits or number.startswith("-"):
        raise UsageError("a window has at least one row", hint=ROWS_HINT)
    if len(digits) > len(str(LIMIT_ROWS)) or int(digits) > LIMIT_ROWS:
        raise UsageError(f"{text.strip()} is too long", hint=f"the longest window has {LIMIT_ROWS} rows")
    return int(digits)


def parse_rate(text: str) -> float:
    """The number of `RATE n PER unit`; raises UsageError where it is no plain number, not positive, or too large."""
    number = re.sub(r"\s", "", text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", number) is None:
        raise UsageError(f"{text} is not a plain number", hint=RATE_HINT)
    rate = float(number)
    if rate <= 0:
        raise UsageError("a rate must be more than zero", hint=RATE_HINT)
    if rate > LIMIT_ROWS:
        raise UsageError(f"a rate of {text} is too large", hint=f"the largest rate is {LIMIT_ROWS}")
    return rate


def parse_bytes(text: str) -> int:
    """Bytes of a size such as `8 GB`; raises UsageError where it is none, not positive, or not whole bytes."""
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text.strip()!r} is not a size", hint=BYTES_HINT)
    if not found["unit"]:
        raise UsageError(f"the size {text.strip()} has no unit", hint=BYTES_HINT)
    unit = UNIT_BYTES.get(found["unit"].lower())
    if unit is None:
        hint = "units are B, KB, MB, GB, TB (by 1000) and KiB, MiB, GiB, TiB (by 1024)"
        raise UsageError(f"{found['unit']} is not a unit of size", hint=hint)
    with localcontext() as context:
        context.prec = 100
        size = Decimal(re.sub(r"\s", "", found["number"])) * unit
        if size <= 0:
            raise UsageError("a size must be more than zero", hint=BYTES_HINT)
        if size > LIMIT_BYTES:
            raise UsageError(f"{text.strip()} is too large", hint=f"the largest size is {LIMIT_BYTES} bytes")
        if size != int(size):
            raise UsageError(f"{text.strip()} is not a whole number of bytes", hint="use a smaller unit")
    return int(size)
