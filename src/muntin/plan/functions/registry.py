"""The aggregate functions that there are."""

from __future__ import annotations

from muntin.model import Call
from muntin.plan.functions.count import Count
from muntin.plan.functions.count_distinct import CountDistinct
from muntin.plan.functions.extremes import Max, Min
from muntin.plan.functions.function import AggregateFunction
from muntin.plan.functions.sums import Avg, Sum
from muntin.plan.functions.variances import StddevPop, StddevSamp, VarPop, VarSamp

AGGREGATES: tuple[AggregateFunction, ...] = (
    Count(),
    CountDistinct(),
    Sum(),
    Avg(),
    Min(),
    Max(),
    VarPop(),
    VarSamp(),
    StddevPop(),
    StddevSamp(),
)
"""In the order in which messages name them."""
_BY_NAME = {function.name: function for function in AGGREGATES}


def function_named(name: str) -> AggregateFunction:
    return _BY_NAME[name]


def function_of(call: Call) -> AggregateFunction:
    return _BY_NAME[call.function]
