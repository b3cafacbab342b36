"""What is added up over the whole lives of groups: as arrays, and as columns by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.core.aggregates import measures
from muntin.core.aggregates.aggregates import sums_of_doubles, whole_numbers
from muntin.core.storage import Layout
from muntin.kernels.aggregate import add_wide
from muntin.kernels.arrays import AnyArray, Bools, Floats, Int64s
from muntin.plan.families import Family


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


class Measures:
    """What a family adds up: whole numbers, sums of doubles in two halves, least and greatest values."""

    def __init__(self, family: Family):
        self.ints, self.extremes = whole_numbers(family), family.extremes
        self.doubles = [name for arg in sums_of_doubles(family) for name in measures.double_names(arg)]

    def columns(self, lanes: int) -> Layout:
        """How the totals of a group lie, by lane."""
        extremes = len(self.extremes)
        return [
            ((lanes, len(self.ints)), "int64"),
            ((lanes, len(self.doubles)), "float64"),
            ((lanes, extremes), "int64"),
            ((lanes, extremes), "bool"),
        ]

    def named(self, totals: Totals) -> dict[str, Any]:
        """Totals by the names that they are known by (core/aggregates/measures.py)."""
        found: dict[str, Any] = {name: totals.ints[:, n] for n, name in enumerate(self.ints)}
        found |= {name: totals.doubles[:, n] for n, name in enumerate(self.doubles)}
        for n, call in enumerate(self.extremes):
            found[measures.extreme_name(call)] = pa.array(totals.keys[:, n], mask=~totals.has[:, n])
        return found

    def read(self, table: pa.Table, windows: str) -> Totals:
        """The totals of a lane as they were written."""

        def numbers(names: Iterable[str], kind: Any) -> AnyArray:
            columns = [table[f"{windows} {name}"].fill_null(0).to_numpy() for name in names]
            return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), kind)

        extremes = [measures.extreme_name(call) for call in self.extremes]
        has = [np.asarray(table[f"{windows} {name}"].is_valid()) for name in extremes]
        present = np.stack(has, axis=1) if has else np.zeros((table.num_rows, 0), bool)
        return Totals(numbers(self.ints, np.int64), numbers(self.doubles, float), numbers(extremes, np.int64), present)
