"""Which columns of a query's rows are its join key: a broker keeps messages with one key in order."""

from __future__ import annotations

import re

from muntin.model import Expr, Query

_GROUP = re.compile(r'"g\.(\d+)"')


def key_columns(query: Query) -> tuple[str, ...]:
    """The output columns that are the parts of the key, one for each; none where the SELECT list leaves some out."""
    found: list[str] = []
    for pair in query.keys:
        named = next((output.name for output in query.select if query.is_key(pair, _plain(query, output.expr))), None)
        if named is None:
            return ()
        found.append(named)
    return tuple(found)


def _plain(query: Query, expr: Expr) -> Expr:
    """What an output column is of a row of the join; a group of an aggregate stands for its expression."""
    group = _GROUP.fullmatch(expr.sql)
    return query.aggregation.groups[int(group[1])] if group and query.aggregation else expr
