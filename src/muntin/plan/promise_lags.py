"""How long before or after a row the promise for its key comes, and how many rows stay in a state (ding2004 5.2).

With D the time of the promise less that of the row, b how long promises bind and w the window, a row of the other side

    -b <= D < 0    finds the promise there, and is not stored
     0 <= D < w    is stored, and waits for D
    otherwise      is stored, and waits for its window: the promise has lapsed, comes later, or never

so by Little's law a second that brings `rate` rows keeps  rate * integral from 0 to w of (1 - B(b) - A(t)) dt  of them,
with B(b) and A(t) the parts of the rows whose promise came within b before and within t after them. Equation 1 asks
instead how many keys have been promised since the beginning of the stream, which says little of the keys that are in a
window now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import expm1
from typing import Protocol

import numpy as np

from muntin.kernels.arrays import Floats, Int64s

FIRST_US = 1000
"""Lags up to here are counted together."""
PER_OCTAVE = 4
"""Further ones in bands, so many for each doubling."""
STEPS = 256
"""Of the integral over a window."""
NO_LAGS = np.zeros(0, np.int64)


@dataclass
class LagCounts:
    """What became of the rows of one side that are not in the state any more: how many left with their window, and of
    the others how long before the row or after it the promise of its key came, in bands of lags."""

    expired: int = 0
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return self.expired + sum(self.before) + sum(self.after)

    def add(self, before_us: Int64s = NO_LAGS, after_us: Int64s = NO_LAGS) -> None:
        """Count rows by how long before and after them their promises came."""
        self.before, self.after = _added(self.before, before_us), _added(self.after, after_us)

    def since(self, then: LagCounts) -> LagCounts:
        """What has been counted since `then`."""
        return LagCounts(self.expired - then.expired, _less(self.before, then.before), _less(self.after, then.after))

    @classmethod
    def together(cls, parts: list[LagCounts]) -> LagCounts:
        """What several shards have counted."""
        found = cls()
        for part in parts:
            found.expired += part.expired
            found.before, found.after = _sum(found.before, part.before), _sum(found.after, part.after)
        return found


class Lags(Protocol):
    """How promises free the rows of a stream."""

    def rows(self, rate: float, window_s: float, binding_s: float) -> float:
        """Rows of the stream in the state, where `rate` come in a second, a window holds them for `window_s`, and
        promises bind for `binding_s`."""


@dataclass(frozen=True)
class AssumedLags:
    """Where nothing was measured: a part `waiting` of the rows waits for the promise of its key, for `lag_s` on
    average; lags are exponential."""

    waiting: float
    lag_s: float

    @classmethod
    def of_unique_rows(cls, keys: float, promises_rate: float) -> AssumedLags:
        """Rows and promises of a key come in any order, and promises go through the keys one after the other."""
        return cls(0.5, keys / max(promises_rate, 1e-9) / 2)

    def rows(self, rate: float, window_s: float, binding_s: float) -> float:
        return rate * self.waiting * self.lag_s * -expm1(-window_s / self.lag_s)


@dataclass(frozen=True)
class MeasuredLags:
    """What a join has counted whose window and binding time were these.

    Promises that come further before or after a row than these are taken to come as often, for each second, as in the
    farther half of what was seen, until every row has one.
    """

    counts: LagCounts
    window_s: float
    binding_s: float

    def rows(self, rate: float, window_s: float, binding_s: float) -> float:
        steps = (np.arange(STEPS) + 0.5) * window_s / STEPS
        waits = 1 - self.arrived_before(np.array([binding_s])) - self.arrived_after(steps)
        return rate * window_s * float(np.clip(waits, 0, 1).mean())

    def arrived_before(self, lags_s: Floats) -> Floats:
        """The part of the rows whose promise came no longer than so before them."""
        return self._came(self._before, lags_s)

    def arrived_after(self, lags_s: Floats) -> Floats:
        """The part of the rows whose promise came no longer than so after them."""
        return self._came(self._after, lags_s)

    def _came(self, seen: _Seen, lags_s: Floats) -> Floats:
        both, unmet = self._before.density + self._after.density, 1 - self._before.all - self._after.all
        most = unmet * seen.density / both if both else 0.0
        return np.asarray(seen.within(lags_s) + np.clip((lags_s - seen.until_s) * seen.density, 0, most))

    @property
    def _before(self) -> _Seen:
        return _Seen(self.counts.before, self.counts.rows, self.binding_s)

    @property
    def _after(self) -> _Seen:
        return _Seen(self.counts.after, self.counts.rows, self.window_s)


@dataclass(frozen=True)
class _Seen:
    """Lags in one direction, seen up to a time."""

    counts: list[int]
    rows: int
    until_s: float

    def within(self, lags_s: Floats) -> Floats:
        """The part of the rows whose lag is at most so much, evenly spread within each band as far as it was seen."""
        ends = np.minimum(np.concatenate([[0.0], _ends_s(len(self.counts))]), self.until_s)
        sums = np.concatenate([[0.0], np.cumsum(np.array(self.counts, float))])
        return np.asarray(np.interp(np.minimum(lags_s, self.until_s), ends, sums)) / max(1, self.rows)

    @property
    def all(self) -> float:
        return float(self.within(np.array([self.until_s]))[0])

    @property
    def density(self) -> float:
        """The part of the rows, for each second, whose lag was in the farther half of what was seen."""
        near, far = self.within(np.array([self.until_s / 2, self.until_s]))
        return float(far - near) / (self.until_s / 2)


def _band(lags_us: Int64s) -> Int64s:
    return np.ceil(np.log2(np.maximum(lags_us, FIRST_US) / FIRST_US) * PER_OCTAVE).astype(np.int64)


def _ends_s(bands: int) -> Floats:
    return np.asarray(FIRST_US / 1e6 * 2.0 ** (np.arange(bands) / PER_OCTAVE))


def _added(counts: list[int], lags_us: Int64s) -> list[int]:
    return _sum(counts, np.bincount(_band(lags_us)).tolist()) if len(lags_us) else counts


def _sum(one: list[int], other: list[int]) -> list[int]:
    size = max(len(one), len(other))
    return [sum(both) for both in zip(_padded(one, size), _padded(other, size), strict=True)]


def _less(one: list[int], other: list[int]) -> list[int]:
    return [a - b for a, b in zip(one, _padded(other, len(one)), strict=True)]


def _padded(counts: list[int], size: int) -> list[int]:
    return [*counts, *[0] * (size - len(counts))]
