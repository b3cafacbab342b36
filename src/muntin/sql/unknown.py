"""What to say about a call of a function that there is not."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from muntin.model import SqlError
from muntin.plan.functions import AGGREGATES
from muntin.sql.places import SqlText, did_you_mean, listing

AGGREGATE_NAMES = tuple(name for function in AGGREGATES for name in function.sql_names)
_CLOCKS = ("now", "current_timestamp", "current_date", "curdate", "localtimestamp", "current_time")
_MOST = 12
"""How many functions a hint names."""


def unknown_function(text: SqlText, node: exp.Expr, functions: Iterable[str]) -> SqlError:
    """A function that is not there; an aggregate comes here when it is called with a wrong number of arguments."""
    name = node.name.lower()
    if name in AGGREGATE_NAMES:
        message = f"{name.upper()} does not take {arguments(len(node.expressions))}"
        return text.error(message, node, f"write {name.upper()}(expression)")
    if name in _CLOCKS:
        hint = "a query sees event times only, so that it has the same answer whenever it runs; write A.ts"
        return text.refuse(f"the function {node.name.upper()}", node, hint)
    known = [*functions, *AGGREGATE_NAMES]
    hint = did_you_mean(name, known, _like(name, known), cutoff=0.7)
    return text.refuse(f"the function {node.name.upper()}", node, hint)


def arguments(count: int) -> str:
    return f"{count} argument{'s' * (count != 1)}"


def _like(name: str, known: list[str]) -> str:
    """The functions that have a word in common with a name; else where they all are."""
    words = {word for word in name.split("_") if len(word) > 2}
    found = [k for k in known if words & set(k.split("_"))]
    return f"there are {listing(found[:_MOST])}" if found else "docs/sql.md lists the functions"
