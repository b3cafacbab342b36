"""The joins of a job: which queries share one, which streams they join, and where the state of each stream is cut.

The state of each stream of a join is cut into slices of age. Where every window is a cut (wang2006 5.1):

    age    0 ------ w1 ------------ w2 ------------------ w3
    slice  [   0   )[      1       )[         2          )
    w1 reads 0;  w2 reads 0, 1;  w3 reads 0, 1, 2

A pair whose earlier row has an age in slice i belongs to every query whose window on that stream reaches past i: it
is found once and routed by construction. A merged slice (5.2) has windows inside; its pairs are routed by their age.
A query that begins at a later age reads from the slice on that begins there: such ages are cuts as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from muntin.model import Axis, Expr, JobSpec, KeyPair, Query, Side, Stream, relation
from muntin.model.plain import to_plain
from muntin.plan.own_windows import OwnWindows
from muntin.plan.regions import Predicates

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
    reads: tuple[int | None, int | None] = (None, None)
    """For each side, the number of the join whose output it is; None for a stream of the job."""
    everywhere: tuple[bool, bool] = (False, False)
    """For each side, whether its rows go to every shard and are kept there (`plan/placement.py`)."""
    home: int = -1
    """The number of the join in whose shards it lives."""
    feeds: tuple[str, ...] = ()
    """Its queries whose output other joins read."""
    hears: tuple[bool, bool] = (False, False)
    """For each side, whether the join whose output it is passes on which keys are over (`plan/placement.py`)."""

    def __post_init__(self) -> None:
        if self.home < 0:
            object.__setattr__(self, "home", self.index)

    @property
    def whole(self) -> bool:
        """Whether every shard has all rows of both sides, and so finds all matches."""
        return all(self.everywhere)

    @property
    def spread(self) -> bool:
        """Whether the matches of a key may be in any shard, since one side goes to every shard."""
        return any(self.everywhere) and not self.whole

    def numbered(self, index: int, home: int = -1) -> SharedJoin:
        """The same join with another number, in shards of its own where no `home` is given."""
        return replace(self, index=index, home=home)

    @property
    def axes(self) -> tuple[Axis, Axis]:
        return self.queries[0].window.axes

    @cached_property
    def own_windows(self) -> OwnWindows:
        """The queries that let rows wait until a time of their own."""
        return OwnWindows.of(self.queries)

    @cached_property
    def windows(self) -> tuple[Cuts, Cuts]:
        """The distinct ages of each side at which some query begins or ends, ascending."""
        return distinct_windows(self.queries, Side.LEFT), distinct_windows(self.queries, Side.RIGHT)

    def slices(self, side: Side) -> tuple[Slice, ...]:
        """Slices of one stream's state from young to old; the last one ends at the largest window."""
        return self._slices[side]

    @cached_property
    def _slices(self) -> tuple[tuple[Slice, ...], tuple[Slice, ...]]:
        left, right = (tuple(self._cut(side)) for side in Side)
        return left, right

    def _cut(self, side: Side) -> Iterator[Slice]:
        names = np.array([q.name for q in self.queries])
        starts = np.array([q.window.starts[side] for q in self.queries], np.int64)
        ends = np.array([q.window.side(side) for q in self.queries], np.int64)
        windows = np.array(self.windows[side], np.int64)
        for lo, hi in zip((0, *self.cuts[side]), self.cuts[side], strict=False):
            readers = names[(ends > lo) & (starts < hi) & (starts < ends)]
            inside = windows[np.searchsorted(windows, lo, "right") : np.searchsorted(windows, hi, "right")]
            yield Slice(lo, hi, tuple(map(str, readers)), tuple(map(int, inside)))

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
    asked: tuple[Query, ...] = ()
    """The queries over more than two streams, or over two queries, as they were asked: the joins have them over two
    inputs that lie in the same shards."""

    @property
    def next_join(self) -> int:
        return max([self.unused, *(join.index + 1 for join in self.joins)])

    def join(self, index: int) -> SharedJoin | None:
        return next((join for join in self.joins if join.index == index), None)

    def reports_idle(self, join: SharedJoin, side: Side) -> bool:
        """Whether a join that does not report the late rows of a stream reports those that are late only because the
        stream was idle beside the other one: the first of the joins with these two streams, where none reports all."""
        names, own = {stream.name for stream in join.streams}, join.streams[side]
        alike = [other for other in self.joins if {stream.name for stream in other.streams} == names]
        reported = {
            s.name for other in alike for s, reports in zip(other.streams, other.reports, strict=True) if reports
        }
        return own.name not in reported and alike[0].index == join.index

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that some query reads, each once, in the order in which the joins name them."""
        return tuple({s.name: s for join in self.joins for s in join.streams if not s.derived}.values())

    @property
    def queries(self) -> dict[str, Query]:
        """All queries of the job by name, as they were asked, those that can have no rows included."""
        asked = {query.name: query for query in self.asked}
        return {name: asked.get(name, query) for name, query in self.parts.items() if not query.hidden}

    @property
    def parts(self) -> dict[str, Query]:
        """All queries over two streams by name, as the joins have them, also those that nobody named."""
        return {q.name: q for q in (*(q for join in self.joins for q in join.queries), *self.never)}

    @property
    def hidden(self) -> dict[str, Query]:
        """The queries that nobody named: inputs of others."""
        return {name: query for name, query in self.parts.items() if query.hidden}

    @cached_property
    def read(self) -> frozenset[str]:
        """The queries whose output some join reads."""
        return frozenset(stream.name for join in self.joins for stream in join.streams if stream.derived)

    def living_in(self, home: int) -> tuple[SharedJoin, ...]:
        """The joins that live in the shards of one, each after those that it reads."""
        return tuple(join for join in self.joins if join.home == home)


def signature(query: Query) -> tuple[object, ...]:
    """What two queries must have in common to share a join; the order of the equalities does not matter."""
    keys = tuple(sorted((k.left.sql, k.right.sql, k.type) for k in query.keys))
    where = None if query.copy is None else (query.copy.beside, query.copy.whole)
    return (query.left, query.right, keys, query.window.axes, where)


def enriched(spec: JobSpec) -> JobSpec:
    """A job with streams that look up what its queries want."""
    lookups = [lookup for query in spec.queries.values() for lookup in query.lookups]
    streams = {name: stream.looking_up(lookups) for name, stream in spec.streams.items()}
    return replace(spec, streams=streams) if lookups else spec


NO_TIME = Expr("FALSE", "boolean", "an interval that holds no time")


def never_true(spec: JobSpec, query: Query) -> Expr | None:
    """A selection of the query that no row can satisfy, and without which it has no rows."""
    if not query.preserved and all(query.window.side(s) <= query.window.starts[s] for s in Side):
        return NO_TIME
    for side in query.preserved if len(query.preserved) == 1 else Side:
        where = query.where[side]
        if where is not None:
            for expr in Predicates([where], relation(spec, query.stream(side)).schema).never():
                return expr
    return None


HOW_IT_COMES = "text", "from_beginning", "since_us"
"""What of a query says nothing of the rows that it has from some time on."""


def meaning(query: Query) -> object:
    """What a query means, however it was typed, in whatever order it joins, and whatever it asked for when it came."""
    written = query.as_written or query
    return _untyped(to_plain(written if written.graph is None else replace(written, graph=None)))


def _untyped(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_untyped(item) for item in plain]
    if isinstance(plain, dict):
        return {name: _untyped(item) for name, item in plain.items() if name not in HOW_IT_COMES}
    return plain


def distinct_windows(queries: Iterable[Query], side: Side) -> Cuts:
    """The ages at which some queries begin or end to read one side, ascending; where none reads it, the least age."""
    ages = {age for q in queries for age in (q.window.starts[side], q.window.side(side)) if age}
    return tuple(sorted(ages)) or (1,)
