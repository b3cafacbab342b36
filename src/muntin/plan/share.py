"""Which queries share a join, and how: the strategies of wang2006, sections 3 and 4, each a plan of its own.

    state-slice   one join; its state is cut by age, a row stays as long as some query wants it
    pull-up       one join of the largest window that keeps every row; selections and windows are checked on the pairs
    push-down     the streams divided by selection, one join for each two parts that a query wants together
    isolated      one join per query

The state of each stream of a join is cut into slices of age. In a Mem-Opt chain (5.1) the cuts are the windows:

    age    0 ------ w1 ------------ w2 ------------------ w3
    slice  [   0   )[      1       )[         2          )
    w1 reads 0;  w2 reads 0, 1;  w3 reads 0, 1, 2

A pair whose earlier row has an age in slice i belongs to every query whose window on that stream reaches past i: it
is found once and routed by construction. A merged slice (5.2) has windows inside; its pairs are routed by their age.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muntin.kernels.arrays import Bools
from muntin.model import Axis, Expr, JobSpec, KeyPair, Query, Schema, Side, Stream, UsageError
from muntin.model.plain import to_plain
from muntin.plan.regions import Predicates

STRATEGIES = ("state-slice", "pull-up", "push-down", "isolated")
MOST_PARTITIONS = 4096
"""Combinations of selection outcomes on one stream that push-down looks at."""
MOST_JOINS = 256
"""Joins that push-down may make of one: each is an operator with a state of its own in every shard."""
Cuts = tuple[int, ...]
"""Ends of the slices of one stream's state, ascending; the last is the largest window."""


@dataclass(frozen=True)
class Slice:
    """The rows of one stream with an age in `[lo, hi)` on its axis.

    `readers` are the queries that read it; `windows` the ages up to `hi` at which some of them stop reading. More
    than one: the slice is merged, and its pairs are routed by their age.
    """

    lo: int
    hi: int
    readers: tuple[str, ...]
    windows: tuple[int, ...]


@dataclass(frozen=True)
class Partition:
    """The rows of a stream for which exactly some of the predicates hold."""

    predicates: tuple[Expr, ...]
    truths: tuple[bool, ...]


Parts = tuple[Partition | None, Partition | None]
"""The part of each stream that a join is for; None where it is for all of it."""


@dataclass(frozen=True)
class SharedJoin:
    """One operator: two streams, one key, many queries. `index` numbers the joins of a job."""

    index: int
    streams: tuple[Stream, Stream]
    keys: tuple[KeyPair, ...]
    queries: tuple[Query, ...]
    reports: tuple[bool, bool]
    """For each side, whether this join is the one that reports the stream's late rows (a stream may feed several)."""
    cuts: tuple[Cuts, Cuts]
    selects: bool = True
    """Whether the selections decide what is stored and for how long, or only who receives a pair."""
    partitions: Parts = (None, None)
    """For each side, the part of the stream that this join is for."""

    @property
    def axes(self) -> tuple[Axis, Axis]:
        return self.queries[0].window.axes

    @cached_property
    def windows(self) -> tuple[Cuts, Cuts]:
        """The distinct windows of each side, ascending."""
        return _windows(self.queries, Side.LEFT), _windows(self.queries, Side.RIGHT)

    def slices(self, side: Side) -> tuple[Slice, ...]:
        """Slices of one stream's state from young to old; the last one ends at the largest window."""
        return self._slices[side]

    @cached_property
    def _slices(self) -> tuple[tuple[Slice, ...], tuple[Slice, ...]]:
        left, right = (tuple(self._cut(side)) for side in Side)
        return left, right

    def _cut(self, side: Side) -> Iterator[Slice]:
        ordered = sorted(self.queries, key=lambda q: q.window.side(side))
        ends = np.array([q.window.side(side) for q in ordered], np.int64)
        windows = np.array(self.windows[side], np.int64)
        position = {q.name: n for n, q in enumerate(self.queries)}
        for lo, hi in zip((0, *self.cuts[side]), self.cuts[side], strict=False):
            readers = [q.name for q in ordered[int(np.searchsorted(ends, lo, "right")) :]]
            inside = windows[np.searchsorted(windows, lo, "right") : np.searchsorted(windows, hi, "right")]
            yield Slice(lo, hi, tuple(sorted(readers, key=position.__getitem__)), tuple(map(int, inside)))

    def reach(self, side: Side) -> int:
        """How long a row of this side can still find a partner."""
        return self.windows[side][-1]


