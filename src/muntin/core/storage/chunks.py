"""The durable log of a shard: immutable chunks by name, and when each can go.

l0000000000000042   rows of the left side, numbered from 42 on, as they arrived in one micro-batch; those that stay
                    for different times are numbered in ranges of their own
rv...               rows of the right side that only probe in this shard (a join without an equality)
lc...               event times of the whole left stream, in order of arrival from that number on (count windows)
lm..., lu...        promises of the left stream: punctuations as they arrived, and those that unique rows made
lg..., ls...        punctuations about ranges of keys, and those of the keys in them that occurred
lw...               of punctuations that came into force together, the last rows before them
ld...               numbers of rows that a promise freed
lt...               totals of groups that are not final yet (core/aggregates/durable_totals.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

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
    RANGES = "g"
    SPELLED = "s"
    TOTALS = "t"

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
            ChunkKind.RANGES,
            ChunkKind.SPELLED,
            ChunkKind.TOTALS,
        )


class ChunkLog:
    """Names of the live chunks, each with the latest event time in it, the age at which its last row has left, and how
    many rows it has."""

    def __init__(self, live: Mapping[str, Sequence[int]]):
        self.live = {name: (last_ts, keep, rows) for name, (last_ts, keep, rows) in live.items()}

    def add(self, kind: ChunkKind, side: Side, base: int, last_ts: int, keep: int, rows: int) -> str:
        name = f"{'lr'[side]}{kind}{base:0{_DIGITS}d}"
        self.live[name] = last_ts, keep, rows
        return name

    def restay(self, keep: Callable[[ChunkKind, Side, int, int], int]) -> None:
        """Ask anew for the age at which the last row of each chunk has left: by kind, side, first number and rows."""
        for kind, side, base, name in list(self):
            last_ts, _, rows = self.live[name]
            self.live[name] = last_ts, keep(kind, side, base, rows), rows

    def __iter__(self) -> Iterator[tuple[ChunkKind, Side, int, str]]:
        """Kind, side, first number and name of each chunk, in the order in which they came: ties are joined in it."""
        for name in self.live:
            yield ChunkKind(name[1:-_DIGITS]), Side("lr".index(name[0])), int(name[-_DIGITS:]), name

    def firsts(self, side: Side, shift: int) -> dict[int, int]:
        """The first row number that is still needed, in each range of `1 << shift` numbers that has one."""
        found: dict[int, int] = {}
        for kind, s, base, _ in self:
            if s is side and kind.has_rows:
                found[base >> shift] = min(found.get(base >> shift, base), base)
        return found

    def expired(self, stale_before: Callable[[Side, int], int], release: int) -> list[str]:
        """Take out the chunks of which nothing is needed again.

        Rows are needed until they have left the state, and so are the times that give them their numbers; visitors
        until the release point has passed them. `stale_before(side, age)` is the event time before which rows of a
        side have reached an age.
        """
        ends: dict[tuple[Side, int], int] = {}
        gone = []
        for kind, side, _, name in self:
            last, keep, _ = self.live[name]
            if kind.has_end:
                if last < release:
                    gone.append(name)
                continue
            if (side, keep) not in ends:
                ends[side, keep] = stale_before(side, keep)
            if last <= release and (kind is ChunkKind.VISITORS or last < ends[side, keep]):
                gone.append(name)
        for name in gone:
            del self.live[name]
        return gone
