"""What several shards have sent of groups, side by side: which rows are of the same group, and what each sent last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.core.aggregates.groups import G1, TIME, GroupValues
from muntin.kernels.aggregate import BEFORE
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.hashing import hash_keys


def of_changed(parts: Sequence[GroupValues]) -> list[GroupValues]:
    """Without the groups of which there is nothing but what was before; a few others may stay.

    Where groups are in several shards, each shard says how things stand with all of its groups, since it does not know
    which will change elsewhere: with many groups that is nearly all that is sent.
    """
    times = [part.table[TIME].to_numpy() for part in parts]
    pairs = zip(parts, times, strict=True)
    changed = np.sort(np.concatenate([part.table[G1].to_numpy()[time != BEFORE] for part, time in pairs]))

    def chosen(table: pa.Table) -> pa.Table:
        if G1 not in table.column_names:
            return table
        own = table[G1].to_numpy()
        at = np.minimum(np.searchsorted(changed, own), len(changed) - 1)
        return table.filter(pa.array(changed[at] == own)) if len(changed) else table.slice(0, 0)

    tables = [(chosen(part.table), {name: chosen(table) for name, table in part.values.items()}) for part in parts]
    return [GroupValues(part.query, *own) for part, own in zip(parts, tables, strict=True)]


def numbered(table: pa.Table, *columns: str) -> Int64s:
    """A number for each different combination of these columns."""
    values = [table[c].to_numpy() for c in columns]
    order = np.lexsort(values)
    new = np.any([begins(column[order]) for column in values], axis=0)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers


def shared(group: Int64s, source: Int64s) -> bool:
    """Whether some group is in several sources."""
    groups = int(group.max(initial=-1)) + 1
    first = np.zeros(groups, np.int64)
    first[group] = source
    return bool((first[group] != source).any())


def last(keys: Int64s, wanted: Int64s, instants: int, exact: bool) -> tuple[Bools, Int64s]:
    """For each wanted (group, instant): whether there is an entry for the group by then, and where the last is."""
    at = np.searchsorted(keys, wanted, side="right") - 1
    there = at >= 0
    at = np.maximum(at, 0)
    if len(keys):
        there &= keys[at] == wanted if exact else keys[at] // instants == wanted // instants
    return there & bool(len(keys)), at


def begins(numbers: Int64s) -> Bools:
    """Where a number differs from the one before."""
    return np.concatenate([[True], numbers[1:] != numbers[:-1]]) if len(numbers) else np.zeros(0, bool)


def fingerprints(columns: list[pa.ChunkedArray]) -> tuple[Int64s, Int64s]:
    """128 bits for each row that say whether all columns are equal, NULL being equal to NULL."""
    return hash_keys([part for column in columns for part in (column, column.is_null())])[:2]
