"""The rows of a join without an equality in order of a value (plan/ordered.py), beside the index that has them all.

What it **is**: for each side, the rows of the index whose value is not NULL, in the runs of `kernels.ordered`, and
perhaps some that are stale. It follows from the index and the stored rows, so it is not durable: it is made again after
a restart, and when queries change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin.core.selections import Selections, query_flags
from muntin.core.storage import Memory, StoredRows
from muntin.kernels.arrays import Floats, Int64s
from muntin.kernels.evaluate import evaluate
from muntin.kernels.index import CLASS_BITS
from muntin.kernels.join import LATE, Rows
from muntin.kernels.ordered import (
    COUNT,
    LAST,
    MOST_RUNS,
    START,
    Ordered,
    Wanted,
    close_up,
    locate,
    merge,
    ordered_layout,
)
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.ordered import OrderedValues, ordered_values

DAY_US = 86_400_000_000
LEAST_PART, MOST_PART = 1 << 8, 1 << 13
"""Rows that probe together: those among them are met twice as often as need be, so few beside the rows kept."""
PARTS = 8
"""No run has more than this part of a side's rows, unless it is small: its stale rows are passed by."""
SMALL_RUN = 1 << 10
NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class OrderedImage:
    """What another process needs, beside the memory, to go on with rows in order."""

    name: str
    room: list[int]


