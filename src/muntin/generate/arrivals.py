"""When rows happen, and when they arrive. Times are int64 microseconds from the start of the stream."""

from __future__ import annotations

import numpy as np

from muntin.kernels.arrays import Int64s

START_US = 1_704_067_200_000_000
"""Event time of the first instant: 2024-01-01 00:00:00 UTC."""


def poisson(rng: np.random.Generator, rate: float, duration_us: int) -> Int64s:
    """Event times of a Poisson process, ascending.

    Given their number, the arrivals of a Poisson process are independent and uniform: drawing the number first makes
    the whole stream one vectorised draw and one sort.
    """
    number = rng.poisson(rate * duration_us / 1_000_000)
    return np.sort(rng.integers(0, duration_us, number, dtype=np.int64))


def delayed(rng: np.random.Generator, times: Int64s, disorder_us: int) -> Int64s:
    """Arrival times: each row is under way for less than `disorder_us`, so none is further out of order than that."""
    if disorder_us == 0:
        return times
    return times + rng.integers(0, disorder_us, len(times), dtype=np.int64)


def bursts(rng: np.random.Generator, rate: float, size: float, number: int) -> Int64s:
    """Times of `number` rows that come in bursts at an overall `rate` per second, ascending (hammad2003 5.2).

    Bursts come at exponential intervals, and the rows of one come at once. The rows of a burst are Pareto distributed
    with a least value of 1 and the mean `size`, so the shape is `size / (size - 1)`: from 2 on the variance is
    infinite. Fractions are rounded at random, which keeps the mean. `size` 1 is a Poisson process.
    """
    rows = np.ones(number)
    if size > 1:
        rows = np.floor((1 - rng.random(number)) ** (1 / size - 1) + rng.random(number))
    starts = np.cumsum(rng.exponential(size / rate * 1_000_000, number))
    return np.repeat(starts, rows.astype(np.int64))[:number].astype(np.int64)
