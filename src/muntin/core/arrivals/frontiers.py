"""How far the two streams of a join have come: what is late, what is ahead of its time, and who waits for whom.

All of it follows from figures of the *whole* streams, which every shard receives, so that all shards agree and a replay
finds the same.

    frontier   no row older than this is accepted any more: the largest event time less the lateness, or, for a stream
               that is idle, what the other stream has come to; one that has promised to send nothing more is idle.
               It never goes back, also where the lateness grows
    believed   the largest event time so far that other rows bear out; a row far beyond it moves no frontier
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from muntin.core.batch import Arrivals, Spans
from muntin.model import Side

FOREVER = 1 << 62
"""Later than any event time; its negative is earlier than any."""
SEVERAL = 2
"""Rows that it takes, at least, for a stream to jump: one alone may be a mistake."""


def is_event_time(us: int) -> bool:
    """Whether this is a time that rows, windows and lateness lead to, and not the beginning or the end of all."""
    return abs(us) < FOREVER // 2


@dataclass(frozen=True)
class FrontierMeta:
    """What is durable of the frontiers; by default, that of streams that have brought nothing."""

    max_ts: list[int] = field(default_factory=lambda: [-FOREVER, -FOREVER])
    min_ts: int = FOREVER
    ended: list[bool] = field(default_factory=lambda: [False, False])
    idle: list[bool] = field(default_factory=lambda: [False, False])
    floor: list[int] = field(default_factory=lambda: [-FOREVER, -FOREVER])
    doubted: list[int] = field(default_factory=lambda: [0, 0])
    reached: list[int] = field(default_factory=lambda: [-FOREVER, -FOREVER])


@dataclass(frozen=True)
class StreamsReached:
    """How far the two streams of a join have come: the latest rows, and up to when rows are late."""

    streams: list[str]
    max_ts: list[int]
    frontiers: list[int | None]
    own_frontiers: list[int | None] = field(default_factory=lambda: [None, None])
    """Those that the rows of the streams themselves have come to, the partner left aside."""


@dataclass(frozen=True)
class Beginning:
    """Where a join begins whose streams others have read; a list has a value for the left and for the right stream."""

    max_ts: list[int]
    floors: list[int]
    """Where others join the same two streams: up to when rows are late there."""
    reached: list[int]
    """Up to when rows are late in every join, whatever the partner is."""

    def reads(self, side: Side, release: int) -> Beginning:
        """The same where a stream is what a join puts out that has come to this release point."""
        max_ts = list(self.max_ts)
        max_ts[side] = release
        return replace(self, max_ts=max_ts)


def begun_with(names: Sequence[str], seen: Sequence[StreamsReached]) -> Beginning:
    """For a join of streams that others have read: how far these have come."""
    max_ts = {name: ts for of in seen for name, ts in zip(of.streams, of.max_ts, strict=True)}
    own = {name: ts for of in seen for name, ts in zip(of.streams, of.own_frontiers, strict=True)}
    floors = next((of.frontiers for of in seen if of.streams == list(names)), [None, None])
    return Beginning(
        [max_ts.get(name, -FOREVER) for name in names],
        [-FOREVER if floor is None or floor == FOREVER else floor for floor in floors],
        [-FOREVER if (ts := own.get(name)) is None else ts for name in names],
    )


class Frontiers:
    def __init__(self, lateness_us: tuple[int, int], max_ahead_us: int | None, meta: FrontierMeta):
        self._lateness_us = lateness_us
        self._max_ahead_us = max_ahead_us
        self.max_ts = list(meta.max_ts)
        self.min_ts = meta.min_ts
        self.ended = list(meta.ended)
        self.idle = list(meta.idle)
        """Streams that no longer hold the other one back, until their next row."""
        self.floor = list(meta.floor)
        """What the other stream had come to while a stream was idle."""
        self.doubted = list(meta.doubted)
        """Rows turned away as too far ahead since the last one that was believed."""
        self.reached = list(meta.reached)
        """What the frontiers had come to when the lateness was another."""

    @property
    def meta(self) -> FrontierMeta:
        return FrontierMeta(self.max_ts, self.min_ts, self.ended, self.idle, self.floor, self.doubted, self.reached)

    def begin(self, at: Beginning) -> None:
        """Start in the middle of streams: what is late for others is late here."""
        self.max_ts = list(at.max_ts)
        self.floor = list(at.floors)
        self.reached = list(at.reached)
        self.min_ts = max(self.max_ts) if max(self.max_ts) > -FOREVER else FOREVER

    def change(self, lateness_us: tuple[int, int]) -> None:
        """Go on with another lateness. A frontier never goes back: results up to there have left."""
        if lateness_us != self._lateness_us:
            self.reached = self.own_frontiers
        self._lateness_us = lateness_us

    def frontier(self, side: Side) -> int:
        return FOREVER if self.ended[side] else max(self.own_frontier(side), self.floor[side])

    def own_frontier(self, side: Side) -> int:
        """The frontier as the rows of the stream itself have it."""
        own = self.max_ts[side] - self._lateness_us[side] if self.max_ts[side] > -FOREVER else -FOREVER
        return max(own, self.reached[side])

    @property
    def frontiers(self) -> list[int]:
        return [self.frontier(side) for side in Side]

    @property
    def own_frontiers(self) -> list[int]:
        return [self.own_frontier(side) for side in Side]

    def believe(self, side: Side, spans: Spans) -> int:
        """The latest event time of a micro-batch that is believed.

        A span that begins more than `max_ahead` after what came before is not, unless more rows lie in it and beyond
        than the micro-batch has before it, and more than one, those counted that were turned away just before.
        """
        if self._max_ahead_us is None or not spans:
            return FOREVER
        spans = united([spans], self._max_ahead_us)
        believed = self.max_ts[side] if self.max_ts[side] > -FOREVER else spans[0][1]
        before, total = 0, sum(count for _, _, count in spans)
        for low, high, count in spans:
            borne_out = total - before + self.doubted[side] >= max(before + 1, SEVERAL)
            if low - believed > self._max_ahead_us and not borne_out:
                break
            believed, before = max(believed, high), before + count
        self.doubted[side] = 0 if before else self.doubted[side] + total
        return believed

    def note(self, arrivals: Arrivals, limits: Sequence[int], last_words: Sequence[int]) -> None:
        """Take in how far a micro-batch has brought the streams, rows beyond `limits` left out.

        `last_words`: from when on a stream has promised to send nothing. It is idle unless it has a later row.
        """
        for side in Side:
            low, high = arrivals.min_ts[side], arrivals.max_ts[side]
            if low is not None and high is not None and low <= limits[side]:
                self.max_ts[side] = max(self.max_ts[side], min(high, limits[side]))
                self.min_ts = min(self.min_ts, low)
                self.idle[side] = self.max_ts[side] <= last_words[side]
            else:
                self.idle[side] |= arrivals.idle[side]
            self.ended[side] |= arrivals.ended[side]
        for side in Side:
            if self.idle[side]:
                other = side.other
                reached = self.max_ts[other] if self.ended[other] else self.own_frontier(other)
                self.floor[side] = max(self.floor[side], reached)


def united(parts: Sequence[Spans], gap: int) -> Spans:
    """Spans of several parts of a stream as those of the whole, where gaps up to `gap` are none."""
    found: list[tuple[int, int, int]] = []
    for low, high, count in sorted(tuple(span) for spans in parts for span in spans):
        if found and low - found[-1][1] <= gap:
            first, last, rows = found[-1]
            found[-1] = first, max(last, high), rows + count
        else:
            found.append((low, high, count))
    return found
