"""`COUNT(DISTINCT x)`: how many different values of x there are; NULL is none."""

from __future__ import annotations

import pyarrow as pa

from muntin.kernels.arrays import Bools
from muntin.model import Call, Expr
from muntin.plan.functions.function import AggregateFunction, always_fits
from muntin.plan.functions.kept import DistinctValues, Kept, Numbers


class CountDistinct(AggregateFunction):
    name = "count distinct"
    sql_names = ()

    def result_type(self, kind: str) -> str:
        return "bigint"

    def kept(self, arg: Expr) -> tuple[Kept, ...]:
        return (DistinctValues(arg),)

    def result(self, call: Call, numbers: Numbers) -> tuple[pa.Array, Bools]:
        assert call.arg is not None
        return pa.array(numbers[DistinctValues(call.arg).name]), always_fits(numbers)
