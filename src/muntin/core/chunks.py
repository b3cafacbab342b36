"""The durable log of a shard: immutable chunks by name, and when each can go.

l0000000000000042   rows of the left side, numbered from 42 on, as they arrived in one micro-batch
rv...               rows of the right side that only probe in this shard (a join without an equality)
lc...               event times of the whole left stream, in order of arrival from that number on (count windows)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from muntin.model import Side

_DIGITS = 16


class Kind(StrEnum):
    ROWS = ""
    VISITORS = "v"
    CLOCK = "c"


class ChunkLog:
    """Names of the live chunks with the latest event time in each."""

    def __init__(self, last_ts: Mapping[str, int]):
        self.last_ts = dict(last_ts)

    def add(self, kind: Kind, side: Side, base: int, last_ts: int) -> str:
        name = f"{'lr'[side]}{kind}{base:0{_DIGITS}d}"
        self.last_ts[name] = last_ts
        return name

    def __iter__(self) -> Iterator[tuple[Kind, Side, int, str]]:
        """Kind, side, first number and name of each chunk, in the order in which they came: ties are joined in it."""
        for name in self.last_ts:
            yield Kind(name[1:-_DIGITS]), Side("lr".index(name[0])), int(name[-_DIGITS:]), name

    def first(self, kind: Kind, side: Side, default: int) -> int:
        """The first number that a chunk of the kind still needs."""
        return min((base for k, s, base, _ in self if (k, s) == (kind, side)), default=default)

    def expired(self, side: Side, stale_before: int, release: int) -> list[str]:
        """Take out the chunks of a side of which nothing is needed again.

        Rows are needed until they have left their window, and so are the times that give them their numbers; visitors
        until the release point has passed them.
        """
        gone = [
            name
            for kind, s, _, name in self
            if s is side and (last := self.last_ts[name]) <= release and (kind is Kind.VISITORS or last < stale_before)
        ]
        for name in gone:
            del self.last_ts[name]
        return gone
