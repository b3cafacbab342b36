"""`COUNT(*)`: how many pairs there are. `COUNT(x)`: how many of them have an x that is not NULL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import Bools, Floats, Int64s
from muntin.model import Call, Expr
from muntin.plan.functions.function import AggregateFunction, always_fits
from muntin.plan.functions.kept import PAIRS, Kept, KeptSums, Numbers


class ValueCount(KeptSums):
    """How many values are not NULL."""

    @property
    def name(self) -> str:
        return f"count {self.arg.sql}"

    @property
    def whole(self) -> tuple[str, ...]:
        return (self.name,)

    def added(self, values: pa.ChunkedArray) -> tuple[list[Int64s], list[Floats]]:
        return [np.asarray(values.is_valid()).astype(np.int64)], []


class Count(AggregateFunction):
    name = "count"
    sql_names = ("count",)
    distinct = "count distinct"
    counts_pairs = True

    def result_type(self, kind: str) -> str:
        return "bigint"

    def kept(self, arg: Expr) -> tuple[Kept, ...]:
        return (ValueCount(arg),)

    def result(self, call: Call, numbers: Numbers) -> tuple[pa.Array, Bools]:
        name = PAIRS if call.arg is None else ValueCount(call.arg).name
        return pa.array(numbers[name]), always_fits(numbers)
