"""When keys are over, for EMIT FINAL: event times, whatever the micro-batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from muntin.core.aggregates.durable_totals import Entries
from muntin.core.arrivals import FOREVER
from muntin.core.storage import Heap, flat
from muntin.kernels.arrays import AnyArray, Int64s


class KeyEnds(NamedTuple):
    """Keys that are over for a window, in order of time."""

    h1: Int64s
    h2: Int64s
    at: Int64s
    window: Int64s

    @classmethod
    def of(cls, parts: Iterable[tuple[Int64s, Int64s, Int64s, Int64s]]) -> KeyEnds:
        none = np.zeros(0, np.int64)
        h1, h2, at, window = (np.concatenate(c) for c in zip((none, none, none, none), *parts, strict=True))
        order = np.lexsort((window, at))
        return cls(h1[order], h2[order], at[order], window[order])

    def chosen(self, which: AnyArray) -> KeyEnds:
        return KeyEnds._make(column[which] for column in self)


def first_ends(ends: KeyEnds, h1: Int64s, h2: Int64s) -> Int64s:
    """For each key, the first time at which it ends; FOREVER where it does not."""
    found = np.full(len(h1), FOREVER)
    if not len(ends.at) or not len(h1):
        return found
    known = Entries(flat("int64"), Heap())
    slots, born = known.find(ends.h1, ends.h2)
    known.columns[0][slots[born]] = ends.at[born]  # the first of each key: ends are in order of time
    slots = known.seek(h1, h2)
    return np.where(slots >= 0, known.columns[0][slots], FOREVER)
