"""`ORDER BY ... LIMIT n`: the first pairs of each group.

Order and SELECT list are expressions over the pair; what stands above them are the columns as `"t.0"`, `"t.1"`, ... and
the rank.
"""

from __future__ import annotations

from sqlglot import exp

from muntin.model import Expr, Output
from muntin.model.job import RANK, Order, Top
from muntin.sql.expressions import Expressions
from muntin.sql.places import SqlText
from muntin.sql.translate import called

MAX_LIMIT = 1000
_EXAMPLE = "ORDER BY A.x DESC LIMIT 3"


def is_ranked(select: exp.Select) -> bool:
    return any(select.args.get(clause) for clause in ("order", "limit"))


def bind_top(
    text: SqlText, pairs: Expressions, select: exp.Select, items: list[tuple[str, exp.Expr]]
) -> tuple[tuple[Output, ...], Top]:
    """The output columns, and what they are made of."""
    limit = _limit(text, select)
    order = tuple(_order(text, pairs, node) for node in select.args["order"].expressions)
    columns = tuple(pairs.comparable(node, "a column beside ORDER BY ... LIMIT") for _, node in items)
    names = [(name, f"t.{n}", column.type) for n, ((name, _), column) in enumerate(zip(items, columns, strict=True))]
    outputs = (Output(name, Expr(f'"{made}"', kind, name)) for name, made, kind in [*names, (RANK, RANK, "int")])
    return tuple(outputs), Top(limit, order, columns)


def _limit(text: SqlText, select: exp.Select) -> int:
    """How many are wanted; other clauses that do not go with that are refused."""
    order, limit, having, distinct = (select.args.get(c) for c in ("order", "limit", "having", "distinct"))
    if limit is None:
        hint = f"the output is in order of time; for the first of the live pairs add LIMIT: {_EXAMPLE}"
        raise text.error("ORDER BY without LIMIT", order, hint)
    if order is None:
        raise text.error("LIMIT without ORDER BY", limit, f"say which are the first: {_EXAMPLE}")
    for node in (*select.expressions, *order.expressions):
        if (inner := node.find(exp.AggFunc)) is not None:
            hint = "leave ORDER BY and LIMIT out, or select plain expressions over the pair"
            raise text.refuse(f"ORDER BY ... LIMIT beside the aggregate {called(inner)}", inner, hint)
    if distinct is not None or having is not None:
        at, what = (distinct, "DISTINCT") if distinct is not None else (having, "HAVING")
        hint = "leave it out; a condition on pairs stands in WHERE"
        raise text.refuse(f"{what} beside ORDER BY ... LIMIT", at, hint)
    emit = select.args.get("emit")
    if emit is not None and emit.args.get("final"):
        raise text.refuse("EMIT FINAL beside ORDER BY ... LIMIT", emit, "write EMIT CHANGES or EVERY 10 seconds")
    number = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdigit():
        raise text.error("LIMIT needs a plain number", limit, f"write {_EXAMPLE}")
    if not 1 <= int(number.name) <= MAX_LIMIT:
        raise text.error(f"LIMIT {number.name} is not between 1 and {MAX_LIMIT}", limit, "ask for fewer of each group")
    return int(number.name)


def _order(text: SqlText, pairs: Expressions, node: exp.Expr) -> Order:
    if not isinstance(node, exp.Ordered) or isinstance(node.this, exp.Var):
        clause = node.find_ancestor(exp.Order) or node
        raise text.refuse(text.slice(clause), clause, f"name what to order by: {_EXAMPLE}")
    by = pairs.comparable(node.this, "an order")
    return Order(by, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
