"""Queries as streams: the output of a query of the job, read by another one (semantics, section 8).

A query may read another query of the job by its name. One over more than two streams is a tree of two-stream joins: its
`inputs` are queries that nobody named, each over two streams or over the one before it and a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muntin.model.job import JobSpec, Query, Side, Stream
from muntin.model.types import Field, Schema

OUTPUT_TIME = "_at"
"""The column of a query's output with its timestamp, as those that read it keep it; SQL calls it `_ts`."""


def derived_stream(query: Query) -> Stream:
    """The output of a query as a stream: it is in order, so nothing of it is late."""
    columns = (*(Field(o.name, o.expr.type) for o in query.select), Field(OUTPUT_TIME, "timestamp"))
    return Stream(query.name, Schema(columns), OUTPUT_TIME, derived=True, called=query.text if query.hidden else "")


def relation(spec: JobSpec, name: str) -> Stream:
    """What a query reads by this name: a stream of the job, or the output of one of its queries."""
    return spec.streams[name] if name in spec.streams else derived_stream(spec.queries[name])


def read_queries(query: Query, queries: Mapping[str, Query], streams: Mapping[str, Stream]) -> Iterator[str]:
    """The queries of the job, by name, that a query reads itself or in one of its inputs."""
    own = {part.name for part in query.inputs}
    for part in (*query.inputs, query):
        for side in Side:
            name = part.stream(side)
            if name not in streams and name not in own and name in queries:
                yield name


def base_streams(query: Query, queries: Mapping[str, Query], streams: Mapping[str, Stream]) -> set[str]:
    """The streams that a query's rows come from, also through queries that it reads."""
    found = {part.stream(side) for part in (*query.inputs, query) for side in Side} & set(streams)
    for name in read_queries(query, queries, streams):
        found |= base_streams(queries[name], queries, streams)
    return found


def readers(name: str, queries: Mapping[str, Query], streams: Mapping[str, Stream]) -> list[str]:
    """The queries that read a query."""
    return [other.name for other in queries.values() if name in read_queries(other, queries, streams)]
