"""Keys with so many rows that one shard would do most of the work: their rows visit every shard and are kept in one.

While a key is hot, a row of it goes to every shard to probe, and the shard that its contents choose keeps it. So a pair
is found where its earlier row is kept, as in joins without an equality. Which rows that concerns is a stretch of event
time, `(since, until]`, and `since` is the latest time that any row had when the key became hot:

    rows up to since      lie in the home of the key, where they came, and look for partners there
    rows after since      visit every shard; those up to until are kept by their contents, those after it at home

Where the earlier row of a pair is kept anywhere else than at home, both rows are later than `since`: the later one
visits that shard. Where it is kept at home, all later rows come there. So each pair is found once, and no row moves.
A key is forgotten when the last row that is kept elsewhere has left every window.

Every shard hears in the same micro-batch that a key becomes hot or is so no more, and has the same times. Ingest may
send copies of rows earlier or for longer than that: a shard leaves aside what it does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from muntin.core.arrivals.frontiers import FOREVER
from muntin.core.arrivals.sharding import content_homes
from muntin.core.batch import H1, H2, KEPT, TS
from muntin.kernels.arrays import Bools
from muntin.model import Side
from muntin.plan import SharedJoin

Key = tuple[int, int]
"""Both halves of a join key."""


@dataclass(frozen=True)
class HeavyKey:
    """A key with many rows in a state, and what people call it."""

    h1: int
    h2: int
    name: str
    rows: int = 0

    @property
    def key(self) -> Key:
        return self.h1, self.h2


@dataclass(frozen=True)
class HotKey:
    """A key, what people call it, and the event times `(since, until]` of rows that are kept by their contents."""

    h1: int
    h2: int
    name: str
    since: int
    until: int = FOREVER

    @property
    def key(self) -> Key:
        return self.h1, self.h2


class HotKeys:
    """The hot keys of one shard of a join, and those that still have rows elsewhere."""

    def __init__(self, known: Sequence[HotKey] = ()):
        self.known = list(known)

    def __bool__(self) -> bool:
        return bool(self.known)

    @property
    def hot(self) -> set[Key]:
        """The keys that are hot now."""
        return {key.key for key in self.known if key.until == FOREVER}

    @property
    def reason_to_wait(self) -> str | None:
        """Why rows of a join wait for the release point: what is joined first must be first in time in all shards."""
        return "has hot keys, and a pair is found where its earlier row is kept" if self.known else None

    def heat(self, keys: Iterable[HeavyKey], reached: int) -> None:
        """Keys become hot for rows after the latest that has come."""
        for key in keys:
            if key.key not in self.hot:
                self.known.append(HotKey(key.h1, key.h2, key.name, reached))

    def cool(self, keys: Iterable[HeavyKey], reached: int) -> None:
        """Keys are hot no more for rows after the latest that has come."""
        gone = {key.key for key in keys}
        self.known = [
            replace(key, until=reached) if key.key in gone and key.until == FOREVER else key for key in self.known
        ]

    def forget(self, release: int, reach: int) -> None:
        """Let go of keys whose rows are all at home again: those kept elsewhere have left the largest window."""
        self.known = [key for key in self.known if release - key.until < reach]

    def gather(
        self, join: SharedJoin, side: Side, rows: pa.Table, copies: pa.Table, place: tuple[int, int]
    ) -> pa.Table:
        """The rows that a shard takes of its own and of the copies of others' rows, and which of them it keeps."""
        if not self.known:
            return rows
        visit, spread = self._concerned(copies)
        copies, spread = copies.filter(pa.array(visit)), spread[visit]
        _, own = self._concerned(rows)
        both = pa.concat_tables([rows, copies])
        kept = np.concatenate([np.ones(rows.num_rows, bool), np.zeros(copies.num_rows, bool)])
        chosen = np.flatnonzero(np.concatenate([own, spread]))
        if len(chosen):
            kept[chosen] = content_homes(join, side, both.take(pa.array(chosen)), place[1]) == place[0]
        return both.append_column(KEPT, pa.array(kept))

    def _concerned(self, rows: pa.Table) -> tuple[Bools, Bools]:
        """Which rows visit every shard, and which of them are kept by their contents."""
        visit, spread = np.zeros(rows.num_rows, bool), np.zeros(rows.num_rows, bool)
        if not rows.num_rows:
            return visit, spread
        h1, h2, ts = (np.asarray(rows[name].fill_null(0)) for name in (H1, H2, TS))
        valid = np.asarray(rows[H1].is_valid())
        for key in self.known:
            after = valid & (h1 == key.h1) & (h2 == key.h2) & (ts > key.since)
            visit |= after
            spread |= after & (ts <= key.until)
        return visit, spread


def copies_of(parts: Sequence[pa.Table], keys: Iterable[Key]) -> list[pa.Table]:
    """For each shard, the rows of these keys that the others have."""
    wanted = set(keys)
    found = []
    for part in parts:
        h1, h2 = (np.asarray(part[name].fill_null(0)) for name in (H1, H2))
        mine, valid = np.zeros(part.num_rows, bool), np.asarray(part[H1].is_valid())
        for one, two in wanted:
            mine |= valid & (h1 == one) & (h2 == two)
        found.append(part.filter(pa.array(mine)))
    nothing = parts[0].slice(0, 0)
    return [pa.concat_tables([nothing, *found[:n], *found[n + 1 :]]) for n in range(len(parts))]
