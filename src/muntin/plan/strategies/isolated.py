"""Isolated execution: one join for each query. It is what the other strategies are compared with."""

from __future__ import annotations

from collections.abc import Iterable

from muntin.plan.joins import SharedJoin
from muntin.plan.strategies.strategy import WHOLE, JoinPart, QueryGroups, Strategy


class Isolated(Strategy):
    name = "isolated"
    paper = "hammad2003, section 2.2"
    summary = "one join for each query; only reading the streams is shared"
    explanation = (
        "each query has a join of its own, which keeps the rows that it wants; nothing is shared but reading",
    )

    def parts(self, groups: QueryGroups) -> Iterable[JoinPart]:
        return (([query], WHOLE) for query in groups.queries)

    def headline(self, joins: str) -> str:
        return f"{joins}, one for each"

    def identity(self, join: SharedJoin) -> tuple[object, ...]:
        """A join stays the same one for as long as its query is there, under the same name."""
        return (join.queries[0].name, *super().identity(join))
