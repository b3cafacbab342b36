"""Adaptive (hammad2005 6): Filter-Order where it gains enough, and else Sync-Filter, which holds less.

The driver watches the rates of the streams and the cost of joining a row, and tells the shards of each join when to go
over to the other ordering.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from muntin.plan.orderings.filter_order import FILTER_ORDER
from muntin.plan.orderings.ordering import Ordering
from muntin.plan.orderings.pace import gain
from muntin.plan.orderings.sync_filter import SYNC_FILTER

SPAN_S = 60.0
"""What came longer ago than this says nothing of the rates any more."""
BACK = 0.75
"""The part of alpha below which a join goes back to Sync-Filter."""
LEAST_S = 10.0
"""For which it stays with an ordering, where the streams are hardly apart."""


class Adaptive(Ordering):
    name = "adaptive"
    paper = "hammad2005, section 6"
    summary = "filter-order for a join whose load is at least alpha, sync-filter for the others"
    adapts = True

    def joins_ahead(self, now: bool = False) -> bool:
        return now

    def for_load(self, load: float, alpha: float) -> Ordering:
        return FILTER_ORDER if load >= alpha else SYNC_FILTER


ADAPTIVE = Adaptive()


@dataclass(frozen=True)
class Decision:
    """What Adaptive decides, and from what: the rates of (left, right) in rows per second, seconds per joined row."""

    ordering: str
    rates: tuple[float, float]
    seconds_per_row: float
    load: float
    alpha: float
    gain: float

    @property
    def joins_ahead(self) -> bool:
        return self.ordering == FILTER_ORDER.name


class Monitor:
    """Watches one join and says which of the two orderings it should follow (section 6, steps B and D).

    `note` takes, at any moment of a clock, what has been counted up to then; rates and costs are those of the last
    `span_s` seconds of that clock.
    """

    def __init__(self, alpha: float, windows: tuple[float, float] = (1, 1), span_s: float = SPAN_S):
        self.alpha, self._windows, self._span_s = alpha, windows, span_s
        self._seen: deque[tuple[float, tuple[int, int], int, float]] = deque()

    def note(self, clock_s: float, arrived: tuple[int, int], joined: int, seconds: float) -> None:
        """By `clock_s`, so many rows of each side have arrived, and joining `joined` rows has taken `seconds`."""
        self._seen.append((clock_s, arrived, joined, seconds))
        while len(self._seen) > 2 and self._seen[1][0] < clock_s - self._span_s:
            self._seen.popleft()

    def decide(self) -> Decision | None:
        """None where too little has been seen."""
        if len(self._seen) < 2:
            return None
        (start, arrived, joined, spent), (end, arrived_now, joined_now, spent_now) = self._seen[0], self._seen[-1]
        if end <= start or joined_now <= joined:
            return None
        left, right = ((now - before) / (end - start) for now, before in zip(arrived_now, arrived, strict=True))
        seconds = (spent_now - spent) / (joined_now - joined)
        load = seconds * (left + right) * self._windows[0 if left <= right else 1] / sum(self._windows)
        ordering = ADAPTIVE.for_load(load, self.alpha).name
        return Decision(ordering, (left, right), seconds, load, self.alpha, gain(load))


class Switching:
    """When a running join goes over to what is decided for it: not at every turn of a load near the threshold.

    It goes back only where the load is clearly below alpha. And it stays for as long as it takes to catch up: after
    Filter-Order, the release point comes to what was joined ahead when the stream behind has come as far.
    """

    def __init__(self) -> None:
        self._since_s = -math.inf

    def reason(self, decision: Decision, joins_ahead: bool, clock_s: float, apart_s: float) -> str | None:
        """Why to go over now, to Filter-Order or from it; None to stay. The streams are so many seconds apart."""
        load, alpha = decision.load, decision.alpha
        enough = load < BACK * alpha if joins_ahead else load >= alpha
        if not enough or clock_s - self._since_s < max(apart_s, LEAST_S):
            return None
        self._since_s = clock_s
        if joins_ahead:
            return f"load {load:.3g} is below {BACK:.0%} of alpha {alpha:g}: joining ahead gains little"
        return f"load {load:.3g} is not below alpha {alpha:g}: joining ahead answers {decision.gain:.0%} sooner"
