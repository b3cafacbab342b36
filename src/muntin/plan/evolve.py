"""From the plan of a running job to the plan with other queries: joins keep their numbers, and so their state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from muntin.model import JobSpec, Query, Side, UsageError
from muntin.plan.choose import make_plan
from muntin.plan.punctuation import promising
from muntin.plan.regions import Predicates
from muntin.plan.share import MOST_PARTITIONS, Plan, SharedJoin, signature
from muntin.plan.traffic import Knowledge


def evolve(plan: Plan, spec: JobSpec, knowledge: Knowledge | None = None) -> Plan:
    """The plan for the queries of `spec`; a join that has some of the queries before goes on, with its number."""
    if plan.strategy == "push-down":
        raise UsageError(
            "strategy push-down divides the streams by the selections of all queries: they cannot change while it runs",
            hint="use SET strategy = 'state-slice' with a new checkpoint",
        )
    fresh = make_plan(replace(spec, settings=replace(spec.settings, strategy=plan.strategy)), knowledge)
    numbers = {_identity(join, plan.strategy): join.index for join in plan.joins}
    unused, joins = plan.next_join, []
    for join in fresh.joins:
        index = numbers.get(_identity(join, plan.strategy))
        if index is None:
            index, unused = unused, unused + 1
        joins.append(replace(join, index=index))
    return replace(fresh, joins=tuple(_reporting(plan, joins)), unused=unused)


def _identity(join: SharedJoin, strategy: str) -> tuple[object, ...]:
    """What makes two joins the same over time: streams and key, and the query where each has its own."""
    own = (join.queries[0].name,) if strategy == "isolated" else ()
    return (*own, *signature(join.queries[0]))


def _reporting(plan: Plan, joins: list[SharedJoin]) -> Iterable[SharedJoin]:
    """Each stream's late rows are reported by the join that did so before, or by the first that reads it now."""
    reporter = {s.name: j.index for j in plan.joins for s, told in zip(j.streams, j.reports, strict=True) if told}
    present = {(stream.name, join.index) for join in joins for stream in join.streams}
    for join in joins:
        for stream in join.streams:
            if (stream.name, reporter.get(stream.name)) not in present:
                reporter[stream.name] = join.index
    told: set[str] = set()
    for join in joins:
        reports = []
        for stream in join.streams:
            reports.append(reporter[stream.name] == join.index and stream.name not in told)
            if reports[-1]:
                told.add(stream.name)
        yield replace(join, reports=(reports[0], reports[1]))


def covers(join: SharedJoin, query: Query) -> bool:
    """Whether a join has kept, on both sides, all rows that a query over it wants, for as long as it wants them."""
    freed = query.aggregation is not None and any(promising(join, side) for side in Side)
    if freed and not any(q.aggregation for q in join.queries):
        return False  # promises have freed rows whose pairs the aggregates want
    return all(_covers(join, query, side) for side in Side)


def _covers(join: SharedJoin, query: Query, side: Side) -> bool:
    window = query.window.side(side)
    if join.reach(side) < window:
        return False
    if not join.selects:
        return True
    wheres = [q.where[side] for q in join.queries]
    asked = query.where[side]
    distinct = list({w.sql: w for w in (*wheres, asked) if w is not None}.values())
    predicates = Predicates(distinct, join.streams[side].schema)
    ends = np.array(join.cuts[side])
    stays = [int(ends[np.searchsorted(ends, q.window.side(side))]) for q in join.queries]
    if predicates.combinations > MOST_PARTITIONS:
        same = (None, None if asked is None else asked.sql)
        return any(s >= window and (w is None or w.sql in same) for w, s in zip(wheres, stays, strict=True))
    number = {p.sql: n for n, p in enumerate(distinct)}
    holds = predicates.enumerate()
    wanted = np.ones(len(holds), bool) if asked is None else holds[:, number[asked.sql]]
    kept = np.zeros(len(holds), np.int64)
    for where, stay in zip(wheres, stays, strict=True):
        chosen = np.ones(len(holds), bool) if where is None else holds[:, number[where.sql]]
        kept[chosen] = np.maximum(kept[chosen], stay)
    return bool((kept[wanted] >= window).all())
