"""Numbers for the rows of a stream with a count window: the axis `rows` (semantics, section 2).

A row's number is its rank in its whole stream by (event time, arrival), rows without a key and rows that no query wants
included. Every shard receives the event time of every row of the stream and counts for itself, so that all shards agree
without a further exchange: 8 bytes a row and shard, and the work of sorting them.

What the numbering **is**, with R the release point and n the largest count window:

    held     (time, arrival) of accepted rows with  time > R: earlier ones may still come, so they have no number yet
    recent   times of the rows with the last n numbers and the one before: what is older than the first of them is stale
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from muntin.core.storage import Layout, Memory, QueueImage, TimeQueue, flat, pass_all
from muntin.kernels.arrays import Int64s

COLUMNS = flat("int64", "int64")


@dataclass(frozen=True)
class NumberedRows:
    """Rows that the release point has just passed, in order; the first has the number `before + 1`."""

    ts: Int64s
    arrivals: Int64s
    before: int

    def numbers(self, arrivals: Int64s) -> Int64s:
        """The numbers of these arrivals, which must be among the rows."""
        order = np.argsort(self.arrivals)
        return self.before + 1 + order[np.searchsorted(self.arrivals[order], arrivals)]

    def reached(self, ts: Int64s, inclusive: bool) -> Int64s:
        """How many rows of the stream came before a row of the other stream; at equal times the left one is first."""
        return self.before + np.searchsorted(self.ts, ts, side="right" if inclusive else "left").astype(np.int64)


@dataclass(frozen=True)
class RecentImage:
    """Where the times of the last rows lie: the name of the array, its room, and the part in use."""

    name: str
    room: int
    head: int
    tail: int


class Recent:
    """The event times of the last rows, oldest first."""

    def __init__(self, memory: Memory, image: RecentImage | None = None):
        self._memory = memory
        self.image = image or RecentImage(memory.name("recent"), 1024, 0, 0)
        """What another process needs to go on with this list."""
        (self._ts,) = (memory.arrays if image else memory.allocate)(self.image.name, self._layout())

    def _layout(self) -> Layout:
        return [((self.image.room,), "int64")]

    @property
    def ts(self) -> Int64s:
        return self._ts[self.image.head : self.image.tail]

    def append(self, ts: Int64s, most: int) -> None:
        """Add times, and forget the oldest where there are more than `most`."""
        if self.image.tail + len(ts) > self.image.room:
            self._move(len(self.ts) + len(ts))
        head, tail = self.image.head, self.image.tail + len(ts)
        self._ts[self.image.tail : tail] = ts
        self.image = replace(self.image, head=head + max(0, tail - head - most), tail=tail)

    def _move(self, rows: int) -> None:
        """To the front of a place with room for half as many more: each time is moved O(1) times on average."""
        ts, old = self.ts, self.image.name
        self.image = RecentImage(self._memory.name("recent"), rows + rows // 2 + 64, 0, len(ts))
        (self._ts,) = self._memory.allocate(self.image.name, self._layout())
        self._ts[: len(ts)] = ts
        self._memory.discard(old)


class RowCounts(NamedTuple):
    """What is durable of a numbering: rows that have a number, and rows that have arrived."""

    numbered: int
    arrived: int


@dataclass(frozen=True)
class RowNumberingImage:
    """What another process needs, beside the counts and the memory, to go on numbering."""

    held: list[QueueImage]
    recent: RecentImage


class RowNumbering:
    def __init__(
        self, window: int, memory: Memory, counts: RowCounts | None = None, image: RowNumberingImage | None = None
    ):
        self.window = window
        self._memory = memory
        self.numbered, self.arrived = counts or RowCounts(0, 0)
        self._held = [TimeQueue.open(memory, held, COLUMNS) for held in image.held] if image else []
        self._recent = Recent(memory, image.recent if image else None)

    @property
    def counts(self) -> RowCounts:
        return RowCounts(self.numbered, self.arrived)

    @property
    def image(self) -> RowNumberingImage:
        return RowNumberingImage([queue.image for queue in self._held], self._recent.image)

    def receive(self, ts: Int64s, frontier: int, limit: int) -> tuple[int, Int64s, Int64s]:
        """Take in the times of all rows of a micro-batch in order of arrival.

        Returns the number of the first arrival, and times and arrival numbers of the rows that are neither late nor
        beyond `limit`, in order.
        """
        base = self.arrived
        self.arrived += len(ts)
        arrivals = base + np.flatnonzero((ts >= frontier) & (ts <= limit))
        order = np.argsort(ts[arrivals - base], kind="stable")
        arrivals = arrivals[order]
        self.hold(ts[arrivals - base], arrivals)
        return base, ts[arrivals - base], arrivals

    def hold(self, ts: Int64s, arrivals: Int64s) -> None:
        if len(ts):
            self._held.append(TimeQueue.keep(self._memory, (ts, arrivals)))

    def release(self, until: int) -> NumberedRows:
        """Number the rows that the release point has passed."""
        ts, arrivals = self._passed(until)
        numbered = NumberedRows(ts, arrivals, self.numbered)
        self.numbered += len(ts)
        self._remember(ts)
        return numbered

    def recount(self, until: int) -> NumberedRows:
        """After a restart, with all kept rows held again: number those that had one, which end with `numbered`."""
        ts, arrivals = self._passed(until)
        self._remember(ts)
        return NumberedRows(ts, arrivals, self.numbered - len(ts))

    def stale_before(self, window: int) -> int:
        """Rows with an earlier event time are not among the last `window` rows."""
        ts = self._recent.ts
        return int(ts[-window - 1]) if len(ts) > window else -(1 << 62)

    def _passed(self, until: int) -> tuple[Int64s, Int64s]:
        ts, arrivals = pass_all(self._held, until, COLUMNS)
        order = np.lexsort((arrivals, ts))
        return ts[order], arrivals[order]

    def _remember(self, ts: Int64s) -> None:
        self._recent.append(ts, self.window + 1)
