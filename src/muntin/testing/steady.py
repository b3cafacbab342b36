"""A join of two Poisson streams with nothing around it: the operator's state, fed in event-time order.

No payload, frontiers or shards, so that the counters and the clock show the work of the join alone (kostowski 4.1
measures in the same way). Sweeps happen only when asked for: without them the invalidation strategy is on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from muntin.core.batch import Counters
from muntin.core.join import JoinState
from muntin.core.policy import Policy
from muntin.core.selections import Selections
from muntin.core.storage import Heap
from muntin.generate.arrivals import poisson
from muntin.kernels.arrays import Int64s
from muntin.kernels.join import Pairs, Rows
from muntin.model import Query, Schema, Side, Stream, Window
from muntin.plan import SharedJoin
from muntin.plan.cost import Load
from muntin.plan.invalidations import INVALIDATIONS

SECOND_US = 1_000_000
Keys = Callable[[np.random.Generator, int], Int64s]
"""Draws the keys of so many rows."""
Clock = Callable[[np.random.Generator, float, int], Int64s]
"""Draws the ascending event times of a rate over a duration."""


class SteadyJoin:
    """Queries over streams A and B as `load` describes them.

    They have `windows` windows at even distances up to that of the load, each in a slice of its own, or all in one.
    With `buckets` the index has so many buffers instead of one for each key, so that a probe meets rows of other keys,
    too; keys are then compared pair by pair.
    """

    def __init__(
        self,
        load: Load,
        invalidation: str,
        seed: int = 0,
        keys: Keys | None = None,
        clock: Clock = poisson,
        windows: int = 1,
        merged: bool = False,
        buckets: int | None = None,
    ):
        self.load, self._keys, self._clock = load, keys or _even(int(load.n)), clock
        self._buckets, self._key_of = buckets, np.zeros(0, np.int64)
        self._rng = np.random.default_rng(seed)
        join = _join(load, windows, merged)
        selections = (Selections(join, Side.LEFT), Selections(join, Side.RIGHT))
        self.state = JoinState(join, selections, Policy(INVALIDATIONS[invalidation]), Heap())
        self.counters = Counters()
        self.now_us = 0
        self._rows = 0

    def draw(self, seconds: float) -> Rows:
        """The arrivals of the next `seconds`, in the order in which the join takes them."""
        duration_us = round(seconds * SECOND_US)
        times = [self._clock(self._rng, rate, duration_us) for rate in (self.load.lambda_a, self.load.lambda_b)]
        sides = np.repeat(np.array([0, 1], np.uint8), [len(t) for t in times])
        ts = np.concatenate(times) + self.now_us
        order = np.argsort(ts, kind="stable")
        ts, sides, total = ts[order], sides[order], len(ts)
        numbers = np.arange(self._rows, self._rows + total)
        h1, h2 = self._keys(self._rng, total), np.zeros(total, np.int64)
        if self._buckets is not None:
            self._key_of = np.concatenate([self._key_of, h1])
            h1 = h1 % self._buckets
        self.now_us += duration_us
        self._rows += total
        return Rows(sides, ts, ts, ts, h1, h2, np.zeros(total, np.int32), numbers, np.ones(total, bool))

    def take(self, rows: Rows) -> int:
        """Join them with what is there; how many pairs there were."""
        return len(self.state.insert(rows, self.counters, self._same_key if self._buckets is not None else None).ts)

    def _same_key(self, pairs: Pairs) -> Pairs:
        """Of pairs that share a bucket, those that share a key."""
        same = self._key_of[pairs.rows[0]] == self._key_of[pairs.rows[1]]
        return Pairs(pairs.rows[:, same], pairs.ts[same], pairs.tag[same], pairs.verdict)

    def advance(self, seconds: float) -> Counters:
        """Let time pass; the work that it took."""
        before = asdict(self.counters)
        self.counters.pairs += self.take(self.draw(seconds))
        return _difference(asdict(self.counters), before)

    def sweep(self) -> None:
        """Take out all that is stale, as the operator does after each micro-batch."""
        for side in Side:
            self.state.forget(side, self.now_us, self.counters)

    def stale(self, side: Side) -> int:
        """Rows held that have left their window."""
        return self.state.rows(side) - sum(self.state.expiry.rows_by_age(side, self.now_us))


def _even(buckets: int) -> Keys:
    return lambda rng, rows: rng.integers(1, buckets + 1, rows)


def _join(load: Load, windows: int, merged: bool) -> SharedJoin:
    streams = (Stream("A", Schema(()), "ts"), Stream("B", Schema(()), "ts"))
    left, right = (
        [round(seconds * SECOND_US * (n + 1) / windows) for n in range(windows)] for seconds in (load.t_a, load.t_b)
    )
    queries = [Query(f"q{n}", "A", "B", (), Window(a, b), ()) for n, (a, b) in enumerate(zip(left, right, strict=True))]
    cuts = (tuple(left[-1:]), tuple(right[-1:])) if merged else (tuple(left), tuple(right))
    return SharedJoin(0, streams, (), tuple(queries), (True, True), cuts)


def _difference(after: dict[str, object], before: dict[str, object]) -> Counters:
    """Sums grown since `before`; levels stay as they are after."""
    levels = ("state_rows", "held_rows", "keys", "groups")
    return Counters(**{k: v if k in levels else _minus(v, before[k]) for k, v in after.items()})  # type: ignore[arg-type]


def _minus(a: object, b: object) -> object:
    return [x - y for x, y in zip(a, b, strict=True)] if isinstance(a, list) and isinstance(b, list) else a - b  # type: ignore[operator]
