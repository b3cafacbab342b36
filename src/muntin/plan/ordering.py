"""When ordered results of a window join come out: the closed forms of hammad2005, and the choice that rests on them.

    c               seconds to compare two rows
    w               the window in seconds
    slow, fast      rows per second of the two streams (the paper's lambda_1 < lambda_2)
    n = fast/slow   rows of the fast stream that wait for the same row of the slow one
    C = c w slow    seconds to join a row of the fast stream: the paper's C_S

Sync-Filter joins the n rows when the row that they wait for has come, one after the other; Filter-Order has joined them
by then. A row is done, on average, after equation 3 or 5. What Filter-Order gains depends on one number, the *load*
`c w slow fast`: the part of its time that the join spends on rows of the fast stream.

A hash join looks at the partners with the same key only, so its C is no product of a window and a rate. What is
measured is how long joining a row takes, rows of both streams together. They look at `slow fast (w + w')` partners a
second, w' being the window of the fast stream, and those that the fast stream's rows look at are `w / (w + w')` of
them: so the load is that part of the seconds that the rows of one second take.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from muntin.model import Axis
from muntin.plan.share import SharedJoin

SYNC_FILTER, FILTER_ORDER, ADAPTIVE = "sync-filter", "filter-order", "adaptive"
ORDERINGS = (SYNC_FILTER, FILTER_ORDER, ADAPTIVE)
MOST_GAIN = 0.5
"""Equation 8: the gain of Filter-Order where the join can hardly keep up; the bound of equation 7."""
SPAN_S = 60.0
"""What came longer ago than this says nothing of the rates any more."""

EAGERLY = "delivers its results as it finds them"
"""Why a join with eager delivery lets rows wait."""


def must_wait(join: SharedJoin) -> str | None:
    """Why the rows of a join cannot be joined ahead of the other stream, whatever is set; None where they can.

    Rows are numbered in one order over both streams. Without an equality a row looks for partners in every shard and
    is kept in one, and a pair is found where the first of its rows is kept: the first in time, so that it is the same
    one in all shards, also in one that is built anew.
    """
    if Axis.ROWS in join.axes:
        return "counts rows, and their numbers depend on both streams"
    return None if join.keys else "has no equality, and a pair is found where its earlier row is kept"


@dataclass(frozen=True)
class Pace:
    """Two streams and what joining them takes, as in section 4.1."""

    c: float
    w: float
    slow: float
    fast: float

    @classmethod
    def of(cls, c: float, windows: tuple[float, float], rates: tuple[float, float]) -> Pace:
        """From windows and rates of (left, right): rows of the fast stream look at the window of the slow one."""
        slow = 0 if rates[0] <= rates[1] else 1
        return cls(c, windows[slow], rates[slow], rates[1 - slow])

    @property
    def n(self) -> float:
        return self.fast / self.slow

    @property
    def seconds_per_row(self) -> float:
        """C: what it takes to join a row of the fast stream."""
        return self.c * self.w * self.slow

    @property
    def load(self) -> float:
        return self.c * self.w * self.slow * self.fast

    @property
    def keeps_up(self) -> bool:
        """Equation 1, `c w < 1 / (slow fast)`."""
        return self.load < 1

    @property
    def sync_total(self) -> float:
        """Equation 2: seconds from arrival to result of n rows of the fast stream together, under Sync-Filter."""
        return self.filter_order_total + self.n * (self.n + 1) / 2 * self.seconds_per_row

    @property
    def sync_response(self) -> float:
        """Equation 3: of one of them, on average."""
        return self.sync_total / self.n

    @property
    def filter_order_total(self) -> float:
        """Equation 4: the same under Filter-Order, where joining is done while waiting."""
        return self.n / self.slow - (self.n**2 - self.n) / (2 * self.fast)

    @property
    def filter_order_response(self) -> float:
        """Equation 5."""
        return self.filter_order_total / self.n

    @property
    def gain(self) -> float:
        """Equation 6: the part of Sync-Filter's response time that Filter-Order saves."""
        return 1 - self.filter_order_response / self.sync_response


def gain(load: float) -> float:
    """Equation 7, which is equation 6 with everything put in: nothing but the load counts."""
    return load / (1 + load)


def pace_of(windows: tuple[float, float], rates: tuple[float, float], busy: float) -> Pace:
    """The pace at which a join is busy for so many seconds a second, with windows in seconds."""
    pace = Pace.of(1, windows, rates)
    return Pace(busy / (pace.slow * pace.fast * sum(windows)), pace.w, pace.slow, pace.fast)


def choose(load: float, alpha: float) -> str:
    """Section 6: Filter-Order where it gains enough, and else Sync-Filter, which holds less."""
    return FILTER_ORDER if load >= alpha else SYNC_FILTER


@dataclass(frozen=True)
class Decision:
    """What Adaptive decides, and from what: the rates of (left, right) in rows per second, seconds per joined row."""

    ordering: str
    rates: tuple[float, float]
    seconds_per_row: float
    load: float
    alpha: float

    @property
    def gain(self) -> float:
        return gain(self.load)

    def described(self) -> dict[str, Any]:
        """For status."""
        return {
            "ordering": self.ordering,
            "rates": [round(rate, 3) for rate in self.rates],
            "seconds_per_row": round(self.seconds_per_row, 9),
            "load": round(self.load, 6),
            "alpha": self.alpha,
            "gain": round(self.gain, 6),
        }


class Monitor:
    """Watches one join and says which of the two orderings it should follow (section 6, steps B and D).

    `note` is told, at any moment of a clock, what has been counted up to then; rates and costs are those of the last
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
        return Decision(choose(load, self.alpha), (left, right), seconds, load, self.alpha)
