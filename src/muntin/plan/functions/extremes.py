"""`MIN` and `MAX`: the least and the greatest value. NaN is the greatest number, texts compare by their octets."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from muntin.kernels.arrays import Bools
from muntin.model import Call, Expr
from muntin.model.types import INTEGERS, INTERVAL, decimal_parts
from muntin.plan.functions.function import AggregateFunction, Refusal, always_fits
from muntin.plan.functions.kept import TEXTS, Extreme, Kept, Numbers

COMPARED = (*INTEGERS, "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", INTERVAL, *TEXTS)
EXACT_DIGITS = 18
"""Decimals of so many digits are compared as 64-bit integers."""


class _Extreme(AggregateFunction):
    least: ClassVar[bool]

    def refusal(self, kind: str, final: bool) -> Refusal | None:
        if final and kind in TEXTS:
            return Refusal(f" of {kind} with EMIT FINAL", "write EMIT CHANGES or EVERY 10 seconds", not_yet=True)
        digits = decimal_parts(kind)
        if kind in COMPARED or (digits and digits[0] <= EXACT_DIGITS):
            return None
        hint = f"cast it to a decimal of at most {EXACT_DIGITS} digits, or to double"
        return Refusal(f" of {kind}", hint, not_yet=True)

    def result_type(self, kind: str) -> str:
        return kind

    def kept(self, arg: Expr) -> tuple[Kept, ...]:
        return (Extreme(arg, self.least),)

    def result(self, call: Call, numbers: Numbers) -> tuple[pa.Array, Bools]:
        assert call.arg is not None
        return Extreme(call.arg, self.least).values(numbers), always_fits(numbers)


class Min(_Extreme):
    name = "min"
    sql_names = ("min",)
    distinct = "min"
    least = True


class Max(_Extreme):
    name = "max"
    sql_names = ("max",)
    distinct = "max"
    least = False
