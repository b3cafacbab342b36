"""Instants in statements: `SINCE '2026-01-01 00:00:00'`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from muntin.model import UsageError
from muntin.model.event_time import EPOCH

SINCE_HINT = "write SINCE '2026-01-01 00:00:00', which is UTC unless a zone follows, as in '2026-01-01 00:00:00+02:00'"


def parse_instant_us(text: str) -> int:
    """Microseconds since 1970 of a time in the form of ISO 8601, in UTC where it names no zone."""
    try:
        found = datetime.fromisoformat(text.strip())
        return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a time", hint=SINCE_HINT) from None
