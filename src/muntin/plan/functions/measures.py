"""All that is kept of each group for some calls, each number once."""

from __future__ import annotations

from collections.abc import Iterable

from muntin.model import Call, Expr
from muntin.plan.functions.kept import PAIRS, DistinctValues, Extreme, Kept, KeptSums
from muntin.plan.functions.registry import function_of


class Measures:
    """What is kept, by kind; `whole` and `wide` are all whole and wide sums in the order of their columns."""

    def __init__(self, calls: Iterable[Call]):
        found: dict[str, Kept] = {}
        for call in calls:
            if call.arg is not None:
                found |= {kept.name: kept for kept in function_of(call).kept(call.arg)}
        self.sums = tuple(kept for kept in found.values() if isinstance(kept, KeptSums))
        self.extremes = tuple(kept for kept in found.values() if isinstance(kept, Extreme))
        self.distinct = tuple(kept for kept in found.values() if isinstance(kept, DistinctValues))
        sums = [name for kept in self.sums for name in kept.whole]
        self.whole = (PAIRS, *sums, *(kept.name for kept in self.distinct))
        self.wide = tuple(wide for kept in self.sums for wide in kept.wide)

    @property
    def halves(self) -> tuple[str, ...]:
        """The names of both halves of all wide sums."""
        return tuple(name for wide in self.wide for name in (wide.high, wide.low))

    @property
    def args(self) -> tuple[Expr, ...]:
        """The expressions whose values pairs bring."""
        return tuple({kept.arg.sql: kept.arg for kept in (*self.sums, *self.extremes)}.values())

    @property
    def texts(self) -> tuple[Expr, ...]:
        """The expressions whose extremes are texts."""
        return tuple({kept.arg.sql: kept.arg for kept in self.extremes if kept.is_text}.values())

    def extremes_of(self, sql: str) -> list[tuple[int, Extreme]]:
        """The extremes of an expression, each with its place among all."""
        return [(n, kept) for n, kept in enumerate(self.extremes) if kept.arg.sql == sql]
