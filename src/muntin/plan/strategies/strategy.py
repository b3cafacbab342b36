"""What a sharing strategy is, and what is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from muntin.model import NO_CHAIN, JobSpec, Query, Side, read_queries, relation
from muntin.plan.copies import with_copies
from muntin.plan.joins import Cuts, Parts, Plan, SharedJoin, distinct_windows, enriched, meaning, never_true, signature
from muntin.plan.placement import placed
from muntin.plan.traffic import Traffic
from muntin.plan.trees import lowered

JoinPart = tuple[Sequence[Query], Parts]
"""One join to be: its queries, and the part of each stream that it is for."""
WHOLE: Parts = (None, None)


@dataclass(frozen=True)
class QueryGroups:
    """The queries of a job, by groups that could share one join; `never` are those that can have no rows."""

    spec: JobSpec
    groups: tuple[tuple[Query, ...], ...]
    never: tuple[Query, ...]

    @property
    def queries(self) -> Iterator[Query]:
        """The queries that can have rows, in the order of the text."""
        away = {q.name for q in self.never}
        return (q for q in self.spec.queries.values() if q.name not in away)

    @cached_property
    def joins(self) -> tuple[SharedJoin, ...]:
        """One join for each group, with a cut at every window: what is known of the streams is known by these."""
        return tuple(make_joins(self.spec, ((group, WHOLE) for group in self.groups), distinct_windows))


def group_queries(spec: JobSpec) -> QueryGroups:
    """The queries of a job by what they have in common; those that can have no rows are planned away."""
    spec = with_copies(enriched(lowered(spec)))
    never: list[Query] = []
    for query in spec.queries.values():
        gone = {q.name for q in never}
        away = query.copy is not None and query.copy.beside in gone
        if away or never_true(spec, query) or gone.intersection(read_queries(query, spec.queries, spec.streams)):
            never.append(query)
    if len(never) == len(spec.queries):
        never = []  # an operator that keeps no rows is simpler than a job without one
    gone, groups = {q.name for q in never}, dict[tuple[object, ...], list[Query]]()
    for query in spec.queries.values():
        if query.name not in gone:
            groups.setdefault(signature(query), []).append(query)
    return QueryGroups(spec, tuple(map(tuple, groups.values())), tuple(never))


def make_joins(
    spec: JobSpec, parts: Iterable[JoinPart], cuts: Callable[[Sequence[Query], Side], Cuts], selects: bool = True
) -> Iterator[SharedJoin]:
    """The joins of a plan, numbered from 0; the first that reads a stream reports its late rows."""
    reported: set[str] = set()
    for index, (queries, partitions) in enumerate(parts):
        left, right = (relation(spec, queries[0].stream(side)) for side in Side)
        reports = left.name not in reported, right.name not in reported | {left.name}
        reported |= {left.name, right.name}
        yield SharedJoin(
            index=index,
            streams=(left, right),
            keys=tuple(sorted(queries[0].keys, key=lambda k: (k.left.sql, k.right.sql))),
            queries=tuple(queries),
            reports=reports,
            cuts=(cuts(queries, Side.LEFT), cuts(queries, Side.RIGHT)),
            selects=selects,
            partitions=partitions,
        )


class Strategy:
    """One way to share: it has no state, so there is one object of each."""

    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    explanation: ClassVar[tuple[str, ...]]
    """What EXPLAIN says that it does, line by line."""
    chain: ClassVar[str] = NO_CHAIN
    """The name of the chain by which it cuts states; others are then possible too."""
    selects: ClassVar[bool] = True
    """Whether selections decide what is stored and for how long, or only who receives a pair."""
    divides_queries: ClassVar[bool] = False
    """Whether a query may be fed by several joins."""

    @property
    def has_chains(self) -> bool:
        return self.chain != NO_CHAIN

    def parts(self, groups: QueryGroups) -> Iterable[JoinPart]:
        """The queries of each join, and the parts of the streams that it is for: one join for each group, of all."""
        return ((group, WHOLE) for group in groups.groups)

    def headline(self, joins: str) -> str:
        """How EXPLAIN counts the joins; `joins` is such as `3 joins`."""
        return joins.replace(" join", " shared join")

    def cuts(self, queries: Sequence[Query], side: Side) -> Cuts:
        """Where a join with these queries cuts its state: at its largest window only."""
        return distinct_windows(queries, side)[-1:]

    def joins(self, spec: JobSpec, parts: Iterable[JoinPart]) -> Iterator[SharedJoin]:
        return make_joins(spec, parts, self.cuts, self.selects)

    def plan(self, groups: QueryGroups) -> Plan:
        """The joins of a job; raises UsageError where the strategy cannot have them."""
        return Plan(placed(self.joins(groups.spec, self.parts(groups))), self.name, self.chain, groups.never)

    def check(self, groups: Iterable[tuple[SharedJoin, Traffic]]) -> None:
        """Refuse what `plan` would refuse, where that can be seen sooner from the joins of whole groups."""
        return None

    def identity(self, join: SharedJoin) -> tuple[object, ...]:
        """What makes two joins the same one over time: their streams and key."""
        return signature(join.queries[0])

    def change(self, plan: Plan, spec: JobSpec, fresh: Callable[[], Plan]) -> Plan:
        """From a plan in force to that for other queries: a join that was there keeps its number, and so its state.

        `fresh` makes the plan as if the job began now.
        """
        numbers = {self.identity(join): join.index for join in plan.joins}
        target, unused, joins = fresh(), plan.next_join, list[SharedJoin]()
        became: dict[int, int] = {}
        for join in target.joins:
            index = numbers.get(self.identity(join))
            if index is None or not _reads_the_same(plan, target, join, index, became):
                index, unused = unused, unused + 1
            became[join.index] = index
            joins.append(join.numbered(index, became.get(join.home, index)))
        return replace(target, joins=placed(joins), unused=unused)


def _reads_the_same(before: Plan, target: Plan, join: SharedJoin, index: int, became: Mapping[int, int]) -> bool:
    """Whether what a join reads of other queries is what the join with this number has read before, in its shards."""
    old = before.join(index)
    if old is not None and join.home != join.index and old.home != became[join.home]:
        return False
    for side in Side:
        source, name = join.reads[side], join.streams[side].name
        if source is not None and (old is None or old.reads[side] != became[source]):
            return False
        if source is not None and meaning(before.parts[name]) != meaning(target.parts[name]):
            return False
    return True
