"""Durations as people write them."""

from __future__ import annotations

UNITS_US = (
    ("day", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
)


def format_us(duration_us: int) -> str:
    """`90000000` as `90 s`, `3600000000` as `1 h`: the largest unit that needs no fraction."""
    if duration_us == 0:
        return "0 s"
    name, size = next((name, size) for name, size in UNITS_US if duration_us % size == 0)
    return f"{duration_us // size} {name}"
