"""Rows of one side that go out without a match at times of their own: each is looked at when its time has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from muntin.core.selections import own_windows
from muntin.core.storage import Memory, QueueImage, StoredRows, TimeRuns, flat
from muntin.kernels.arrays import Bools, Int32s, Int64s, UInt64s

AT, TS, ROW = 0, 1, 2
"""Of each row when it may have to be emitted, its own time, and its number; -1: it is emitted no more."""
COLUMNS = flat("int64", "int64", "int64")


@dataclass(frozen=True)
class OwnEmission:
    """Queries that emit rows at the same times of their own."""

    until: str
    number: int
    """The time until when a row waits, as text and among those beside the row."""
    window: int
    queries: UInt64s

    @property
    def key(self) -> tuple[str, int]:
        return self.until, self.window


OwnDeparturesImage = list[list[QueueImage]]


class OwnDepartures:
    """For each group of such queries the rows that they may have to emit, by when."""

    def __init__(self, memory: Memory, emissions: Sequence[OwnEmission], image: OwnDeparturesImage | None = None):
        self._memory = memory
        self._emissions = list(emissions)
        images = image or [[] for _ in emissions]
        self._rows = [TimeRuns(memory, COLUMNS, own) for own in images]

    @property
    def image(self) -> OwnDeparturesImage:
        return [rows.image for rows in self._rows]

    @property
    def nbytes(self) -> int:
        return sum(rows.nbytes for rows in self._rows)

    def joined(self, numbers: Int64s, classes: Int32s, times: Int64s, wants: UInt64s, after: int | None) -> None:
        """Rows have been joined; those that some query may emit, after a time if one is given, will be looked at."""
        for emission, rows in zip(self._emissions, self._rows, strict=True):
            asked = (wants[classes] & emission.queries).any(axis=1)
            at = times[:, 0] + own_windows(emission.window, times, emission.number)
            if after is not None:
                asked &= at > after
            rows.add([at[asked], times[asked, 0], numbers[asked]])

    def due(self, release: int) -> Iterator[tuple[UInt64s, Int64s, Int64s, Int64s]]:
        """Of each group its queries, and the rows whose time has come: when, their own times, and numbers."""
        for emission, rows in zip(self._emissions, self._rows, strict=True):
            at, ts, numbers = rows.take(release)
            there = np.flatnonzero(numbers >= 0)
            yield emission.queries, at[there], ts[there], numbers[there]

    @property
    def waiting(self) -> tuple[Int64s, Int64s]:
        """Times and numbers of all rows that may have to be emitted, each once."""
        runs = [run for rows in self._rows for run in rows.runs]
        ts, numbers = (np.concatenate([np.zeros(0, np.int64), *(run[n] for run in runs)]) for n in (TS, ROW))
        _, first = np.unique(numbers, return_index=True)
        first = first[numbers[first] >= 0]
        return ts[first], numbers[first]

    def renumber(self, old: Int64s, new: Int64s) -> None:
        """Give the rows with some numbers, ascending, new ones."""
        for numbers in self._numbers():
            at = np.searchsorted(old, numbers).clip(max=len(old) - 1)
            numbers[:] = np.where(old[at] == numbers, new[at], numbers)

    def forget(self, which: Callable[[Int64s], Bools]) -> None:
        """Tell the rows no more that have certain numbers."""
        for numbers in self._numbers():
            numbers[which(numbers)] = -1

    def _numbers(self) -> Iterator[Int64s]:
        return (run[ROW] for rows in self._rows for run in rows.runs)

    def change(self, emissions: Sequence[OwnEmission]) -> None:
        """Go on with other queries: groups that were there keep their rows."""
        before = {emission.key: rows for emission, rows in zip(self._emissions, self._rows, strict=True)}
        none = [TimeRuns(self._memory, COLUMNS) for _ in emissions]
        self._rows = [before.pop(emission.key, new) for emission, new in zip(emissions, none, strict=True)]
        self._emissions = list(emissions)
        for rows in before.values():
            rows.discard()

    def relist(self, wants: UInt64s, payload: StoredRows) -> None:
        """Once the rows have their classes by other queries: emit those no more that nobody asks about."""
        for emission, rows in zip(self._emissions, self._rows, strict=True):
            for run in rows.runs:
                there = np.flatnonzero(run[ROW] >= 0)
                there = there[np.argsort(run[ROW][there])]
                classes, _ = payload.known_of(run[ROW][there])
                run[ROW][there[~(wants[classes] & emission.queries).any(axis=1)]] = -1
