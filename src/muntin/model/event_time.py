"""Which event times there are, and how a time is written.

Event times lie in the years 1 to 9999, what SQL calls a TIMESTAMP. That is far inside of int64: with the longest
window, a century, added or taken away, a time stays below `FOREVER`, which stands for the end of all streams.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST_US = -62_135_596_800_000_000
"""0001-01-01 00:00:00"""
LATEST_US = 253_402_300_799_999_999
"""9999-12-31 23:59:59.999999"""
_CYCLE_YEARS = 400
_CYCLE_US = 146_097 * 86_400_000_000
"""The calendar repeats itself after so many years."""


def time_text(us: int, separator: str = "T", timespec: str = "auto") -> str:
    """A time in microseconds by ISO 8601, without a zone; years that have not four digits with a sign before them."""
    cycles = 0 if EARLIEST_US <= us <= LATEST_US else us // _CYCLE_US
    found = EPOCH.replace(tzinfo=None) + timedelta(microseconds=us - cycles * _CYCLE_US)
    text = found.isoformat(separator, timespec)
    year = found.year + cycles * _CYCLE_YEARS
    return text if 1 <= year <= 9999 else f"{year:+05d}{text[4:]}"
