"""Which joins without an equality keep their rows in order of a value, so that not every pair is looked at.

All queries of the join must say how far the same two values, one of each stream, may be apart (`Query.ranges`). Then
one order serves them all: a row looks at the range that some query wants, and the conditions of each query decide on
the pairs in it. Where queries differ in what they compare, every pair has to be looked at for one of them anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from muntin.model import Query, Side, ValueRange
from muntin.plan.joins import SharedJoin


@dataclass(frozen=True)
class OrderedValues:
    """Two values, one of each stream, by which the rows of a join are in order; `ranges` has what each query says."""

    ranges: tuple[ValueRange, ...]

    @property
    def texts(self) -> tuple[str, str]:
        return self.ranges[0].left.text, self.ranges[0].right.text

    @property
    def rounding(self) -> float:
        return max(found.rounding for found in self.ranges)

    @property
    def low(self) -> float | None:
        """The least difference, right less left, that some query wants; None where there is none."""
        lows = [found.low for found in self.ranges]
        return None if None in lows else min(low for low in lows if low is not None)

    @property
    def high(self) -> float | None:
        highs = [found.high for found in self.ranges]
        return None if None in highs else max(high for high in highs if high is not None)

    @property
    def axis(self) -> tuple[str, str]:
        return self.ranges[0].axis


def ordered_values(join: SharedJoin) -> OrderedValues | None:
    """By what the rows of a join are in order; None where it has an equality, or looks at every pair.

    Of several values, those for which most ranges have two ends; of these, the first in the text of the first query.
    Where the ranges together have no end on either side, an order is of no use.
    """
    if join.keys or join.own_windows:
        return None
    found = []
    for own in join.queries[0].ranges:
        alike = [_range_over(query, own.axis) for query in join.queries]
        values = OrderedValues(tuple(one for one in alike if one is not None))
        if None not in alike and (values.low is not None or values.high is not None):
            found.append(values)
    return max(found, key=_closed, default=None)


def _range_over(query: Query, axis: tuple[str, str]) -> ValueRange | None:
    return next((found for found in query.ranges if found.axis == axis), None)


def _closed(values: OrderedValues) -> int:
    return sum(found.low is not None and found.high is not None for found in values.ranges)


def why_every_pair(join: SharedJoin) -> str | None:
    """Why a join looks at every pair; None where it has an equality or an order."""
    if join.keys or ordered_values(join) is not None:
        return None
    if join.own_windows:
        return "rows wait until times of their own"
    without = [query.name for query in join.queries if not query.ranges]
    if without:
        names = ", ".join(without[:3]) + (f" and {len(without) - 3:,} more" if len(without) > 3 else "")
        streams = " and ".join(join.streams[side].name for side in Side)
        return f"the condition of {names} does not say how far values of {streams} may be apart"
    if any(all(_range_over(query, own.axis) for query in join.queries) for own in join.queries[0].ranges):
        return "its queries together want values that are any distance apart"
    return "its queries compare different values, and one order does not serve them all"
