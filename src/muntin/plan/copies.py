"""A query over two others whose rows do not lie in the same shards: one of the two is done once more beside the other.

    FROM q1 JOIN q2 ON q1.k = q2.k          q1 lies by k in its shards, q2 in those of another join, or by another key

Rows that a join has found never change their shard (`plan/placement.py`). So q2 is computed again, with all that it
reads, in the shards of q1, by a hidden copy of it. The streams of q2 come there

    by key      where q2 lies by the key, too: each of its rows is in the shard in which q1 has its partners
    to all      otherwise: every shard finds all rows of q2, as any stream by another key goes to every shard

Which of the two is copied follows from the query alone, so it is the same whenever a plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from muntin.model import JobSpec, Query, QueryCopy, Side, UsageError, relation
from muntin.plan.joins import SharedJoin, signature
from muntin.plan.placement import placed

ALONE = "isolated"
"""The strategy by which queries share no join."""


def with_copies(spec: JobSpec) -> JobSpec:
    """A job whose queries join what lies in the same shards; its queries come each after those that they read."""
    for query in list(spec.queries.values()):
        if query.copy is None and all(query.stream(side) in spec.queries for side in Side):
            spec = _settled(spec, query)
    return spec


def originals(known: Mapping[str, Query]) -> dict[str, Query]:
    """Hidden queries that run, without copies, and over what is copied."""
    copied = {name: query.copy.of for name, query in known.items() if query.copy is not None}
    return {
        name: replace(query, left=copied.get(query.left, query.left), right=copied.get(query.right, query.right))
        for name, query in known.items()
        if query.copy is None
    }


def _settled(spec: JobSpec, query: Query) -> JobSpec:
    """The job with the first way to join two queries that can be; raises the reason where there is none."""
    refused: UsageError | None = None
    for way in _ways(spec, query):
        try:
            placed(_joins(way, query.name))
        except UsageError as error:
            refused = error
        else:
            return way
    assert refused is not None
    raise refused


def _ways(spec: JobSpec, query: Query) -> Iterator[JobSpec]:
    yield spec
    for whole in (False, True):
        for side in (Side.RIGHT, Side.LEFT):
            copies: dict[str, Query] = {}
            name = _copied(spec, query.stream(side), query.stream(side.other), whole, copies)
            made = replace(query, right=name) if side is Side.RIGHT else replace(query, left=name)
            yield replace(spec, queries=dict(_inserted(spec, made, copies)))


def _inserted(spec: JobSpec, reader: Query, copies: Mapping[str, Query]) -> Iterator[tuple[str, Query]]:
    """The queries with some copies right before the one that reads them, unless these are there."""
    for name, query in spec.queries.items():
        if name == reader.name:
            yield from ((own, copy) for own, copy in copies.items() if own not in spec.queries)
            yield name, reader
        else:
            yield name, query


def _copied(spec: JobSpec, name: str, beside: str, whole: bool, made: dict[str, Query]) -> str:
    """The name of the copy of a query; it and those of all that the query reads are added to `made`."""
    query = spec.queries[name]
    if (copied := query.copy) is not None:
        query, whole = spec.queries[copied.of], whole or copied.whole
    own = f"_{query.name.lstrip('_')}_{'in' if whole else 'by'}_{beside.lstrip('_')}"
    if own not in made:
        left, right = (
            _copied(spec, stream, beside, whole, made) if (stream := query.stream(side)) in spec.queries else stream
            for side in Side
        )
        copy = QueryCopy(query.name, beside, whole)
        text = query.text if query.hidden else query.name
        made[own] = replace(query, name=own, left=left, right=right, into=None, hidden=True, text=text, copy=copy)
    return own


def _joins(spec: JobSpec, name: str) -> Sequence[SharedJoin]:
    """The joins of a query and of all that it reads, as far as says where rows lie."""
    queries: dict[str, Query] = {}

    def take(name: str) -> None:
        if name in spec.queries and name not in queries:
            query = spec.queries[name]
            for below in (*(query.stream(side) for side in Side), *([query.copy.beside] if query.copy else [])):
                take(below)
            queries[name] = query

    take(name)
    groups: dict[object, list[Query]] = {}
    for query in queries.values():
        groups.setdefault(query.name if spec.settings.strategy == ALONE else signature(query), []).append(query)
    return [_join(spec, n, group) for n, group in enumerate(groups.values())]


def _join(spec: JobSpec, index: int, queries: Sequence[Query]) -> SharedJoin:
    first = queries[0]
    left, right = (relation(spec, first.stream(side)) for side in Side)
    keys = tuple(sorted(first.keys, key=lambda k: (k.left.sql, k.right.sql)))
    return SharedJoin(index, (left, right), keys, tuple(queries), (False, False), ((1,), (1,)))
