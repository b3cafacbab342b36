"""What is added up over the whole lives of groups: as arrays, and as columns by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.core.storage import Layout
from muntin.kernels.aggregate import add_wide
from muntin.kernels.arrays import AnyArray, Bools, Floats, Int64s
from muntin.plan.functions import Measures


class Totals(NamedTuple):
    """What is added up, for some groups."""

    ints: Int64s
    doubles: Floats
    keys: Int64s
    has: Bools


def together(one: Totals, other: Totals) -> Totals:
    """The totals of both."""
    halves = [half.ravel() for sums in (one.doubles, other.doubles) for half in (sums[:, ::2], sums[:, 1::2])]
    high, low = add_wide(*(np.ascontiguousarray(half) for half in halves))
    doubles = np.empty_like(one.doubles)
    doubles[:, ::2], doubles[:, 1::2] = high.reshape(doubles[:, ::2].shape), low.reshape(doubles[:, ::2].shape)
    both = one.has & other.has
    keys = np.where(both, np.maximum(one.keys, other.keys), np.where(one.has, one.keys, other.keys))
    return Totals(one.ints + other.ints, doubles, keys, one.has | other.has)


class TotalsLayout:
    """How the totals of a family lie: by number in memory, by name in the log."""

    def __init__(self, measures: Measures):
        self._measures = measures

    def columns(self, windows: int) -> Layout:
        """How the totals of a group lie, by window."""
        measures, extremes = self._measures, len(self._measures.extremes)
        return [
            ((windows, len(measures.whole)), "int64"),
            ((windows, len(measures.halves)), "float64"),
            ((windows, extremes), "int64"),
            ((windows, extremes), "bool"),
        ]

    def named(self, totals: Totals) -> dict[str, Any]:
        """Totals by the names that they are kept under."""
        found: dict[str, Any] = {name: totals.ints[:, n] for n, name in enumerate(self._measures.whole)}
        found |= {name: totals.doubles[:, n] for n, name in enumerate(self._measures.halves)}
        for n, extreme in enumerate(self._measures.extremes):
            found[extreme.name] = pa.array(totals.keys[:, n], mask=~totals.has[:, n])
        return found

    def read(self, table: pa.Table, window: str) -> Totals:
        """The totals of a window as they were written."""

        def numbers(names: Iterable[str], kind: Any) -> AnyArray:
            columns = [table[f"{window} {name}"].fill_null(0).to_numpy() for name in names]
            return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), kind)

        extremes = [extreme.name for extreme in self._measures.extremes]
        has = [np.asarray(table[f"{window} {name}"].is_valid()) for name in extremes]
        present = np.stack(has, axis=1) if has else np.zeros((table.num_rows, 0), bool)
        ints, doubles = numbers(self._measures.whole, np.int64), numbers(self._measures.halves, float)
        return Totals(ints, doubles, numbers(extremes, np.int64), present)
