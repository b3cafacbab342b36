"""The durable log of a shard: immutable chunks by name, and when each can go.

l0000000000000042   rows of the left side, numbered from 42 on, as they arrived in one micro-batch; those that stay
                    for different times are numbered in ranges of their own
rv...               rows of the right side that only probe in this shard (a join without an equality)
lc...               event times of the whole left stream, in order of arrival from that number on (count windows)
lm..., lu...        promises of the left stream: punctuations as they arrived, and those that unique rows made
lg..., ls...        punctuations about ranges of keys, and those of the keys in them that occurred
lw...               of punctuations that came into force together, the last rows before them
ld...               numbers of rows that a promise freed
lb...               rows that broke a promise at the frontier, and are reported when it has passed them
lt...               totals of groups that are not final yet (core/aggregates/durable_totals.py)
lh...               rows of the left side that have met a partner, with the queries for which they have
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

from muntin.model import Side

_DIGITS = 16


class ChunkKind(StrEnum):
    ROWS = ""
    VISITORS = "v"
    CLOCK = "c"
    MARKS = "m"
    UNIQUE = "u"
    LAST = "w"
    DEAD = "d"
    UNREPORTED = "b"
    RANGES = "g"
    SPELLED = "s"
    TOTALS = "t"
    MET = "h"

    @property
    def has_rows(self) -> bool:
        return self in (ChunkKind.ROWS, ChunkKind.VISITORS)

    @property
    def has_end(self) -> bool:
        """Such a chunk is needed until a time, and its `last_ts` is that time."""
        return self in (
            ChunkKind.MARKS,
            ChunkKind.UNIQUE,
            ChunkKind.LAST,
            ChunkKind.UNREPORTED,
            ChunkKind.RANGES,
            ChunkKind.SPELLED,
            ChunkKind.TOTALS,
            ChunkKind.MET,
        )


_WITH_END = frozenset(kind.value for kind in ChunkKind if kind.has_end)


class Chunk(NamedTuple):
    """What the log knows of a live chunk."""

    last_ts: int
    """The latest event time in it."""
    retention: int
    """The age at which its last row has left."""
    rows: int


class ChunkLog:
    """The live chunks by name, and what has been written and removed since `changes` was called last."""

    def __init__(self, live: Mapping[str, Chunk] | None = None):
        self.live = dict(live or {})
        self._written: dict[str, pa.Table] = {}
        self._removed: list[str] = []

    def write(self, kind: ChunkKind, side: Side, number: int, table: pa.Table, last_ts: int, retention: int = 0) -> str:
        """Add a chunk under the first number in it; returns its name."""
        name = f"{'lr'[side]}{kind}{number:0{_DIGITS}d}"
        self.live[name] = Chunk(last_ts, retention, table.num_rows)
        self._written[name] = table
        return name

    def remove(self, names: Iterable[str]) -> None:
        """Take out chunks that nobody needs again; one that came and went in the same micro-batch is not written."""
        for name in names:
            if self.live.pop(name, None) is not None and self._written.pop(name, None) is None:
                self._removed.append(name)

    def changes(self) -> tuple[dict[str, pa.Table], list[str]]:
        """The chunks to write and the names of those to delete since the last call."""
        written, removed = self._written, self._removed
        self._written, self._removed = {}, []
        return written, removed

    def update_retentions(self, retention: Callable[[ChunkKind, Side, int, int], int]) -> None:
        """Ask anew for the age at which the last row of each chunk has left: by kind, side, first number and rows."""
        for kind, side, number, name in list(self):
            chunk = self.live[name]
            self.live[name] = chunk._replace(retention=retention(kind, side, number, chunk.rows))

    def __iter__(self) -> Iterator[tuple[ChunkKind, Side, int, str]]:
        """Kind, side, first number and name of each chunk, in the order in which they came: ties are joined in it."""
        for name in self.live:
            yield ChunkKind(name[1:-_DIGITS]), Side("lr".index(name[0])), int(name[-_DIGITS:]), name

    def firsts(self, shift: int) -> tuple[dict[int, int], dict[int, int]]:
        """For each side, the first row number that is still needed in each range of `1 << shift` numbers that has one.

        There is a chunk for each micro-batch that a window reaches back, and this is asked in every micro-batch: so
        names are looked at as they are.
        """
        found: dict[str, dict[int, int]] = {"l": {}, "r": {}}
        for name in self.live:
            if len(name) == 1 + _DIGITS or name[1] == ChunkKind.VISITORS:
                number, of = int(name[-_DIGITS:]), found[name[0]]
                if of.setdefault(number >> shift, number) > number:
                    of[number >> shift] = number
        return found["l"], found["r"]

    def expire(self, stale_before: Callable[[Side, int], int], release: int) -> None:
        """Remove the chunks of which nothing is needed again.

        Rows are needed until they have left the state, and so are the times that give them their numbers; visitors
        until the release point has passed them. `stale_before(side, age)` is the event time before which rows of a
        side have reached an age.
        """
        ends: dict[tuple[str, int], int] = {}
        gone = []
        for name, (last_ts, retention, _) in self.live.items():
            if last_ts > release:
                continue
            kind = name[1:-_DIGITS]
            if kind in _WITH_END:
                if last_ts < release:
                    gone.append(name)
                continue
            if (name[0], retention) not in ends:
                ends[name[0], retention] = stale_before(Side("lr".index(name[0])), retention)
            if kind == ChunkKind.VISITORS or last_ts < ends[name[0], retention]:
                gone.append(name)
        self.remove(gone)
