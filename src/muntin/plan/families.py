"""Which aggregate queries of a join are computed together.

A *family* is a set of aggregate queries that differ in the sizes of their windows only: they have the same selections,
the same groups and the same difference between the windows of the two streams, and send rows at the same instants.
Pairs are evaluated and aggregated once for the whole family. Queries for the first pairs of groups form families where
order and SELECT list are the same; how many pairs they want may differ.

With windows W_A and W_B, and `delta = W_A - W_B`, each pair has an *anchor*, the same for the whole family:

    anchor = min(a.ts + delta, b.ts)            it is live in [max(a.ts, b.ts), anchor + W_B)

So a family is a set of *lanes*, one for each W_B. All lanes see the same pairs arrive, and let them go at different
ages. A pair is in a lane when its age, `max(a.ts, b.ts) - anchor`, is less than the lane's window: lanes are slices of
age, like those of the join (wang2006 4).

Where rows go out only every `d`, nobody sees what happens between two such instants, and time is counted in panes of
the greatest common divisor of d and the windows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import gcd

from muntin.model import Aggregation, Call, Expr, Function, Query, Side
from muntin.model.job import Top
from muntin.plan.joins import SharedJoin

SUMMED = (Function.SUM, Function.AVG)
EXTREMES = (Function.MIN, Function.MAX)
TEXTS = ("string", "binary")


def aggregation(query: Query) -> Aggregation:
    assert query.aggregation is not None
    return query.aggregation


@dataclass(frozen=True)
class Lane:
    """Queries with the same window; `window` is in panes."""

    window: int
    queries: tuple[Query, ...]

    @property
    def depth(self) -> int:
        """How many of the first pairs the queries want at most."""
        return max(top.limit if (top := aggregation(query).top) else 0 for query in self.queries)


@dataclass(frozen=True)
class Family:
    lanes: tuple[Lane, ...]
    """By ascending window."""
    pane: int
    """Microseconds in the unit of time."""
    delta: int
    every: int | None
    """Panes between two instants at which rows go out; None: at every change."""

    @property
    def queries(self) -> Iterable[Query]:
        return (query for lane in self.lanes for query in lane.queries)

    @property
    def first(self) -> Query:
        """A query that says what all have in common."""
        return self.lanes[0].queries[0]

    @property
    def groups(self) -> tuple[Expr, ...]:
        return aggregation(self.first).groups

    @property
    def top(self) -> Top | None:
        """The order of the first pairs, for queries that want these; their lanes say how many."""
        return aggregation(self.first).top

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The aggregates of the queries, each function of each expression once."""
        calls = [call for query in self.queries for call in aggregation(query).calls]
        return tuple({(c.function, c.arg and c.arg.sql): c for c in calls}.values())

    def args(self, *functions: Function) -> tuple[Expr, ...]:
        """The distinct expressions that these functions are applied to."""
        found = {c.arg.sql: c.arg for c in self.calls if c.arg is not None and c.function in functions}
        return tuple(found.values())

    @cached_property
    def counted(self) -> tuple[Expr, ...]:
        """Expressions whose values that are not NULL have to be counted."""
        return self.args(Function.COUNT, *SUMMED, *EXTREMES)

    @cached_property
    def summed(self) -> tuple[Expr, ...]:
        return self.args(*SUMMED)

    @cached_property
    def extremes(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.function in EXTREMES)

    @cached_property
    def texts(self) -> tuple[Expr, ...]:
        """Expressions whose least or greatest values are wanted, and are no numbers."""
        return tuple(arg for arg in self.args(*EXTREMES) if arg.type in TEXTS)

    @cached_property
    def distinct(self) -> tuple[Expr, ...]:
        return self.args(Function.COUNT_DISTINCT)


def families(join: SharedJoin) -> tuple[Family, ...]:
    """The families of a join that look at live pairs, in an order that follows from its queries alone."""
    alike: dict[tuple[object, ...], list[Query]] = {}
    for query in join.queries:
        if query.looks_at_live_pairs:
            delta = query.window.left - query.window.right
            alike.setdefault((*_signature(query), delta, aggregation(query).every_us), []).append(query)
    return tuple(_family(same) for same in alike.values())


def final_families(queries: Iterable[Query]) -> tuple[Family, ...]:
    """The families of queries with EMIT FINAL: their pairs stay for good, so they have no anchor.

    A lane has what the one before it has if neither of its windows is smaller; each query goes to the first family
    whose largest lane that is so for.
    """
    found: dict[tuple[object, ...], list[list[Query]]] = {}
    for query in sorted(queries, key=_sizes):
        alike = found.setdefault(_signature(query), [])
        home = next((same for same in alike if same[-1].window.right <= query.window.right), None)
        if home is None:
            alike.append(home := [])
        home.append(query)
    return tuple(
        Family(tuple(Lane(sizes[1], tuple(same)) for sizes, same in groupby(queries_, key=_sizes)), 1, 0, None)
        for alike in found.values()
        for queries_ in alike
    )


def _signature(query: Query) -> tuple[object, ...]:
    wheres = tuple(w and w.sql for w in (*query.where, query.residual))
    wanted = aggregation(query)
    return wheres, tuple(g.sql for g in wanted.groups), wanted.top and _ranks(wanted.top)


def _ranks(top: Top) -> tuple[object, ...]:
    """What makes one pair come before another."""
    order = tuple((by.expr.sql, by.descending, by.nulls_first) for by in top.order)
    return order, tuple(column.sql for column in top.columns)


def _family(queries: list[Query]) -> Family:
    every_us, window = aggregation(queries[0]).every_us, queries[0].window
    pane = gcd(every_us, *(q.window.right for q in queries)) if every_us else 1
    ordered = sorted(queries, key=_size)
    lanes = tuple(Lane(size // pane, tuple(same)) for size, same in groupby(ordered, key=_size))
    return Family(lanes, pane, window.left - window.right, every_us // pane if every_us else None)


def _sizes(query: Query) -> tuple[int, int]:
    return query.window.left, query.window.right


def _size(query: Query) -> int:
    return query.window.side(Side.RIGHT)


def combined(join: SharedJoin, query: Query) -> bool:
    """Whether a group may have pairs in several shards or joins, whose values are then put together."""
    return not query.grouped_by_key or any(join.partitions)


def sends_distinct_values(join: SharedJoin, query: Query) -> dict[str, bool]:
    """For each expression of which a query counts the different values, whether the shards must send these values.

    Where a value fixes the join key it is in one shard only, and the counts of the shards can simply be added up.
    """
    groups, divided = aggregation(query).groups, any(join.partitions)
    args = [c.arg for c in aggregation(query).calls if c.arg is not None and c.function is Function.COUNT_DISTINCT]
    return {arg.sql: combined(join, query) and (divided or not query.fixes_key((*groups, arg))) for arg in args}
