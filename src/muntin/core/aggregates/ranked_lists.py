"""From lists of the first pairs of groups to the rows of a query (semantics, section 7).

Shards send the list of each group from each instant on at which it may have changed there (or at each instant at which
rows go out). Where a group is in several shards, its list at an instant is made of those that each shard sent last.
Rows go out where a list is another than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates.groups import G1, G2, TIME, GroupValues
from muntin.core.aggregates.labels import LABEL, OCTETS
from muntin.core.aggregates.shard_values import begins, fingerprints, last, numbered, shared
from muntin.core.aggregates.top import ENTRIES, PLACE
from muntin.core.results import OUTPUT_TS, output_schema
from muntin.kernels.aggregate import BEFORE
from muntin.kernels.arrays import Bools, Int64s
from muntin.model import Query
from muntin.model.job import Top
from muntin.plan.families import aggregation_of


class RankedLists(NamedTuple):
    """Lists by group and time: where each begins in `entries`, how long it is, and a row that has its group."""

    group: Int64s
    time: Int64s
    start: Int64s
    length: Int64s
    row: Int64s
    entries: Int64s

    def of(self, chosen: Int64s) -> tuple[Int64s, Int64s]:
        """Of the pairs of these lists, the number of the list and the place in it; one for a list without pairs."""
        shown = np.maximum(self.length[chosen], 1)
        place = np.arange(shown.sum()) - np.repeat(np.cumsum(shown) - shown, shown)
        return np.repeat(chosen, shown), place


def list_rows(query: Query, top: Top, parts: Sequence[GroupValues]) -> pa.Table:
    """The rows of a query in order of time."""
    table = pa.concat_tables([part.table for part in parts]).combine_chunks()
    entries = pa.concat_tables([part.values[ENTRIES] for part in parts]).combine_chunks()
    every = aggregation_of(query).every_us is not None
    lists = _lists(parts, table, _ranks(entries[OCTETS]), top.limit, every)
    new = lists.length > 0 if every else _news(lists, entries.select(list(_names(top))))
    chosen = np.flatnonzero(new)
    of, place = lists.of(chosen[np.argsort(lists.time[chosen], kind="stable")])
    empty = lists.length[of] == 0
    entry = np.where(empty, 0, lists.start[of] + place)
    at = pa.array(lists.entries[entry] if len(lists.entries) else entry, mask=empty)
    columns = []
    for name, column in zip(_names(top), top.columns, strict=True):
        values = entries[name].take(at)
        for n, group in enumerate(aggregation_of(query).groups):
            if group.sql == column.sql:  # a list without pairs still says whose it is
                values = pc.if_else(pa.array(empty), table[f"g.{n}"].take(pa.array(lists.row[of])), values)
        columns.append(values)
    rank = pa.array(np.where(empty, 0, place + 1), pa.int32())
    times = pa.array(lists.time[of]).cast(OUTPUT_TS.type)
    return pa.Table.from_arrays([*columns, rank, times], schema=output_schema(query))


def _names(top: Top) -> list[str]:
    return [f"t.{n}" for n in range(len(top.columns))]


def _ranks(octets: pa.ChunkedArray) -> Int64s:
    """The place of each among all in order."""
    return pc.rank(octets, tiebreaker="dense").to_numpy().astype(np.int64)


def _lists(parts: Sequence[GroupValues], table: pa.Table, ranks: Int64s, limit: int, every: bool) -> RankedLists:
    """The lists of all groups; those of a group in several shards merged."""
    bases = np.cumsum([0, *(part.values[ENTRIES].num_rows for part in parts)])
    entry = np.concatenate([
        base + np.searchsorted(part.values[ENTRIES][LABEL].to_numpy(), part.table[LABEL].to_numpy())
        for base, part in zip(bases, parts, strict=False)
    ])  # fmt: skip
    source = np.repeat(np.arange(len(parts)), [part.table.num_rows for part in parts])
    group, time, place = numbered(table, G1, G2), table[TIME].to_numpy(), table[PLACE].to_numpy()
    instants, rank = np.unique(time, return_inverse=True)
    key = group * len(instants) + rank.ravel()
    order = np.lexsort((place, key))
    if len(parts) == 1 or not shared(group, source):
        keys, start, row = _heads(key, place, order)
        length = _lengths(start, place[order])
        pairs = place[order] > 0
        return RankedLists(group[row], time[row], (np.cumsum(pairs) - pairs)[start], length, row, entry[order][pairs])
    wanted, row = np.unique(key, return_index=True)
    of, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for n in range(len(parts)):
        mine = order[source[order] == n]
        keys, start, _ = _heads(key, place, mine)
        length = _lengths(start, place[mine])
        there, at = last(keys, wanted, len(instants), exact=every)
        size = np.where(there, length[at], 0) if len(keys) else np.zeros(len(wanted), np.int64)
        list_of = np.repeat(np.arange(len(wanted)), size)
        within = np.arange(len(list_of)) - np.repeat(np.cumsum(size) - size, size)
        of.append(list_of)
        found.append(entry[mine[start[at[list_of]] + within]] if len(list_of) else found[0])
    lists, merged = np.concatenate(of), np.concatenate(found)
    order = np.lexsort((ranks[merged], lists))
    lists, merged = lists[order], merged[order]
    size = np.bincount(lists, minlength=len(wanted))
    within = np.arange(len(lists)) - np.repeat(np.cumsum(size) - size, size)
    length = np.minimum(size, limit)
    return RankedLists(group[row], time[row], np.cumsum(length) - length, length, row, merged[within < limit])


def _heads(key: Int64s, place: Int64s, order: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Of rows in order of list and place: the key of each list, where it begins, and its first row."""
    start = np.flatnonzero(begins(key[order]))
    return key[order][start], start, order[start]


def _lengths(start: Int64s, place: Int64s) -> Int64s:
    """How many pairs each list has: a list without has one row, of place 0."""
    ends = np.append(start[1:], len(place)) - 1
    return place[ends] if len(start) else np.zeros(0, np.int64)


def _news(lists: RankedLists, columns: pa.Table) -> Bools:
    """Where a list differs from the one before of the same group; what there was before all is an empty one."""
    h1, h2 = fingerprints(columns.columns)
    first = begins(lists.group)
    before = np.where(first, 0, np.roll(lists.length, 1))
    differs = lists.length != before
    same = np.flatnonzero(~differs & ~first)
    same = same[lists.length[same] > 0]
    of, place = lists.of(same)
    own, others = (lists.entries[lists.start[at] + place] for at in (of, of - 1))
    other = (h1[own] != h1[others]) | (h2[own] != h2[others])
    differs[of[other]] = True
    return differs & (lists.time != BEFORE)