class OrderedRows:
    def __init__(
        self, values: OrderedValues, payload: Sequence[StoredRows], memory: Memory, image: OrderedImage | None = None
    ):
        self.values = values
        self._payload = payload
        self._memory = memory
        self._now = [-LATE, -LATE]
        self.keep = np.full((2, 1), LATE)
        """How long the rows of each class of each side stay."""
        if image:
            self._name, self._room = image.name, list(image.room)
            arrays = memory.arrays(self._name, self._layout(self._room))
            self.sides = Ordered(*arrays[:3]), Ordered(*arrays[3:])
        else:
            self._allocate([1 << 10, 1 << 10])

    @classmethod
    def open(
        cls, join: SharedJoin, payload: Sequence[StoredRows], memory: Memory, image: OrderedImage | None
    ) -> OrderedRows | None:
        """Those of a join; None where it has an equality, or looks at every pair."""
        values = ordered_values(join) if payload else None
        return cls(values, payload, memory, image) if values is not None else None

    @property
    def image(self) -> OrderedImage:
        return OrderedImage(self._name, self._room)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for side in self.sides for array in side)

    @staticmethod
    def _layout(room: Sequence[int]) -> list[tuple[tuple[int, ...], str]]:
        return [*ordered_layout(room[0]), *ordered_layout(room[1])]

    def _allocate(self, room: list[int]) -> None:
        self._name, self._room = self._memory.name("ordered"), room
        arrays = self._memory.allocate(self._name, self._layout(room))
        self.sides = Ordered(*arrays[:3]), Ordered(*arrays[3:])

    def discard(self) -> None:
        self._memory.discard(self._name)

    # -- values ---------------------------------------------------------------------------------------------------

    def of(self, side: Side, numbers: Int64s) -> Floats:
        """The values of stored rows; NaN where a row has none. NaN itself counts as infinite: it is greater than all
        numbers."""
        rows, places = self._payload[side].fetch(numbers)
        value = self.values.ranges[0].side(side)
        if value.column is not None:
            column = rows[value.column[1]]
        else:
            named = rows.rename_columns([side.prefix + name for name in rows.column_names])
            (column,) = evaluate(named, [(value.sql, value.type)])
        return _as_floats(column)[places]

    def of_rows(self, rows: Rows) -> Floats:
        found = np.empty(len(rows.ts))
        for side in Side:
            own = np.flatnonzero(rows.side == side)
            found[own] = self.of(side, rows.row[own])
        return found

    def offsets(self, selects: bool, selections: Sequence[Selections]) -> Floats:
        """For each class of each side, how far below and above its value the values of partners lie that queries
        want."""
        ends = [(r.low, r.high) for r in self.values.ranges]
        lows = np.array([-np.inf if low is None else low for low, _ in ends])
        highs = np.array([np.inf if high is None else high for _, high in ends])
        classes = max(len(s.wants) for s in selections)
        found = np.zeros((2, classes, 2))
        for side in Side:
            wants = query_flags(selections[side].wants, len(ends)) | (not selects)
            low = np.where(wants, lows, np.inf).min(axis=1, initial=np.inf)
            high = np.where(wants, highs, -np.inf).max(axis=1, initial=-np.inf)
            both = (low, high) if side is Side.LEFT else (-high, -low)
            found[side, : len(wants)] = np.stack(both, axis=1)
        return found

    # -- rows come and go -----------------------------------------------------------------------------------------

    def part(self, live: int) -> int:
        """Rows that probe together where so many are kept."""
        return int(np.clip(live // PARTS, LEAST_PART, MOST_PART))

    def add(self, side: Side, rows: Rows, chosen: Int64s, values: Floats) -> Int64s:
        """Take in the newest rows, those that are chosen of `rows`, as a run; returns them in their order there."""
        own = chosen[~np.isnan(values[chosen])]
        own = own[np.argsort(values[own], kind="stable")]
        entries = np.stack([rows.at[own], rows.row[own] << CLASS_BITS | rows.cls[own]], axis=1)
        self._append(side, values[own], entries)
        return own

    def _append(self, side: Side, values: Floats, entries: Int64s) -> None:
        if not len(values):
            return
        runs, start = self.sides[side].runs, self._end(side)
        if start + len(values) > self._room[side] or runs[0, 0] == MOST_RUNS:
            self._make_room(side, len(values))
            runs, start = self.sides[side].runs, self._end(side)
        stop = start + len(values)
        self.sides[side].values[start:stop], self.sides[side].entries[start:stop] = values, entries
        runs[0, 0] += 1
        runs[runs[0, 0]] = start, len(values), entries[:, 0].min(), entries[:, 0].max()

    def _end(self, side: Side) -> int:
        runs = self.sides[side].runs
        return int(runs[runs[0, 0], START] + runs[runs[0, 0], COUNT]) if runs[0, 0] else 0

    def count(self, side: Side) -> int:
        """Rows in the runs of a side, stale ones included."""
        runs = self.sides[side].runs
        return int(runs[1 : 1 + runs[0, 0], COUNT].sum())

    def _make_room(self, side: Side, more: int) -> None:
        """Move the runs together, and where that is not enough into larger arrays."""
        if self.sides[side].runs[0, 0] == MOST_RUNS:
            counts = self.sides[side].runs[1:, COUNT]
            merge(self.sides[side], int(np.argmin(counts[1:] + counts[:-1])), self._now[side], self.keep[side])
        rows = int(close_up(self.sides[side], self._now[side], self.keep[side]))
        if rows + more > self._room[side] // 2:
            self._move([2 * (rows + more) + 1024 if s is side else self._room[s] for s in Side])

    def _move(self, room: list[int]) -> None:
        old, name = self.sides, self._name
        self._allocate(room)
        for side in Side:
            self.sides[side].runs[:] = old[side].runs
            end = self._end(side)
            self.sides[side].values[:end] = old[side].values[:end]
            self.sides[side].entries[:end] = old[side].entries[:end]
        self._memory.discard(name)

    def merge(self) -> None:
        """Make one run of neighbours while the newer has half the size of the older."""
        for side in Side:
            runs = self.sides[side].runs
            most = max(SMALL_RUN, self.count(side) // PARTS)
            while runs[0, 0] > 1:
                older, newer = runs[runs[0, 0] - 1, COUNT], runs[runs[0, 0], COUNT]
                if 2 * newer < older or older + newer > most:
                    break
                merge(self.sides[side], int(runs[0, 0]) - 2, self._now[side], self.keep[side])

    def forget(self, side: Side, now: int, live: int) -> None:
        """Let go of runs that are stale as a whole; of all stale rows where few others are left."""
        self._now[side] = now
        runs, longest = self.sides[side].runs, int(self.keep[side].max(initial=0))
        gone = 0
        while gone < runs[0, 0] and now - runs[gone + 1, LAST] >= longest:
            gone += 1
        if gone:
            left = int(runs[0, 0]) - gone
            runs[1 : 1 + left] = runs[1 + gone : 1 + gone + left].copy()
            runs[0, 0] = left
        if self.count(side) > 2 * live + SMALL_RUN:
            close_up(self.sides[side], now, self.keep[side])

    def fill(self, side: Side, places: Int64s, rows_and_classes: Int64s) -> None:
        """Take in all rows of a side, in order of their places, where there are none."""
        values = self.of(side, rows_and_classes >> CLASS_BITS)
        known = np.flatnonzero(~np.isnan(values))
        size = max(SMALL_RUN, -(-len(known) // PARTS))
        for start in range(0, len(known), size):
            own = known[start : start + size]
            own = own[np.argsort(values[own], kind="stable")]
            self._append(side, values[own], np.stack([places[own], rows_and_classes[own]], axis=1))

    def settle(self) -> None:
        """Give memory back after the rows have become much fewer."""
        counts = [self.count(side) for side in Side]
        if any(room > 8 * count + 8192 for room, count in zip(self._room, counts, strict=True)):
            for side in Side:
                close_up(self.sides[side], self._now[side], self.keep[side])
            self._move([2 * count + 1024 for count in counts])

    # -- rows look for partners -----------------------------------------------------------------------------------

    def wanted(self, rows: Rows, values: Floats, offsets: Floats, since: tuple[Int64s, Int64s]) -> Wanted:
        """What rows that probe want of the rows in order."""
        below, above = offsets[rows.side, rows.cls].T
        off = self.values.rounding
        with np.errstate(invalid="ignore"):
            low = values + below - (np.abs(values) + np.abs(below)) * off
            high = values + above + (np.abs(values) + np.abs(above)) * off
        for end, offset in ((low, below), (high, above)):
            np.copyto(end, values, where=np.isinf(values))
            np.copyto(end, offset, where=np.isinf(offset))
            end[np.isnan(values)] = np.nan
        runs = max(int(side.runs[0, 0]) for side in self.sides)
        starts = np.zeros((len(values), runs), np.int64)
        order = np.argsort(low, kind="stable")
        order = order[~np.isnan(low[order])]
        for side in Side:
            own = order[rows.side[order] == side]
            theirs = self.sides[side.other]
            locate(theirs.runs, theirs.values, low, own, starts)
        return Wanted(low, high, starts, since)


def _as_floats(column: pa.ChunkedArray) -> Floats:
    """Numbers, or times in microseconds, as doubles; NaN where there is none, and infinite for NaN."""
    kind, missing = column.type, np.asarray(column.is_null())
    if pa.types.is_date(kind):
        found = column.cast(pa.int32()).fill_null(0).to_numpy().astype(np.float64) * DAY_US
    elif pa.types.is_timestamp(kind):
        found = column.cast(pa.int64()).fill_null(0).to_numpy().astype(np.float64)
    else:
        found = column.cast(pa.float64(), safe=False).fill_null(0).to_numpy().astype(np.float64)
    found = np.where(np.isnan(found), np.inf, found)
    found[missing] = np.nan
    return found