@dataclass(frozen=True)
class Plan:
    """The joins of a job. `strategy` and `chain` are the names of what was chosen; `never` are the queries that can
    have no rows, planned away."""

    joins: tuple[SharedJoin, ...]
    strategy: str
    chain: str
    never: tuple[Query, ...] = ()
    unused: int = 0
    """The first number that no join has had, where queries have come and gone."""

    @property
    def next_join(self) -> int:
        return max([self.unused, *(join.index + 1 for join in self.joins)])

    def join(self, index: int) -> SharedJoin | None:
        return next((join for join in self.joins if join.index == index), None)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that some query reads, each once, in the order in which the joins name them."""
        return tuple({s.name: s for join in self.joins for s in join.streams}.values())

    @property
    def queries(self) -> dict[str, Query]:
        """All queries of the job by name, those that can have no rows included."""
        return {q.name: q for q in (*(q for join in self.joins for q in join.queries), *self.never)}


def signature(query: Query) -> tuple[object, ...]:
    """What two queries must have in common to share a join; the order of the equalities does not matter."""
    keys = tuple(sorted((k.left.sql, k.right.sql, k.type) for k in query.keys))
    return (query.left, query.right, keys, query.window.axes)


def share(spec: JobSpec, strategy: str = "state-slice") -> Plan:
    """Group the queries of a job into shared joins, in the order in which the queries appear; Mem-Opt chains."""
    never = [q for q in spec.queries.values() if never_true(spec, q)]
    if len(never) == len(spec.queries):
        never = []  # an operator that keeps no rows is simpler than a job without one
    groups: dict[tuple[object, ...], list[Query]] = {}
    away = {q.name for q in never}
    for query in spec.queries.values():
        if query.name not in away:
            alone = (query.name,) if strategy == "isolated" else ()
            groups.setdefault((*alone, *signature(query)), []).append(query)
    parts = [part for queries in groups.values() for part in _parts(spec, queries, strategy)]
    chain = "mem-opt" if strategy == "state-slice" else "none"
    return Plan(tuple(joins_of(spec, parts, strategy)), strategy, chain, tuple(never))


def never_true(spec: JobSpec, query: Query) -> Expr | None:
    """A selection of the query that no row can satisfy."""
    for side in Side:
        where = query.where[side]
        if where is not None:
            for expr in Predicates([where], spec.streams[query.stream(side)].schema).never():
                return expr
    return None


def meaning(query: Query) -> object:
    """What a query asks for, however it was typed."""
    return _untyped(to_plain(query))


def _untyped(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_untyped(item) for item in plain]
    if isinstance(plain, dict):
        return {name: _untyped(item) for name, item in plain.items() if name != "text"}
    return plain


_Part = tuple[list[Query], Parts]


def _parts(spec: JobSpec, queries: list[Query], strategy: str) -> Iterable[_Part]:
    """The joins that a group of queries becomes: one, or one for each two parts of the streams that meet."""
    if strategy != "push-down":
        return [(queries, (None, None))]
    finals = [q for q in queries if q.final]
    if finals:  # when a group is over, is known where all its pairs are
        others = [q for q in queries if not q.final]
        return [*(_parts(spec, others, strategy) if others else ()), (finals, (None, None))]
    sides = [list(_partitions(spec, queries, side)) for side in Side]
    parts: list[_Part] = []
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
    return parts or [(queries, (None, None))]  # where no row can be wanted, as above


def _partitions(spec: JobSpec, queries: list[Query], side: Side) -> Iterable[tuple[Partition, Bools]]:
    """The parts of a stream by the selections that hold, each with the queries that want it; wanted ones only."""
    wheres = [q.where[side] for q in queries]
    distinct = list({w.sql: w for w in wheres if w is not None}.values())
    predicates = Predicates(distinct, spec.streams[queries[0].stream(side)].schema)
    if predicates.combinations > MOST_PARTITIONS:
        raise UsageError(
            f"strategy push-down would divide {queries[0].stream(side)} into up to {predicates.combinations:,} parts; "
            f"the limit is {MOST_PARTITIONS:,}",
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


def wanted_parts(part: Partition | None, query: Query, schema: Schema, side: Side) -> list[Partition] | None:
    """The parts that a query wants of a stream that is divided as into this one; None where its selection is none of
    those that divide it."""
    where = query.where[side]
    if part is None or (where is not None and where.sql not in {p.sql for p in part.predicates}):
        return None
    return [other for other in _all_parts(Predicates(part.predicates, schema)) if _wanted(other, where)]


def joins_of(spec: JobSpec, parts: Iterable[_Part], strategy: str) -> Iterable[SharedJoin]:
    reported: set[str] = set()
    for index, (queries, partitions) in enumerate(parts):
        streams = tuple(spec.streams[queries[0].stream(side)] for side in Side)
        reports = []
        for stream in streams:
            reports.append(stream.name not in reported)
            reported.add(stream.name)
        keys = tuple(sorted(queries[0].keys, key=lambda k: (k.left.sql, k.right.sql)))
        cuts = [_windows(queries, side) for side in Side]
        if strategy != "state-slice":
            cuts = [ends[-1:] for ends in cuts]
        yield SharedJoin(
            index,
            (streams[0], streams[1]),
            keys,
            tuple(queries),
            (reports[0], reports[1]),
            (cuts[0], cuts[1]),
            strategy != "pull-up",
            partitions,
        )


def _windows(queries: Iterable[Query], side: Side) -> Cuts:
    return tuple(sorted({q.window.side(side) for q in queries}))
