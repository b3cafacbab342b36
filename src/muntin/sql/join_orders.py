"""The orders in which the queries of a job join more than two streams: chosen by `plan`, and bound here.

An order is fixed when a query comes. A job file is looked at as a whole: queries over two streams are there from the
beginning, the others settle one after the other, and once more beside all that have settled. So a sub-join that
several queries can have is found wherever they stand in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from muntin.model import JobSpec, JoinGraph, MuntinError, Query, read_queries
from muntin.plan import share
from muntin.plan.cost import Constants
from muntin.plan.join_orders import JoinOrder, JoinOrders
from muntin.plan.known_joins import KnownJoins
from muntin.plan.stream_rates import StreamRates
from muntin.plan.traffic import Knowledge

ROUNDS = 2
"""How often each query of a job file looks at what the others have."""

Rebind = Callable[[JobSpec, Query, Sequence[str]], Query]
"""A query in another order of joins."""
Check = Callable[[JobSpec, Query], None]
"""Raises where a query does not go with its order."""


@dataclass(frozen=True)
class JoinChooser:
    """What orders are chosen by: the joins of other queries, what is known of streams, and what work costs."""

    known: KnownJoins
    rates: StreamRates
    constants: Constants


def ordered_job(spec: JobSpec, knowledge: Knowledge, rebind: Rebind, check: Check) -> JobSpec:
    """A job whose queries join more than two streams in the best order each, beside the others."""
    trees = [name for name, query in spec.queries.items() if query.graph is not None]
    settled = {name: query for name, query in spec.queries.items() if query.graph is None}
    known, rates = KnownJoins(settled.values()), StreamRates(spec, knowledge)
    for _ in range(ROUNDS if len(trees) > 1 else 1):
        before = dict(settled)
        for name in trees:
            known.remove(name)
            query = settled.get(name, spec.queries[name])
            settled[name] = _ordered(spec, query, JoinChooser(known, rates, knowledge.constants), rebind, check)
            known.add(settled[name])
        if settled == before:
            break
    return replace(spec, queries={name: settled[name] for name in spec.queries}) if trees else spec


def ordered_query(spec: JobSpec, query: Query, knowledge: Knowledge, rebind: Rebind, check: Check) -> Query:
    """A query in the best order of joins beside those of a job."""
    if query.graph is None:
        return query
    known, rates = KnownJoins(spec.queries.values()), StreamRates(spec, knowledge)
    return _ordered(spec, query, JoinChooser(known, rates, knowledge.constants), rebind, check)


def _ordered(spec: JobSpec, query: Query, chooser: JoinChooser, rebind: Rebind, check: Check) -> Query:
    written = query.as_written or query
    others = replace(spec, queries={name: q for name, q in spec.queries.items() if name != query.name})
    orders = JoinOrders(others, _as_written(query), chooser.rates, chooser.known, chooser.constants)
    for order in orders.best():
        found = _bound(others, query, written, order, rebind)
        if found is not None and _accepted(others, found, check):
            return found
    return query


def _as_written(query: Query) -> JoinGraph:
    graph = (query.as_written or query).graph or query.graph
    assert graph is not None
    return graph


def _bound(spec: JobSpec, query: Query, written: Query, order: JoinOrder, rebind: Rebind) -> Query | None:
    if order.aliases == _as_written(query).order:
        return replace(written, text=query.text)
    if query.graph is not None and order.aliases == query.graph.order:
        return query
    try:
        found = rebind(spec, query, order.aliases)
    except MuntinError:
        return None
    return replace(found, as_written=replace(written, text=""))


def _accepted(spec: JobSpec, query: Query, check: Check) -> bool:
    """Whether a query goes with its order; only some need all matches of a row in one shard, or read queries."""
    if not query.needs_all_matches and not any(read_queries(query, spec.queries, spec.streams)):
        return True
    try:
        check(spec, query)
        share(replace(spec, queries={**spec.queries, query.name: query}))
    except MuntinError:
        return False
    return True
