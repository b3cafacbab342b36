"""Arithmetic on arrays of doubles that loses nothing: another double takes what one has no room for (Dekker, 1971)."""

from __future__ import annotations

from muntin.kernels.arrays import Floats

Wide = tuple[Floats, Floats]
"""Numbers of two doubles each, of which the second holds what the first has no room for."""


def two_sum(a: Floats, b: Floats) -> Wide:
    """The sum, and what is lost in rounding it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def add(a: Wide, b: Wide) -> Wide:
    """The sum of two wide numbers, exact as long as 106 bits are enough (as `kernels.aggregate.add_wide`)."""
    total, lost = two_sum(a[0], b[0])
    rest, more = two_sum(a[1], b[1])
    lost = lost + rest
    high = total + lost
    lost = (lost - (high - total)) + more
    found = high + lost
    return found, lost - (found - high)
