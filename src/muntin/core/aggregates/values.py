"""From what shards know of groups to the rows of an aggregate query (semantics, section 7).

Shards send of each group the numbers it has from each instant on at which they change there (or at each instant at
which rows go out). Where a group is in several shards, its numbers at an instant are those that each shard sent last,
added up. From the numbers follow the values of the aggregates, from these the SELECT list and HAVING, and a row goes
out where the outcome is another than before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.aggregates.aggregates import V1, V2
from muntin.core.aggregates.groups import G1, G2, TIME, GroupValues
from muntin.core.aggregates.ranked_lists import list_rows
from muntin.core.aggregates.shard_values import begins, fingerprints, last, numbered, of_changed, shared
from muntin.core.results import OUTPUT_TS, output_schema
from muntin.kernels.aggregate import BEFORE, add_wide
from muntin.kernels.arrays import AnyArray, Bools, Int64s
from muntin.kernels.evaluate import evaluate
from muntin.model import Aggregation, Expr, Query
from muntin.plan.families import aggregation_of
from muntin.plan.functions import PAIRS, Measures, Numbers, function_of

FAULT = "_fault"


@dataclass
class GroupNumbers:
    """Numbers of groups, by group and time; `group` counts groups from 0, `at` is a row of `table` with its columns."""

    table: pa.Table
    at: Int64s
    group: Int64s
    time: Int64s
    numbers: Numbers


def finish(query: Query, parts: Sequence[GroupValues], apart: Mapping[str, bool]) -> tuple[pa.Table, pa.Table]:
    """The rows of a query in order of time, and those whose sums are too large for their type.

    `parts` are what the shards sent; `apart` says of which expressions they sent the different values too. Of rows with
    a fault there are the columns of the group, the output timestamp and the fault.
    """
    aggregation = aggregation_of(query)
    if aggregation.emits_changes:
        parts = of_changed(parts)
    if aggregation.top is not None:
        return list_rows(query, aggregation.top, parts), pa.table({FAULT: pa.array([], pa.string())})
    found = _together(aggregation, parts)
    for sql, is_apart in apart.items():
        if is_apart:
            found.numbers.columns[f"distinct {sql}"] = _distinct(
                found, [part.values[sql] for part in parts], aggregation.every_us
            )
    return _rows(query, aggregation, found)


# -- groups over several shards --------------------------------------------------------------------------------------


def _together(aggregation: Aggregation, parts: Sequence[GroupValues]) -> GroupNumbers:
    table = pa.concat_tables([part.table for part in parts]).combine_chunks()
    source = np.repeat(np.arange(len(parts)), [part.table.num_rows for part in parts])
    group, time = numbered(table, G1, G2), table[TIME].to_numpy()
    measures = Measures(aggregation.calls)
    whole = [name for name in measures.whole if name in table.column_names]
    valid = {extreme.name: np.asarray(table[extreme.name].is_valid()) for extreme in measures.extremes}
    texts, places = _texts(measures, table)
    names = [name for name in (*whole, *measures.halves, *valid) if name not in texts]
    numbers = places | {name: table[name].fill_null(0).to_numpy() for name in names}
    instants, rank = np.unique(time, return_inverse=True)
    key = group * len(instants) + rank.ravel()
    order = np.argsort(key, kind="stable")
    if len(parts) == 1 or not shared(group, source):
        own = {name: values[order] for name, values in numbers.items()}
        present = {name: flags[order] for name, flags in valid.items()}
        return GroupNumbers(table, order, group[order], time[order], Numbers(own, present, texts))
    wanted, first = np.unique(key, return_index=True)
    added: dict[str, AnyArray] = {name: np.zeros(len(wanted), np.int64) for name in (*whole, *valid)}
    added |= {name: np.zeros(len(wanted)) for name in measures.halves}
    present = {name: np.zeros(len(wanted), bool) for name in valid}
    for n in range(len(parts)):
        mine = order[source[order] == n]
        there, at = last(key[mine], wanted, len(instants), exact=not aggregation.emits_changes)
        rows = mine[at] if len(mine) else np.zeros(len(wanted), np.int64)
        for name in whole:
            added[name] += np.where(there, numbers[name][rows], 0)
        for wide in measures.wide:
            halves = wide.high, wide.low
            more = (np.where(there, numbers[name][rows], 0.0) for name in halves)
            added |= dict(zip(halves, add_wide(*(added[name] for name in halves), *more), strict=True))
        for name, flags in valid.items():
            has, own = there & flags[rows], numbers[name][rows]
            greater = has & (~present[name] | (own > added[name]))
            added[name] = np.where(greater, own, added[name])
            present[name] |= has
    return GroupNumbers(table, first, group[first], time[first], Numbers(added, present, texts))


def _texts(measures: Measures, table: pa.Table) -> tuple[dict[str, pa.Array], dict[str, AnyArray]]:
    """The texts of each extreme in order, and of each row the place of its own there, as its key."""
    texts, places = {}, {}
    for extreme in measures.extremes:
        if extreme.is_text:
            encoded = table[extreme.name].combine_chunks().dictionary_encode()
            order = pc.sort_indices(encoded.dictionary)
            place = np.zeros(len(order) + 1, np.int64)  # one more, for NULL
            place[order.to_numpy()] = np.arange(len(order))
            texts[extreme.name] = encoded.dictionary.take(order)
            places[extreme.name] = extreme.turned(place[encoded.indices.fill_null(len(order)).to_numpy()])
    return texts, places


def _distinct(found: GroupNumbers, parts: Sequence[pa.Table], every_us: int | None) -> Int64s:
    """How many different values each row's group has at its instant, from those that each shard had."""
    table = pa.concat_tables(parts).combine_chunks()
    source = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
    if not table.num_rows:
        return np.zeros(len(found.time), np.int64)
    groups = pa.concat_tables([found.table.select([G1, G2]), table.select([G1, G2])])
    group = numbered(groups, G1, G2)[found.table.num_rows :]  # numbered as in `found`: it has all groups that there are
    value, time = numbered(table, V1, V2), table[TIME].to_numpy()
    instants = np.unique(np.concatenate([found.time, time]))
    key = value * len(instants) + np.searchsorted(instants, time)
    wanted, first = np.unique(key, return_index=True)
    there = np.zeros(len(wanted), bool)
    for n in range(len(parts)):
        mine = np.flatnonzero(source == n)
        mine = mine[np.argsort(key[mine], kind="stable")]
        has, at = last(key[mine], wanted, len(instants), exact=every_us is not None)
        if len(mine):
            there |= has & (table[PAIRS].to_numpy()[mine[at]] > 0)
    state = there.astype(np.int64)
    step = state if every_us is not None else np.where(begins(value[first]), state, np.diff(state, prepend=0))
    places = group[first] * len(instants) + np.searchsorted(instants, time[first])
    order = np.argsort(places, kind="stable")
    sums = np.concatenate([[0], np.cumsum(step[order])])
    ends = found.group * len(instants) + np.searchsorted(instants, found.time)
    starts = ends if every_us is not None else found.group * len(instants)
    ordered = places[order]
    return sums[np.searchsorted(ordered, ends, side="right")] - sums[np.searchsorted(ordered, starts, side="left")]


