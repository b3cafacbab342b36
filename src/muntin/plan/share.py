"""Queries over the same two streams with the same join key become one shared join (wang2006, sections 2 and 4).

The state of each stream of a shared join is cut by age at the windows of its queries (the Mem-Opt chain of
wang2006 5.1: one slice per distinct window):

    age    0 ------ w1 ------------ w2 ------------------ w3
    slice  [   0   )[      1       )[         2          )
    w1 reads 0;  w2 reads 0, 1;  w3 reads 0, 1, 2

A pair whose earlier row has an age in slice i belongs to every query whose window on that stream reaches past i: it
is found once and routed by construction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muntin.model import Axis, JobSpec, KeyPair, Query, Side, Stream


@dataclass(frozen=True)
class Slice:
    """The rows of one stream with an age in `[lo, hi)` on its axis, and the names of the queries that read them."""

    lo: int
    hi: int
    readers: tuple[str, ...]


@dataclass(frozen=True)
class SharedJoin:
    """One operator: two streams, one key, many queries. `index` numbers the joins of a job."""

    index: int
    streams: tuple[Stream, Stream]
    keys: tuple[KeyPair, ...]
    queries: tuple[Query, ...]
    reports: tuple[bool, bool]
    """For each side, whether this join is the one that reports the stream's late rows (a stream may feed several)."""

    @property
    def axes(self) -> tuple[Axis, Axis]:
        return self.queries[0].window.axes

    def slices(self, side: Side) -> tuple[Slice, ...]:
        """Slices of one stream's state from young to old; the last one ends at the largest window."""
        cuts = sorted({q.window.side(side) for q in self.queries})
        lows = [0, *cuts]
        return tuple(
            Slice(lo, hi, tuple(q.name for q in self.queries if q.window.side(side) >= hi))
            for lo, hi in zip(lows, cuts, strict=False)
        )

    def reach(self, side: Side) -> int:
        """How long a row of this side can still find a partner."""
        return max(q.window.side(side) for q in self.queries)


@dataclass(frozen=True)
class Plan:
    joins: tuple[SharedJoin, ...]

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that some query reads, each once, in the order in which the joins name them."""
        return tuple({s.name: s for join in self.joins for s in join.streams}.values())


def signature(query: Query) -> tuple[object, ...]:
    """What two queries must have in common to share a join; the order of the equalities does not matter."""
    keys = tuple(sorted((k.left.sql, k.right.sql, k.type) for k in query.keys))
    return (query.left, query.right, keys, query.window.axes)


def share(spec: JobSpec) -> Plan:
    """Group the queries of a job into shared joins, in the order in which the queries appear."""
    groups: dict[tuple[object, ...], list[Query]] = {}
    for query in spec.queries.values():
        groups.setdefault(signature(query), []).append(query)
    return Plan(tuple(_joins(spec, groups.values())))


def _joins(spec: JobSpec, groups: Iterable[list[Query]]) -> Iterable[SharedJoin]:
    reported: set[str] = set()
    for index, queries in enumerate(groups):
        streams = tuple(spec.streams[queries[0].stream(side)] for side in Side)
        reports = []
        for stream in streams:
            reports.append(stream.name not in reported)
            reported.add(stream.name)
        keys = tuple(sorted(queries[0].keys, key=lambda k: (k.left.sql, k.right.sql)))
        yield SharedJoin(index, (streams[0], streams[1]), keys, tuple(queries), (reports[0], reports[1]))
