"""`SUM` and `AVG`: exact sums of whole numbers and decimals, sums of doubles with 106 bits.

Kept under these names, X being the expression:

    sum X 0, sum X 1, ...    limbs of 32 bits of the sum of whole numbers or decimals: exact, and never too large
    high X, low X            the sum of X's finite doubles: together exact as long as 106 bits are enough
    large high X, large low X    the same of those from 2^970 on, which are kept apart and scaled down: their sum
                             cannot leave the range, and nothing of them stays with the others when they have gone
    nan X, +inf X, -inf X    how often these occur
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import Bools, Floats, Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.model import Call, Expr, is_numeric
from muntin.model.types import INTEGERS, MAX_PRECISION, decimal_parts
from muntin.plan.functions import limbs, wide
from muntin.plan.functions.count import ValueCount
from muntin.plan.functions.function import AggregateFunction, Refusal, always_fits
from muntin.plan.functions.kept import Kept, KeptSums, Numbers, WideSum

DOUBLES = ("float", "double")
LARGE = 2.0**970
"""Doubles from here on are kept apart: 2^53 smaller ones together stay within the range."""
SCALED = 2.0**-200
"""What large doubles are multiplied by."""


class ExactSum(KeptSums):
    """The sum of whole numbers or decimals."""

    @property
    def name(self) -> str:
        return f"sum {self.arg.sql}"

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(f"{self.name} {n}" for n in range(2 if self.arg.type in INTEGERS else 4))

    def added(self, values: pa.ChunkedArray) -> tuple[list[Int64s], list[Floats]]:
        return limbs.limbs_of(values), []

    def limbs(self, numbers: Numbers) -> list[Int64s]:
        return [numbers[name] for name in self.whole]


class DoubleSum(KeptSums):
    """The sum of doubles, and how many of them are no finite numbers."""

    @property
    def name(self) -> str:
        return f"high {self.arg.sql}"

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(f"{odd} {self.arg.sql}" for odd in ("nan", "+inf", "-inf"))

    @property
    def wide(self) -> tuple[WideSum, ...]:
        count, sql = ValueCount(self.arg).name, self.arg.sql
        return WideSum(f"high {sql}", f"low {sql}", count), WideSum(f"large high {sql}", f"large low {sql}", count)

    def added(self, values: pa.ChunkedArray) -> tuple[list[Int64s], list[Floats]]:
        doubles = np.asarray(values.cast(pa.float64()).fill_null(0.0))
        odd = [np.isnan(doubles), np.isposinf(doubles), np.isneginf(doubles)]
        finite = np.where(np.isfinite(doubles), doubles, 0.0)
        large = np.abs(finite) >= LARGE
        parts = [np.where(large, 0.0, finite), np.where(large, finite * SCALED, 0.0)]
        return [flags.astype(np.int64) for flags in odd], parts

    def halves(self, numbers: Numbers) -> list[Floats]:
        """High and low half of the ordinary ones, then of the large ones."""
        return [np.asarray(numbers[name], np.float64) for kept in self.wide for name in (kept.high, kept.low)]

    def total(self, numbers: Numbers) -> Floats:
        high, low, large_high, large_low = self.halves(numbers)
        nan, above, below = (numbers[name] > 0 for name in self.whole)
        all_high, all_low = wide.add((large_high, large_low), (high * SCALED, low * SCALED))
        with np.errstate(over="ignore"):  # past the range is an infinity
            total = np.where(large_high == 0, high + low, (all_high + all_low) / SCALED)
        total = np.where(above, np.inf, np.where(below, -np.inf, total))
        return np.where(nan | (above & below), np.nan, total)


class OfNumbers(AggregateFunction):
    """A function that is made of sums."""

    def refusal(self, kind: str, final: bool) -> Refusal | None:
        if is_numeric(kind):
            return None
        return Refusal(f" needs a number, this is {kind}", "aggregate a number", not_yet=False)

    def kept(self, arg: Expr) -> tuple[Kept, ...]:
        return ValueCount(arg), DoubleSum(arg) if arg.type in DOUBLES else ExactSum(arg)


class _SumOrAverage(OfNumbers):
    def result(self, call: Call, numbers: Numbers) -> tuple[pa.Array, Bools]:
        assert call.arg is not None
        count = numbers[ValueCount(call.arg).name]
        if call.arg.type in DOUBLES:
            return self.of_doubles(DoubleSum(call.arg).total(numbers), count), always_fits(numbers)
        parts = ExactSum(call.arg).limbs(numbers)
        return self.of_integers(parts, count) if call.arg.type in INTEGERS else self.of_decimals(call, parts, count)

    @abstractmethod
    def of_doubles(self, total: Floats, count: Int64s) -> pa.Array: ...

    @abstractmethod
    def of_integers(self, parts: list[Int64s], count: Int64s) -> tuple[pa.Array, Bools]: ...

    @abstractmethod
    def of_decimals(self, call: Call, parts: list[Int64s], count: Int64s) -> tuple[pa.Array, Bools]: ...


class Sum(_SumOrAverage):
    name = "sum"
    sql_names = ("sum",)

    def result_type(self, kind: str) -> str:
        digits = decimal_parts(kind)
        if digits is None:
            return "bigint" if kind in INTEGERS else "double"
        return f"decimal({min(MAX_PRECISION, digits[0] + 10)},{digits[1]})"

    def of_doubles(self, total: Floats, count: Int64s) -> pa.Array:
        return pa.array(total, mask=count == 0)

    def of_integers(self, parts: list[Int64s], count: Int64s) -> tuple[pa.Array, Bools]:
        low, high = limbs.carried(parts)
        too_large = (high < -(1 << 31)) | (high >= 1 << 31)
        return pa.array((high << limbs.BITS) | low, mask=(count == 0) | too_large), too_large

    def of_decimals(self, call: Call, parts: list[Int64s], count: Int64s) -> tuple[pa.Array, Bools]:
        negative, size = limbs.magnitude(parts)
        return _decimal(call, negative, size, count == 0)


class Avg(_SumOrAverage):
    name = "avg"
    sql_names = ("avg",)

    def result_type(self, kind: str) -> str:
        digits = decimal_parts(kind)
        if digits is None:
            return "double"
        return f"decimal({min(MAX_PRECISION, digits[0] + 4)},{min(MAX_PRECISION, digits[1] + 4)})"

    def of_doubles(self, total: Floats, count: Int64s) -> pa.Array:
        return pa.array(total / np.maximum(count, 1), mask=count == 0)

    def of_integers(self, parts: list[Int64s], count: Int64s) -> tuple[pa.Array, Bools]:
        """The mean of whole numbers: a double, as in Spark."""
        total = parts[1].astype(np.float64) * 2.0**limbs.BITS + parts[0].astype(np.float64)
        return pa.array(total / np.maximum(count, 1), mask=count == 0), np.zeros(len(count), bool)

    def of_decimals(self, call: Call, parts: list[Int64s], count: Int64s) -> tuple[pa.Array, Bools]:
        """Exact, and rounded once, half away from zero."""
        assert call.arg is not None
        digits = decimal_parts(call.arg.type)
        assert digits is not None
        negative, size = limbs.magnitude(parts)
        finer = limbs.multiplied(size, 10 ** (arrow_type(call.type).scale - digits[1]))
        return _decimal(call, negative, limbs.divided(finer, np.maximum(count, 1)), count == 0)


def _decimal(call: Call, negative: Bools, size: list[Int64s], missing: Bools) -> tuple[pa.Array, Bools]:
    """Decimals of a size, and where they have more digits than their type."""
    kind = arrow_type(call.type)
    too_large = ~limbs.is_less(size, 10**kind.precision)
    low, high = size[1] << limbs.BITS | size[0], size[3] << limbs.BITS | size[2]
    low, high = np.where(negative, -low, low), np.where(negative, ~high + (low == 0), high)
    return limbs.to_decimal(np.stack([low, high], axis=1), kind, missing | too_large), too_large
