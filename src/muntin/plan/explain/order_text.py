"""What EXPLAIN says of the orders of joins of queries over more than two streams."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.plan.explain.description import JoinOrderUse, QueryOrders
from muntin.plan.explain.words import LINES, LISTED, number, rounded

HEADER = ("order", "pairs between/s", "rows kept", "CPU ms/s")


def order_lines(queries: Sequence[QueryOrders]) -> list[str]:
    """The order that each query joins in, and the others with their costs."""
    lines = ["orders of joins"] if queries else []
    for query in queries[:LINES]:
        last = f"; {query.last} has to be the last one" if query.last else ""
        lines.append(f"  query {query.query}: {query.why}{last}")
        shown = query.orders[:LISTED]
        cells = [HEADER, *map(_cells, shown)]
        widths = [max(len(row[n]) for row in cells) for n in range(len(HEADER))]
        notes = ["", *(_notes(order, taken=n == 0) for n, order in enumerate(shown))]
        for row, note in zip(cells, notes, strict=True):
            first, *rest = (f"{c:>{w}}" if n else f"{c:<{w}}" for n, (c, w) in enumerate(zip(row, widths, strict=True)))
            lines.append(f"    {'  '.join([first, *rest])}{note}".rstrip())
        if (more := len(query.orders) - len(shown) + query.more) > 0:
            lines.append(f"    and {more:,} more orders")
    if (more := len(queries) - LINES) > 0:
        lines.append(f"  and {more:,} more queries, which --json lists")
    return lines


def _cells(order: JoinOrderUse) -> tuple[str, ...]:
    work = number(order.pairs_between_per_second), rounded(order.rows), number(order.cpu_ms_per_second)
    return " x ".join(order.order), *work


def _notes(order: JoinOrderUse, taken: bool) -> str:
    notes = [f"{alias} in every shard" for alias in order.in_every_shard]
    notes += [f"{alias} without an equality" for alias in order.without_equality]
    said = f"  ({', '.join(notes)})" if notes else ""
    return f"{said}  <- taken" if taken else said
