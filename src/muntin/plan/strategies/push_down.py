"""Selection push-down (wang2006 3.2): the selections divide the streams, and each two parts that meet have a join.

When queries change, how a join divides the streams stays with it: to divide it anew would mean to copy rows from join
to join. So a job that changes much drifts towards isolated joins for as long as its first queries stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from muntin.kernels.arrays import Bools
from muntin.model import Expr, JobSpec, Query, Schema, Side, UsageError
from muntin.plan.joins import Partition, Parts, Plan, SharedJoin, meaning, signature
from muntin.plan.regions import MOST_COMBINATIONS, Predicates
from muntin.plan.strategies.strategy import WHOLE, JoinPart, QueryGroups, Strategy, group_queries
from muntin.plan.traffic import Traffic, assumed
from muntin.plan.trees import reads_queries

MOST_JOINS = 256
"""Joins that may become of one: each is an operator with a state of its own in every shard."""


class PushDown(Strategy):
    name = "push-down"
    paper = "wang2006, section 3.2"
    summary = "the selections divide the streams; one join for each two parts that a query wants together"
    explanation = (
        "the selections divide the streams, and each two parts that some query wants together have a join;",
        "a query gets the rows of its joins merged in order of time",
    )
    divides_queries = True

    def headline(self, joins: str) -> str:
        return f"{joins} of parts of the streams"

    def parts(self, groups: QueryGroups) -> Iterable[JoinPart]:
        if reads_queries(groups.spec):  # what a query reads must come from one join
            return super().parts(groups)
        return (part for group in groups.groups for part in _divided(groups.spec, group))

    def check(self, groups: Iterable[tuple[SharedJoin, Traffic]]) -> None:
        """Refuse too many joins before they are made one by one.

        The classes of a mix that was not measured are the parts of the stream, each of which meets one of the other
        side.
        """
        for join, traffic in groups:
            mixes = traffic.mixes if traffic.known != "measured" else assumed(join).mixes
            parts = [mix.wants[mix.wants.any(axis=1)] for mix in mixes]
            least = max(map(len, parts))
            if least <= MOST_JOINS:
                least = int(np.count_nonzero(parts[0].astype(np.float32) @ parts[1].astype(np.float32).T))
            if least > MOST_JOINS:
                message = f"strategy push-down would make at least {least:,} joins of one; the limit is {MOST_JOINS}"
                raise UsageError(message)

    def change(self, plan: Plan, spec: JobSpec, fresh: Callable[[], Plan]) -> Plan:
        """Queries go to the joins whose parts tell their rows apart; for the others the streams are divided anew.

        Where two parts that a query wants have no join yet, they get one, which begins empty.
        """
        if reads_queries(spec):
            if any(part for join in plan.joins for part in join.partitions):
                message = "strategy push-down has divided the streams of this job: no query can read another one"
                raise UsageError(message, hint="start the job anew with SET strategy = 'state-slice'")
            return super().change(plan, spec, fresh)
        never = group_queries(spec).never
        wanted = {name: q for name, q in spec.queries.items() if q not in never}
        same = {n for n, q in wanted.items() if n in plan.queries and meaning(plan.queries[n]) == meaning(q)}
        joins = [(j, [wanted[q.name] for q in j.queries if q.name in same]) for j in plan.joins]
        placed = {q.name for _, queries in joins for q in queries}
        unused, rest = plan.next_join, dict[str, Query]()
        for query in (q for name, q in wanted.items() if name not in placed):
            parts = [WHOLE] if query.needs_all_matches else _parts_of(query, [join for join, _ in joins])
            if parts is None:
                rest[query.name] = query
                continue
            for part in parts:
                home = next((queries for join, queries in joins if _is_for(join, query, part)), None)
                if home is None:
                    joins.append((self._join(spec, [query], part, unused), []))
                    unused, home = unused + 1, joins[-1][1]
                home.append(query)
        made = [self._join(spec, queries, join.partitions, join.index) for join, queries in joins if queries]
        more = self.plan(group_queries(replace(spec, queries=rest))).joins if rest else ()
        made += [join.numbered(unused + n) for n, join in enumerate(more)]
        if len(made) > MOST_JOINS:
            raise UsageError(
                f"strategy push-down would have {len(made):,} joins; the limit is {MOST_JOINS}",
                hint="drop queries with other selections first",
            )
        return replace(plan, joins=tuple(made), never=never, unused=unused + len(more))

    def _join(self, spec: JobSpec, queries: Sequence[Query], parts: Parts, index: int) -> SharedJoin:
        (join,) = self.joins(spec, [(queries, parts)])
        return join.numbered(index)


def _divided(spec: JobSpec, queries: Sequence[Query]) -> Iterable[JoinPart]:
    """The joins that a group of queries becomes: one for each two parts of the streams that meet."""
    undivided = [q for q in queries if q.needs_all_matches]
    if undivided:
        others = [q for q in queries if not q.needs_all_matches]
        return [*(_divided(spec, others) if others else ()), (undivided, WHOLE)]
    sides = [list(_partitions(spec, queries, side)) for side in Side]
    parts: list[JoinPart] = []
    for left, left_wants in sides[0]:
        for right, right_wants in sides[1]:
            both = left_wants & right_wants
            if both.any():
                parts.append(([q for q, wanted in zip(queries, both, strict=True) if wanted], (left, right)))
    if len(parts) > MOST_JOINS:
        raise UsageError(
            f"strategy push-down would make {len(parts):,} joins of one; the limit is {MOST_JOINS}",
            hint="use SET strategy = 'state-slice', which keeps one join for any number of selections",
        )
    return parts or [(queries, WHOLE)]  # no row can be wanted: one join that keeps nothing


def _partitions(spec: JobSpec, queries: Sequence[Query], side: Side) -> Iterable[tuple[Partition, Bools]]:
    """The parts of a stream by the selections that hold, each with the queries that want it; wanted ones only."""
    wheres = [q.where[side] for q in queries]
    distinct = list({w.sql: w for w in wheres if w is not None}.values())
    predicates = Predicates(distinct, spec.streams[queries[0].stream(side)].schema)
    if predicates.combinations > MOST_COMBINATIONS:
        raise UsageError(
            f"strategy push-down would divide {queries[0].stream(side)} into up to {predicates.combinations:,} parts; "
            f"the limit is {MOST_COMBINATIONS:,}",
            hint="use SET strategy = 'state-slice', which divides no stream",
        )
    for part in _all_parts(predicates):
        wants = np.array([_wanted(part, where) for where in wheres])
        if wants.any():
            yield part, wants


def _all_parts(predicates: Predicates) -> Iterable[Partition]:
    for truths in np.unique(predicates.enumerate(), axis=0):
        yield Partition(predicates.predicates, tuple(map(bool, truths)))


def _wanted(part: Partition, where: Expr | None) -> bool:
    """Whether a selection, one of those that divide the stream, takes a part."""
    return where is None or any(t for p, t in zip(part.predicates, part.truths, strict=True) if p.sql == where.sql)


def _wanted_parts(part: Partition | None, query: Query, schema: Schema, side: Side) -> list[Partition] | None:
    """The parts that a query wants of a stream that is divided as into this one.

    None where the query's selection is none of those that divide the stream.
    """
    where = query.where[side]
    if part is None or (where is not None and where.sql not in {p.sql for p in part.predicates}):
        return None
    return [other for other in _all_parts(Predicates(part.predicates, schema)) if _wanted(other, where)]


def _parts_of(query: Query, joins: Iterable[SharedJoin]) -> list[Parts] | None:
    """The parts of its streams that a query wants, as some joins divide them; None where none tells its rows apart."""
    for join in joins:
        left, right = (_wanted_parts(join.partitions[side], query, join.streams[side].schema, side) for side in Side)
        if signature(join.queries[0]) == signature(query) and left is not None and right is not None:
            return [(one, other) for one in left for other in right]
    return None


def _is_for(join: SharedJoin, query: Query, parts: Parts) -> bool:
    """Whether a join has these parts of the streams of a query."""
    return join.partitions == parts and signature(join.queries[0]) == signature(query)
