"""Rows that are about to be joined meet the promises before them, in order of event time (ding2004 4.2, 4.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.core.arrivals import FOREVER
from muntin.core.punctuations.join_view import JoinView
from muntin.core.punctuations.promise_log import LoggedPromises, Marks
from muntin.core.punctuations.promised_keys import PromisedKeys
from muntin.core.punctuations.propagation import NewPromises
from muntin.core.punctuations.rules import PromiseRules
from muntin.core.storage import ChunkKind
from muntin.kernels.arrays import AnyArray, Int64s, UInt8s
from muntin.kernels.join import Rows
from muntin.kernels.promises import (
    BROKEN,
    COVERED,
    MARK,
    NONE,
    PASSES,
    SILENT,
    Outcome,
    PromiseEvents,
    Table,
    clear_table,
    table_layout,
    walk,
)
from muntin.model import Side

LastRows = Callable[[Int64s, Int64s, Int64s], Int64s]
"""By both halves of keys and a time for each: the last rows not after it, for each family of finals."""


@dataclass(frozen=True)
class Encounter:
    """What became of rows that met promises, and of the promises among them."""

    fate: UInt8s
    """Of each row (kernels/promises.py)."""
    made: Int64s
    """Of each row, the number of the promise that it made; NONE where it made none."""
    events: PromiseEvents
    outcome: Outcome


def meet(
    view: JoinView,
    rules: PromiseRules,
    rows: Rows,
    marks: Sequence[Marks],
    promised: Sequence[PromisedKeys],
    numbers: Int64s,
    before: int,
) -> Encounter:
    """Hold rows against the promises before them, and enter the `marks` of each side into the tables.

    `before` is the release point that they all come after. Promises of unique rows get the next of `numbers`.
    """
    events, order = _events(rows, marks)
    total, count = len(order), len(rows.ts)
    for side in Side:
        own = int((rows.side == side).sum()) if rules.unique[side] else 0
        promised[side].reserve(len(marks[side].ts) + own, before, int(rules.binding_us[side]))
    retentions, any_marks = view.retentions, total > count
    stay = np.concatenate([retentions[rows.side, rows.cls], np.zeros(total - count, np.int64)])[order]
    outcome, recent = _outcome(total), _table(max(2, count) if any_marks else 0)
    chain = np.full(total if any_marks else 0, -1)
    walk(
        *(keys.table for keys in promised),
        view.state.index,
        events,
        stay,
        retentions,
        rules.unique,
        rules.binding_us,
        rules.timed,
        numbers,
        recent,
        chain,
        outcome,
    )
    fate, made = _in_place(order, outcome.fate)[:count], _in_place(order, outcome.number)[:count]
    if not rules.frees:
        fate[fate > BROKEN] = PASSES
    fate[(fate == SILENT) & rules.preserved[rows.side]] = COVERED  # it has no partner, which is to be emitted
    return Encounter(fate, made, events, outcome)


def enter_again(
    view: JoinView, rules: PromiseRules, logged: Sequence[Sequence[LoggedPromises]], promised: Sequence[PromisedKeys]
) -> list[NewPromises]:
    """Enter promises of both sides that were in force before a restart, in order of event time."""
    bits, none = np.zeros(0, np.uint8), np.zeros(0, np.int64)
    parts, last_rows, with_marks = [(bits, bits, none, none, none, none, none)], [none], [bits]
    for side in Side:
        for known in logged[side]:
            parts.append(_columns(side, known.marks))
            last_rows.append(known.last)
            with_marks.append(np.full(len(known.last), known.kind is not ChunkKind.UNIQUE, np.uint8))
    events = PromiseEvents._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((np.concatenate(with_marks), events.ts))  # rows come before the marks of their time
    events, last = PromiseEvents._make(column[order] for column in events), np.concatenate(last_rows)[order]
    for side in Side:
        promised[side].reserve(int((events.side == side).sum()), -FOREVER, int(rules.binding_us[side]))
    nobody, nothing = np.zeros(2, bool), np.zeros(len(order), np.int64)
    outcome, unused = _outcome(len(order)), np.zeros(2, np.int64)
    tables = (keys.table for keys in promised)
    retentions = np.zeros((2, 1), np.int64)
    how = nobody, rules.binding_us, nobody, unused
    walk(*tables, view.state.index, events, nothing, retentions, *how, _table(0), nothing, outcome)
    outcome.last[:] = last
    families = len(view.finals.states)
    unknown: LastRows = lambda h1, h2, until: np.full((families, len(until)), NONE)  # noqa: E731
    return [new_promises(rules, side, events, outcome, unknown) for side in Side]


def new_promises(
    rules: PromiseRules, side: Side, events: PromiseEvents, outcome: Outcome, last_rows: LastRows
) -> NewPromises:
    """The promises of a side that came into force among some events."""
    chosen = np.flatnonzero((outcome.number != NONE) & (events.side == side))
    tp, last = events.ts[chosen], outcome.last[chosen]
    until = np.where(events.kind[chosen] == MARK, events.until[chosen], tp + rules.binding_us[side])
    if not rules.timed[side]:  # nobody knows when so many rows will have come
        last = np.where(last == NONE, NONE, FOREVER)
    h1, h2 = events.h1[chosen], events.h2[chosen]
    lasts = last_rows(h1, h2, tp)
    if rules.hears[side]:  # rows of pairs leave at ends of their own, so nobody knows the last one
        last, lasts = np.full_like(last, FOREVER), np.full_like(lasts, FOREVER)
    partner, other = outcome.partner[chosen], outcome.other[chosen]
    return NewPromises(tp, until, h1, h2, outcome.number[chosen], last, partner, other, lasts)


def _events(rows: Rows, marks: Sequence[Marks]) -> tuple[PromiseEvents, Int64s]:
    """Rows and punctuations in the order in which they take effect, and where each was before."""
    none = np.zeros(len(rows.ts), np.int64)
    parts = [(rows.side, rows.side, rows.ts, rows.h1, rows.h2, none, none)]
    parts += [_columns(side, marks[side]) for side in Side]
    joined = PromiseEvents._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.arange(len(rows.ts))
    if len(joined.ts) > len(order):
        order = np.lexsort((joined.kind == MARK, joined.ts))
    return PromiseEvents._make(column[order] for column in joined), order


def _columns(side: Side, marks: Marks) -> tuple[Any, ...]:
    """Punctuations as events."""
    ts, h1, h2, numbers, until = marks
    return np.full(len(ts), side, np.uint8), np.full(len(ts), MARK, np.uint8), ts, h1, h2, until, numbers


def _outcome(events: int) -> Outcome:
    return Outcome(np.zeros(events, np.uint8), *(np.full(events, NONE) for _ in range(4)))


def _table(room: int) -> Table:
    """A table without promises that lives for one walk."""
    table = Table(*(np.zeros(shape, kind) for shape, kind in table_layout(room)))
    clear_table(table)
    return table


def _in_place(order: Int64s, values: AnyArray) -> AnyArray:
    """Values of events in the order in which the events came."""
    placed = np.zeros_like(values)
    placed[order] = values
    return placed
