from __future__ import annotations

import pytest

from muntin.model import UsageError
from muntin.sql import parse_duration_us

S = 1_000_000


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("5 s", 5 * S),
        ("5s", 5 * S),
        ("1 min", 60 * S),
        ("2 Minutes", 120 * S),
        ("250 milliseconds", 250_000),
        ("250ms", 250_000),
        ("7 us", 7),
        ("12 HOURS", 12 * 3600 * S),
        ("1.5 hours", 5400 * S),
        ("0.001 ms", 1),
        ("1 day", 86_400 * S),
        ("2 weeks", 14 * 86_400 * S),
        ("0 s", 0),
        ("-5 s", -5 * S),
        ("INTERVAL '5' SECOND", 5 * S),
        ("interval 5 seconds", 5 * S),
        ("'5 seconds'", 5 * S),
        ("36525 days", 36_525 * 86_400 * S),
    ],
)
def test_a_duration_is_whole_microseconds(text: str, us: int) -> None:
    assert parse_duration_us(text) == us


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a duration"),
        ("5", "not a duration"),
        ("min", "not a duration"),
        ("5 parsecs", "parsecs is not a unit"),
        ("1 month", "a month is not always equally long"),
        ("0.5 us", "not a whole number of microseconds"),
        ("36526 days", "too long"),
        ("9" * 5000 + " s", "too long"),
        ("5 s 6", "not a duration"),
        ("'5 s", "not a duration"),
    ],
)
def test_what_is_no_duration_is_refused_with_a_hint(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        parse_duration_us(text)
    assert error.value.hint
