"""Queries that let rows wait until a time of their own (semantics, section 2).

The time is an expression over the row. Two rows are *open* to each other in a query when the later one comes before the
time of the earlier one; of two rows with equal times it is enough that one of them waits. That is a condition on the
pair like any other, but for what it costs: the times are known by row, so nothing is evaluated for a pair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from muntin.model import Expr, Query, Side

_MOVED = re.compile(r" \+ TO_MICROSECONDS\(CAST\((\d+) AS BIGINT\)\)")
NONE = -1
"""Where a query has no such time."""


@dataclass(frozen=True)
class OwnWindows:
    """The times that the queries of a join name, each once, and who names which."""

    untils: tuple[tuple[Expr, ...], tuple[Expr, ...]]
    """Of each side, by number."""
    of_query: tuple[tuple[int, int], ...]
    """For each query the number of its time on each side; `NONE` where it has none."""

    @classmethod
    def of(cls, queries: Sequence[Query]) -> OwnWindows:
        sides = []
        for side in Side:
            sides.append({u.sql: u for q in queries if (u := q.until[side]) is not None})
        numbers = [{sql: n for n, sql in enumerate(named)} for named in sides]
        of_query = [
            tuple(NONE if (u := q.until[side]) is None else numbers[side][u.sql] for side in Side) for q in queries
        ]
        left, right = (tuple(named.values()) for named in sides)
        return cls((left, right), tuple((pair[0], pair[1]) for pair in of_query))

    def __bool__(self) -> bool:
        return any(self.untils)

    @property
    def opens(self) -> tuple[tuple[int, int], ...]:
        """The different times of both sides that some query names together."""
        return tuple(dict.fromkeys(pair for pair in self.of_query if pair != (NONE, NONE)))

    def conditions(self, queries: Sequence[Query]) -> list[Expr | None]:
        """What each query asks of a pair beside the selections: its own condition, and that its rows are open to each
        other, as the column that `open_column` names."""
        opens = self.opens
        return [
            query.residual if pair == (NONE, NONE) else _both(query.residual, opens.index(pair))
            for query, pair in zip(queries, self.of_query, strict=True)
        ]


def waits_as_long(until: Expr, asked: Expr) -> bool:
    """Whether a row waits at least until a time that was asked for: the same, or moved by the same durations or less,
    as those of the rows of a pair are."""
    mine, theirs = (_MOVED.split(expr.sql) for expr in (until, asked))
    if mine[::2] != theirs[::2]:
        return False
    return all(int(us) >= int(less) for us, less in zip(mine[1::2], theirs[1::2], strict=True))


def open_column(number: int) -> str:
    """What expressions over pairs call it that the two rows are open to each other, by the times of `opens`."""
    return f"open.{number}"


def _both(residual: Expr | None, number: int) -> Expr:
    name = open_column(number)
    is_open = Expr(f'"{name}"', "boolean", name)
    if residual is None:
        return is_open
    parts = *(residual.conjuncts or (residual,)), is_open
    return replace(residual, sql=f"({residual.sql}) AND {is_open.sql}", conjuncts=parts)