# -- rows ------------------------------------------------------------------------------------------------------------


def _rows(query: Query, aggregation: Aggregation, found: GroupNumbers) -> tuple[pa.Table, pa.Table]:
    groups = [f"g.{n}" for n in range(len(aggregation.groups))]
    table = {name: found.table[name].take(pa.array(found.at)) for name in groups}
    faults: list[tuple[str, Bools]] = []
    for n, call in enumerate(aggregation.calls):
        table[f"a.{n}"], too_large = function_of(call).result(call, found.numbers)
        faults.append((f"overflow: {call.text} does not fit into {call.type}", too_large))
    values = pa.table({**table, TIME: found.time})
    outputs = _evaluated(values, [o.expr for o in query.select])
    wrong = np.any([flags for _, flags in faults], axis=0) if faults else np.zeros(len(found.time), bool)
    shown = ~wrong
    if aggregation.having is not None:
        shown &= np.asarray(_evaluated(values, [aggregation.having])[0].fill_null(False))
    new = _news(found, outputs, shown, wrong) if aggregation.emits_changes else np.ones(len(found.time), bool)
    chosen = np.flatnonzero(new & shown)
    chosen = chosen[np.argsort(found.time[chosen], kind="stable")]
    times = pa.array(found.time[chosen]).cast(OUTPUT_TS.type)
    rows = [column.take(pa.array(chosen)) for column in outputs]
    return pa.Table.from_arrays([*rows, times], schema=output_schema(query)), _faulty(values, groups, faults, wrong)


def _news(found: GroupNumbers, outputs: list[pa.ChunkedArray], shown: Bools, wrong: Bools) -> Bools:
    """Where a row differs from the one before of the same group, or there was none."""
    h1, h2 = fingerprints(outputs)
    live, first = found.numbers[PAIRS] > 0, begins(found.group)
    was_live = np.where(first, False, np.roll(live, 1))
    was_shown = np.where(first, False, np.roll(shown, 1))
    differs = (h1 != np.roll(h1, 1)) | (h2 != np.roll(h2, 1)) | (wrong != np.roll(wrong, 1))
    appears = live & ~(was_live & was_shown)
    return (found.time != BEFORE) & (appears | (~first & (live | was_live) & differs))


def _evaluated(table: pa.Table, exprs: Sequence[Expr]) -> list[pa.ChunkedArray]:
    """Expressions over groups and aggregates; what is nothing but one of them is not computed."""
    bare = {f'"{name}"': name for name in table.column_names}
    computed = iter(evaluate(table, [(e.sql, e.type) for e in exprs if e.sql not in bare]))
    return [table[bare[e.sql]] if e.sql in bare else next(computed) for e in exprs]


def _faulty(values: pa.Table, groups: list[str], faults: list[tuple[str, Bools]], wrong: Bools) -> pa.Table:
    """The groups and instants at which something does not fit, each with the first reason."""
    at = np.flatnonzero(wrong & (values[TIME].to_numpy() != BEFORE))
    reasons = [next(reason for reason, flags in faults if flags[n]) for n in at]
    chosen = values.select([*groups, TIME]).take(pa.array(at))
    times = chosen[TIME].cast(OUTPUT_TS.type)
    columns = {**{name: chosen[name] for name in groups}, OUTPUT_TS.name: times, FAULT: pa.array(reasons, pa.string())}
    return pa.table(columns)
