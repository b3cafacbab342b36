"""The pace of two streams and of the join between them: the symbols of hammad2005, section 4.1.

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

from dataclasses import dataclass

MOST_GAIN = 0.5
"""Equation 8: the gain of Filter-Order where the join can hardly keep up; the bound of equation 7."""


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
    def waiting_total_s(self) -> float:
        """Seconds that n rows of the fast stream together wait for the row of the slow one."""
        return self.n / self.slow - (self.n**2 - self.n) / (2 * self.fast)


def gain(load: float) -> float:
    """Equations 6 and 7: the part of Sync-Filter's response time that Filter-Order saves depends on the load alone."""
    return load / (1 + load)


def pace_of(windows: tuple[float, float], rates: tuple[float, float], busy: float) -> Pace:
    """The pace at which a join is busy for so many seconds a second, with windows in seconds."""
    pace = Pace.of(1, windows, rates)
    return Pace(busy / (pace.slow * pace.fast * sum(windows)), pace.w, pace.slow, pace.fast)
