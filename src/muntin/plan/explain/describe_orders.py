"""In which orders queries over more than two streams could join them, as the tree of `description`."""

from __future__ import annotations

from dataclasses import replace

from muntin.model import JobSpec, JoinGraph, Query
from muntin.plan.explain.description import JoinOrderUse, QueryOrders
from muntin.plan.join_orders import FOR_SHARING, MARGIN, JoinOrder, JoinOrders
from muntin.plan.known_joins import KnownJoins
from muntin.plan.stream_rates import StreamRates
from muntin.plan.traffic import Knowledge

MOST_ORDERS = 100


def describe_orders(spec: JobSpec, known: Knowledge, runs: bool) -> list[QueryOrders]:
    """The orders of each query over more than two streams, its own first; `runs` says that a checkpoint has them."""
    return [_orders(spec, query, query.graph, known, runs) for query in spec.queries.values() if query.graph]


def _orders(spec: JobSpec, query: Query, graph: JoinGraph, known: Knowledge, runs: bool) -> QueryOrders:
    others = replace(spec, queries={name: q for name, q in spec.queries.items() if name != query.name})
    written = (query.as_written or query).graph or graph
    joins = KnownJoins(others.queries.values())
    orders = JoinOrders(others, written, StreamRates(others, known), joins, known.constants)
    best, taken = orders.best(), orders.of(graph.order)
    rest = [order for order in best if order.aliases != taken.aliases]
    shown = [_use(graph, taken), *(_use(graph, order) for order in rest[: MOST_ORDERS - 1])]
    return QueryOrders(query.name, _why(graph, taken, best, runs), graph.last, shown, max(0, len(best) - MOST_ORDERS))


def _use(graph: JoinGraph, order: JoinOrder) -> JoinOrderUse:
    return JoinOrderUse(
        order=list(order.aliases),
        streams=[graph.item(alias).stream for alias in order.aliases],
        pairs_between_per_second=round(order.pairs_between, 3),
        rows=round(order.rows, 3),
        cpu_ms_per_second=round(order.cpu_ns / 1e6, 6),
        in_every_shard=[step.alias for step in order.steps if step.everywhere],
        without_equality=[step.alias for step in order.steps if not step.by_key],
        shares=[step.shares or None for step in order.steps],
    )


def _why(graph: JoinGraph, taken: JoinOrder, best: list[JoinOrder], runs: bool) -> str:
    """Why a query joins its streams as it does."""
    if len(best) < 2:
        return "there is no other order in which each stream has a condition with those before it"
    if taken.aliases != best[0].aliases:
        fixed = "it joins in this order since it came, and goes on so"
        return fixed if runs else "those that cost less would not have all matches of a row in one shard"
    least = min(order.cpu_ns for order in best if order.without_key == taken.without_key)
    if taken.shares and taken.cpu_ns > (1 + MARGIN) * least:
        return f"{_shared(taken)}, and no other has less than 1/{FOR_SHARING:g} of its work and rows"
    reason = "the least work"
    if taken.cpu_ns > least:
        reason = f"the fewest rows kept of those within {MARGIN:.0%} of the least work"
    return f"{reason}; {_shared(taken)}" if taken.shares else reason


def _shared(order: JoinOrder) -> str:
    deep = sum(1 for n, step in enumerate(order.steps) if all(s.shares for s in order.steps[: n + 1]))
    return f"{' x '.join(order.aliases[: deep + 1])} is there for {order.steps[deep - 1].shares}"
