"""From the plan of a running job to the plan with other queries: joins keep their numbers, and so their state."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from muntin.model import AUTO, JobSpec, Query, Side
from muntin.plan.choose import declared_queries, make_plan
from muntin.plan.joins import Plan, SharedJoin, meaning
from muntin.plan.own_windows import waits_as_long
from muntin.plan.regions import MOST_COMBINATIONS, Predicates
from muntin.plan.strategies import STRATEGIES, group_queries
from muntin.plan.traffic import Knowledge
from muntin.plan.trees import lowered


def evolve(
    plan: Plan, spec: JobSpec, knowledge: Knowledge | None = None, elsewhere: Collection[str] = frozenset()
) -> Plan:
    """The plan for the queries of `spec`; a join that has some of the queries before goes on, with its number.

    The strategy is that of `spec`, or where it leaves that open, the one in force. `elsewhere` are the streams whose
    late rows others report. What the streams of the plan before look up, they go on to look up: rows for it may be on
    their way. Queries that are there go on to join in the order in which they have begun.
    """
    spec = _looking_up(plan, settled_orders(plan, spec))
    strategy = plan.strategy if spec.settings.strategy == AUTO else spec.settings.strategy
    asked, spec = declared_queries(spec), lowered(spec, plan.hidden)

    def fresh() -> Plan:
        return make_plan(replace(spec, settings=replace(spec.settings, strategy=strategy)), knowledge)

    changed = STRATEGIES[strategy].change(plan, spec, fresh)
    return replace(changed, joins=tuple(_reporting(plan, changed.joins, elsewhere)), asked=asked)


def settled_orders(plan: Plan, spec: JobSpec) -> JobSpec:
    """A job whose queries join in the orders of a plan, where they are in it: rates may be others since."""
    before = {query.name: query for query in plan.asked}
    queries = {
        name: _as_before(before[name], query) if name in before and meaning(before[name]) == meaning(query) else query
        for name, query in spec.queries.items()
    }
    return replace(spec, queries=queries)


def _as_before(before: Query, query: Query) -> Query:
    return replace(before, text=query.text, from_beginning=query.from_beginning, since_us=query.since_us)


def _looking_up(plan: Plan, spec: JobSpec) -> JobSpec:
    lookups = [lookup for stream in plan.streams for lookup in stream.lookups]
    streams = {name: stream.looking_up(lookups) for name, stream in spec.streams.items()}
    return replace(spec, streams=streams) if lookups else spec


def redivides(plan: Plan, spec: JobSpec) -> bool:
    """Whether the strategy of `spec` has other joins for the queries of a plan than that plan, and not only other
    slices: rows that one join keeps would have to be in several, or the other way round."""
    if spec.settings.strategy in (AUTO, plan.strategy):
        return False
    fresh = STRATEGIES[spec.settings.strategy].plan(group_queries(replace(spec, queries=plan.parts)))
    return sorted(map(_share, plan.joins)) != sorted(map(_share, fresh.joins))


def _share(join: SharedJoin) -> tuple[list[str], bool]:
    """Which queries a join has, and whether it is for all rows of its streams."""
    return sorted(query.name for query in join.queries), join.partitions == (None, None)


def reporting(plan: Plan, elsewhere: Collection[str]) -> Plan:
    """The same plan, where others report the late rows of some streams."""
    return replace(plan, joins=tuple(_reporting(plan, plan.joins, elsewhere)))


def _reporting(plan: Plan, joins: Sequence[SharedJoin], elsewhere: Collection[str]) -> Iterable[SharedJoin]:
    """Each stream's late rows are reported by the join that did so before, or by the first that reads it now."""
    reporter = {s.name: j.index for j in plan.joins for s, reports in zip(j.streams, j.reports, strict=True) if reports}
    present = {(stream.name, join.index) for join in joins for stream in join.streams}
    for join in joins:
        for stream in join.streams:
            if (stream.name, reporter.get(stream.name)) not in present:
                reporter[stream.name] = join.index
    reported = set(elsewhere)
    for join in joins:
        flags = []
        for stream in join.streams:
            flags.append(reporter[stream.name] == join.index and stream.name not in reported)
            if flags[-1]:
                reported.add(stream.name)
        yield replace(join, reports=(flags[0], flags[1]))


def covers(join: SharedJoin, query: Query) -> bool:
    """Whether a join has kept, on both sides, all rows that a query over it wants, for as long as it wants them.

    Rows without a key are kept only for queries that tell rows without a match. What punctuations have freed, only the
    operator that received them knows (`Promises.lacking`).
    """
    keyless = all(any(side in other.preserved for other in join.queries) for side in query.preserved)
    looked_up = [join.streams[side].looking_up(query.lookups) == join.streams[side] for side in Side]
    return keyless and all(looked_up) and all(_covers(join, query, side) for side in Side)


def _covers(join: SharedJoin, query: Query, side: Side) -> bool:
    window = query.window.side(side)  # where it is 0, rows are wanted only as long as they wait to be joined
    if join.reach(side) < window:
        return False
    retentions = [_stay(join, q, query, side) for q in join.queries]
    if not join.selects or join.partitions[side] is not None:
        return max(retentions) >= window
    wheres = [q.where[side] for q in join.queries]
    wanted_where = query.where[side]
    distinct = list({w.sql: w for w in (*wheres, wanted_where) if w is not None}.values())
    predicates = Predicates(distinct, join.streams[side].schema)
    if predicates.combinations > MOST_COMBINATIONS:
        same = (None, None if wanted_where is None else wanted_where.sql)
        return any(r >= window and (w is None or w.sql in same) for w, r in zip(wheres, retentions, strict=True))
    number = {p.sql: n for n, p in enumerate(distinct)}
    holds = predicates.enumerate()
    wanted = np.ones(len(holds), bool) if wanted_where is None else holds[:, number[wanted_where.sql]]
    kept = np.full(len(holds), -1)
    for where, retention in zip(wheres, retentions, strict=True):
        chosen = np.ones(len(holds), bool) if where is None else holds[:, number[where.sql]]
        kept[chosen] = np.maximum(kept[chosen], retention)
    return bool((kept[wanted] >= window).all())


def _stay(join: SharedJoin, before: Query, query: Query, side: Side) -> int:
    """For how long a query before has kept the rows of a side for certain, or for as long as the new one asks, where
    both let them wait until the same time of their own."""
    until, asked = before.until[side], query.until[side]
    size, ends = before.window.side(side), join.cuts[side]
    if not size or (until is not None and (asked is None or not waits_as_long(until, asked))):
        return 0
    return ends[bisect_left(ends, size)]
