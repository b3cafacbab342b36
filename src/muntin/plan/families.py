"""Which aggregate queries of a join are computed together.

A *family* is a set of aggregate queries that differ in the sizes of their windows only: they have the same selections,
the same groups and the same difference between the windows of the two streams, and send rows at the same instants.
Pairs are evaluated and aggregated once for the whole family. Queries for the first pairs of groups form families where
order and SELECT list are the same; how many pairs they want may differ.

With windows W_A and W_B, and `delta = W_A - W_B`, each pair has an *anchor*, the same for the whole family:

    anchor = min(a.ts + delta, b.ts)            it is live in [max(a.ts, b.ts), anchor + W_B)

so all windows of a family, one for each W_B, see the same pairs come and let them go at different ages. A pair is in a
window when its age, `max(a.ts, b.ts) - anchor`, is less than the window's size: windows are slices of age, as those of
the join (wang2006 4).

Where rows wait until a time of their own, a pair goes with the first of these times if that comes before. The anchor is
then the time so much before its end, and the window is alone in its family, also where totals are final.

Where rows go out only every `d`, what happens between two such instants cannot be seen, and time is counted in
panes of the greatest common divisor of d and the windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import gcd

from muntin.model import Aggregation, Expr, Query, Side
from muntin.model.job import Top
from muntin.plan.functions import Measures
from muntin.plan.joins import SharedJoin


def aggregation_of(query: Query) -> Aggregation:
    assert query.aggregation is not None
    return query.aggregation


@dataclass(frozen=True)
class FamilyWindow:
    """The queries of a family with the same window; `size` is in panes."""

    size: int
    queries: tuple[Query, ...]

    @property
    def depth(self) -> int:
        """How many of the first pairs the queries want at most."""
        return max(top.limit if (top := aggregation_of(query).top) else 0 for query in self.queries)


@dataclass(frozen=True)
class Family:
    windows: tuple[FamilyWindow, ...]
    """By ascending size."""
    pane: int
    """Microseconds in the unit of time."""
    delta: int
    every: int | None
    """Panes between two instants at which rows go out; None: at every change."""

    @property
    def queries(self) -> Iterable[Query]:
        return (query for window in self.windows for query in window.queries)

    @property
    def first(self) -> Query:
        """A query that says what all have in common."""
        return self.windows[0].queries[0]

    @property
    def groups(self) -> tuple[Expr, ...]:
        return aggregation_of(self.first).groups

    @property
    def until(self) -> tuple[Expr | None, Expr | None]:
        """The times of its own until when a row of each side waits."""
        return self.first.until

    @property
    def top(self) -> Top | None:
        """What the first pairs are, where queries ask for these; how many, their windows say."""
        return aggregation_of(self.first).top

    @property
    def is_routed(self) -> bool:
        """Whether its rows are those that are routed to its queries, which have one window then.

        Windows that begin at age 0 share their pairs: a larger one has what a smaller one has. But a row may have a
        match in the larger one only, and a window that begins later lacks what comes before.
        """
        return _is_routed(self.first)

    @cached_property
    def measures(self) -> Measures:
        """What is kept of each group, for all queries."""
        return Measures(call for query in self.queries for call in aggregation_of(query).calls)


def families(join: SharedJoin) -> tuple[Family, ...]:
    """The families of a join that look at live pairs, in an order that follows from its queries alone."""
    alike: dict[tuple[object, ...], list[Query]] = {}
    for query in join.queries:
        if query.looks_at_live_pairs:
            own = aggregation_of(query)
            delta = query.window.left - query.window.right
            size = query.window.right if any(query.until) else None
            alike.setdefault((*_signature(query), delta, own.every_us, size), []).append(query)
    return tuple(_family(same) for same in alike.values())


def final_families(queries: Iterable[Query]) -> tuple[Family, ...]:
    """The families of queries with EMIT FINAL: their pairs have no end, so no anchor either.

    A window has what the one before it has if it is not smaller on either side; each query goes to the first family
    whose largest window that is so for. Queries whose rows have to be routed go together if they join alike.
    """
    found: dict[tuple[object, ...], list[list[Query]]] = {}
    for query in sorted(queries, key=_sizes):
        joins: tuple[object, ...] = (query.window,) if any(query.until) else ()
        if _is_routed(query):
            joins = query.window, *_join_of(query)
        alike = found.setdefault((*_signature(query), joins), [])
        home = next((same for same in alike if same[-1].window.right <= query.window.right), None)
        if home is None:
            alike.append(home := [])
        home.append(query)
    return tuple(
        Family(tuple(FamilyWindow(sizes[1], tuple(same)) for sizes, same in groupby(queries_, key=_sizes)), 1, 0, None)
        for alike in found.values()
        for queries_ in alike
    )


def _signature(query: Query) -> tuple[object, ...]:
    wheres = tuple(w and w.sql for w in (*query.where, query.residual, *query.until))
    own = aggregation_of(query)
    return wheres, tuple(g.sql for g in own.groups), own.top and _ranks(own.top)


def _is_routed(query: Query) -> bool:
    return not query.is_inner or not query.window.spans_zero


def _join_of(query: Query) -> tuple[object, ...]:
    """What a query makes of its matches."""
    return query.kind, query.subject, query.preserved, query.after and query.after.sql


def _ranks(top: Top) -> tuple[object, ...]:
    """What makes one pair come before another."""
    order = tuple((by.expr.sql, by.descending, by.nulls_first) for by in top.order)
    return order, tuple(column.sql for column in top.columns)


def _family(queries: list[Query]) -> Family:
    every_us = aggregation_of(queries[0]).every_us
    delta = queries[0].window.left - queries[0].window.right
    pane = gcd(every_us, *(q.window.right for q in queries)) if every_us else 1
    ordered = sorted(queries, key=_size)
    windows = tuple(FamilyWindow(size // pane, tuple(same)) for size, same in groupby(ordered, key=_size))
    return Family(windows, pane, delta, every_us // pane if every_us else None)


def _sizes(query: Query) -> tuple[int, int]:
    return query.window.left, query.window.right


def _size(query: Query) -> int:
    return query.window.side(Side.RIGHT)


def combined(join: SharedJoin, query: Query) -> bool:
    """Whether a group may have pairs in several shards or joins, whose values are then put together."""
    return not query.grouped_by_key or any(join.partitions) or join.spread


def distinct_values_sent(join: SharedJoin, query: Query) -> dict[str, bool]:
    """For each expression of which a query counts the different values, whether shards have to send the values.

    Where a value fixes the join key it is in one shard only, and the counts of the shards can simply be added up.
    """
    groups, divided = aggregation_of(query).groups, any(join.partitions) or join.spread
    args = [kept.arg for kept in Measures(aggregation_of(query).calls).distinct]
    return {arg.sql: combined(join, query) and (divided or not query.fixes_key((*groups, arg))) for arg in args}
