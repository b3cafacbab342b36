"""From the plan of a running job to the plan with other queries: joins keep their numbers, and so their state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from muntin.model import JobSpec, Query, Side, UsageError
from muntin.plan.choose import make_plan
from muntin.plan.regions import Predicates
from muntin.plan.share import (
    MOST_JOINS,
    MOST_PARTITIONS,
    Parts,
    Plan,
    SharedJoin,
    joins_of,
    meaning,
    never_true,
    share,
    signature,
    wanted_parts,
)
from muntin.plan.traffic import Knowledge


def evolve(
    plan: Plan, spec: JobSpec, knowledge: Knowledge | None = None, elsewhere: Collection[str] = frozenset()
) -> Plan:
    """The plan for the queries of `spec`; a join that has some of the queries before goes on, with its number.

    `elsewhere` are the streams whose late rows others report.
    """
    if plan.strategy == "push-down":
        changed = _divided(plan, spec)
        return replace(changed, joins=tuple(_reporting(plan, changed.joins, elsewhere)))
    fresh = make_plan(replace(spec, settings=replace(spec.settings, strategy=plan.strategy)), knowledge)
    numbers = {_identity(join, plan.strategy): join.index for join in plan.joins}
    unused, joins = plan.next_join, []
    for join in fresh.joins:
        index = numbers.get(_identity(join, plan.strategy))
        if index is None:
            index, unused = unused, unused + 1
        joins.append(replace(join, index=index))
    return replace(fresh, joins=tuple(_reporting(plan, joins, elsewhere)), unused=unused)


def _divided(plan: Plan, spec: JobSpec) -> Plan:
    """The plan of push-down for other queries: how a join divides the streams stays with it.

    A query whose selections the parts of some joins tell apart goes to these joins, and where two of its parts have
    none, to a new one. For the others the streams are divided anew, beside the joins that are there: to divide those
    would mean to copy rows from join to join.
    """
    never = [q for q in spec.queries.values() if never_true(spec, q)]
    if len(never) == len(spec.queries):
        never = []
    wanted = {name: q for name, q in spec.queries.items() if q not in never}
    stay = {name for name, q in wanted.items() if name in plan.queries and meaning(plan.queries[name]) == meaning(q)}
    joins = [(j, [wanted[q.name] for q in j.queries if q.name in stay]) for j in plan.joins]
    placed = {q.name for _, queries in joins for q in queries}
    unused, rest = plan.next_join, []
    for query in (q for name, q in wanted.items() if name not in placed):
        parts = [(None, None)] if query.final else _parts_of(query, [join for join, _ in joins])
        if parts is None:
            rest.append(query)
            continue
        for part in parts:
            home = next((queries for join, queries in joins if _has(join, query, part)), None)
            if home is None:
                joins.append((_made(spec, [query], part, unused), []))
                unused, home = unused + 1, joins[-1][1]
            home.append(query)
    made = [_made(spec, queries, join.partitions, join.index) for join, queries in joins if queries]
    fresh = share(replace(spec, queries={q.name: q for q in rest}), "push-down").joins if rest else ()
    made += [replace(join, index=unused + n) for n, join in enumerate(fresh)]
    if len(made) > MOST_JOINS:
        raise UsageError(
            f"strategy push-down would have {len(made):,} joins; the limit is {MOST_JOINS}",
            hint="drop queries with other selections first",
        )
    return replace(plan, joins=tuple(made), never=tuple(never), unused=unused + len(fresh))


def _parts_of(query: Query, joins: Iterable[SharedJoin]) -> list[Parts] | None:
    """The parts of its streams that a query wants, as some joins divide them; None where none tells its rows apart."""
    for join in joins:
        left, right = (wanted_parts(join.partitions[side], query, join.streams[side].schema, side) for side in Side)
        if signature(join.queries[0]) == signature(query) and left is not None and right is not None:
            return [(one, other) for one in left for other in right]
    return None


def _has(join: SharedJoin, query: Query, parts: Parts) -> bool:
    return join.partitions == parts and signature(join.queries[0]) == signature(query)


def _made(spec: JobSpec, queries: list[Query], parts: Parts, index: int) -> SharedJoin:
    (join,) = joins_of(spec, [(queries, parts)], "push-down")
    return replace(join, index=index)


def reporting(plan: Plan, elsewhere: Collection[str]) -> Plan:
    """The same plan, where others report the late rows of some streams."""
    return replace(plan, joins=tuple(_reporting(plan, plan.joins, elsewhere)))


def _identity(join: SharedJoin, strategy: str) -> tuple[object, ...]:
    """What makes two joins the same over time: streams and key, and the query where each has its own."""
    own = (join.queries[0].name,) if strategy == "isolated" else ()
    return (*own, *signature(join.queries[0]))


def _reporting(plan: Plan, joins: Sequence[SharedJoin], elsewhere: Collection[str]) -> Iterable[SharedJoin]:
    """Each stream's late rows are reported by the join that did so before, or by the first that reads it now."""
    reporter = {s.name: j.index for j in plan.joins for s, told in zip(j.streams, j.reports, strict=True) if told}
    present = {(stream.name, join.index) for join in joins for stream in join.streams}
    for join in joins:
        for stream in join.streams:
            if (stream.name, reporter.get(stream.name)) not in present:
                reporter[stream.name] = join.index
    told = set(elsewhere)
    for join in joins:
        reports = []
        for stream in join.streams:
            reports.append(reporter[stream.name] == join.index and stream.name not in told)
            if reports[-1]:
                told.add(stream.name)
        yield replace(join, reports=(reports[0], reports[1]))


def covers(join: SharedJoin, query: Query) -> bool:
    """Whether a join has kept, on both sides, all rows that a query over it wants, for as long as it wants them.

    Whoever is told of a key's whole life wants pairs that nobody has kept. What promises have freed, only those know
    who heard them (`Promises.lacking`).
    """
    return not query.final and all(_covers(join, query, side) for side in Side)


def _covers(join: SharedJoin, query: Query, side: Side) -> bool:
    window = query.window.side(side)
    if join.reach(side) < window:
        return False
    if not join.selects or join.partitions[side] is not None:
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
