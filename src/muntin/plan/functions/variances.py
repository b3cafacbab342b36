"""`VAR_POP`, `VAR_SAMP`, `STDDEV_POP`, `STDDEV_SAMP`: how far values lie from their mean, as doubles, as in Spark.

With n values, S their sum and Q the sum of their squares, both taken when the result is asked for:

    D = n Q - S^2        VAR_POP = D / n^2        VAR_SAMP = D / (n (n - 1))        STDDEV = the square root

Sums can be subtracted from, which means and squared distances (Welford, 1962) cannot be without error; what cancels
out in D is why they must have more bits than a double.

- Of whole numbers and decimals, S and Q are exact and so is D: the result is off by at most 4 units in its last place.
- Of doubles, each square is kept as two doubles that are exact together, and S and Q have 106 bits. D is then computed
  with all bits of these, so that equal values vary by nothing. The result is off by at most 4 units in its last place
  and 2^-100 times the largest mean of squares since the group was last without values. Squares below 2^-969 lose bits.
  Doubles from 2^450 on have their squares kept apart, scaled down. A variance past the range is an infinity.

Without values the result is NULL, and of one value VAR_SAMP and STDDEV_SAMP are; with NaN or an infinity it is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import Bools, Floats, Int64s
from muntin.model import Call, Expr
from muntin.model.types import INTEGERS, decimal_parts
from muntin.plan.functions import limbs, wide
from muntin.plan.functions.count import ValueCount
from muntin.plan.functions.function import always_fits
from muntin.plan.functions.kept import Kept, KeptSums, Numbers, WideSum
from muntin.plan.functions.sums import DOUBLES, SCALED, DoubleSum, ExactSum, OfNumbers

LARGE = 2.0**450
"""Squares of doubles from here on are kept apart: 2^31 smaller ones, times 2^31, stay within the range."""
SCALE = 2.0**-600
"""What large doubles are multiplied by before they are squared."""


class ExactSquares(KeptSums):
    """The sum of the squares of whole numbers or decimals, in limbs."""

    @property
    def name(self) -> str:
        return f"squares {self.arg.sql}"

    @property
    def whole(self) -> tuple[str, ...]:
        return tuple(f"{self.name} {n}" for n in range(4 if self.arg.type in INTEGERS else 8))

    def added(self, values: pa.ChunkedArray) -> tuple[list[Int64s], list[Floats]]:
        parts = limbs.limbs_of(values)
        _, size = limbs.magnitude(parts)
        return _squared(size[: len(parts)]), []


class DoubleSquares(KeptSums):
    """The sum of the squares of doubles: of the first doubles of all squares, and of what these have no room for."""

    @property
    def name(self) -> str:
        return f"squares {self.arg.sql}"

    @property
    def whole(self) -> tuple[str, ...]:
        return (f"large squares {self.arg.sql}",)

    @property
    def wide(self) -> tuple[WideSum, ...]:
        counts = {"": ValueCount(self.arg).name, "large ": self.whole[0]}
        return tuple(
            WideSum(f"{size}squares {part} high {self.arg.sql}", f"{size}squares {part} low {self.arg.sql}", count)
            for size, count in counts.items()
            for part in ("first", "rest")
        )

    def added(self, values: pa.ChunkedArray) -> tuple[list[Int64s], list[Floats]]:
        doubles = np.asarray(values.cast(pa.float64()).fill_null(0.0))
        finite = np.where(np.isfinite(doubles), doubles, 0.0)
        large = np.abs(finite) >= LARGE
        ordinary, scaled = np.where(large, 0.0, finite), np.where(large, finite * SCALE, 0.0)
        parts = [part for each in (ordinary, scaled) for part in _two_product(each, each)]
        return [large.astype(np.int64)], parts

    def halves(self, numbers: Numbers) -> list[Floats]:
        """Both halves of the first doubles and of the rests, the ordinary ones and then the large ones."""
        return [np.asarray(numbers[name], np.float64) for kept in self.wide for name in (kept.high, kept.low)]


class _Spread(OfNumbers):
    sample: ClassVar[bool]
    """Whether the values are a sample of those that the question is about."""
    root: ClassVar[bool]

    def result_type(self, kind: str) -> str:
        return "double"

    def kept(self, arg: Expr) -> tuple[Kept, ...]:
        return *super().kept(arg), DoubleSquares(arg) if arg.type in DOUBLES else ExactSquares(arg)

    def result(self, call: Call, numbers: Numbers) -> tuple[pa.Array, Bools]:
        assert call.arg is not None
        count = numbers[ValueCount(call.arg).name]
        divisor = count.astype(np.float64) * (count - self.sample)
        missing = divisor == 0
        divisor = np.where(missing, 1.0, divisor)
        if call.arg.type in DOUBLES:
            variance = _variance_of_doubles(call.arg, numbers, count, divisor)
        else:
            digits = decimal_parts(call.arg.type) or (0, 0)
            variance = _exact_spread(call.arg, numbers, count) / divisor / float(10 ** (2 * digits[1]))
        return pa.array(np.sqrt(variance) if self.root else variance, mask=missing), always_fits(numbers)


class VarPop(_Spread):
    name = "var_pop"
    sql_names = ("var_pop",)
    sample, root = False, False


class VarSamp(_Spread):
    name = "var_samp"
    sql_names = ("var_samp", "variance")
    sample, root = True, False


class StddevPop(_Spread):
    name = "stddev_pop"
    sql_names = ("stddev_pop",)
    sample, root = False, True


class StddevSamp(_Spread):
    name = "stddev_samp"
    sql_names = ("stddev_samp", "stddev")
    sample, root = True, True


def _exact_spread(arg: Expr, numbers: Numbers, count: Int64s) -> Floats:
    """D of whole numbers, or of decimals without their point: exact, and rounded once."""
    _, total = limbs.magnitude(ExactSum(arg).limbs(numbers))
    squares = limbs.carried([*(numbers[name] for name in ExactSquares(arg).whole), np.zeros_like(count)])
    minus, plus = _squared(total), limbs.multiplied(squares, count)
    size = max(len(minus), len(plus))
    nothing = np.zeros_like(count)
    minus, plus = ([*part, *[nothing] * (size - len(part))] for part in (minus, plus))
    return _to_double(limbs.carried([a - b for a, b in zip(plus, minus, strict=True)]))


def _variance_of_doubles(arg: Expr, numbers: Numbers, count: Int64s, divisor: Floats) -> Floats:
    """D over the divisor; where there are large values, everything is taken times `SCALE` and back at the end."""
    sums, squares = DoubleSum(arg), DoubleSquares(arg)
    large = numbers[squares.whole[0]] > 0
    first, first_low, rest, rest_low, *of_large = squares.halves(numbers)
    high, low, large_high, large_low = sums.halves(numbers)
    with np.errstate(all="ignore"):  # infinities are results, and what the other branch makes of them does not matter
        scaled = wide.add((large_high * (SCALE / SCALED), large_low * (SCALE / SCALED)), (high * SCALE, low * SCALE))
        total = np.where(large, scaled[0], high), np.where(large, scaled[1], low)
        small = [np.where(large, part * SCALE * SCALE, part) for part in (first, first_low, rest, rest_low)]
        big = [np.where(large, part, 0.0) for part in of_large]
        n = count.astype(np.float64)
        terms = [half for part in (*small, *big) for half in _two_product(part, n)]
        for a, b in ((total[0], total[0]), (total[0], 2 * total[1]), (total[1], total[1])):
            terms += [-half for half in _two_product(a, b)]
        variance = np.maximum(_distilled(terms), 0.0) / divisor
        variance = np.where(large, variance / SCALE / SCALE, variance)
    odd = np.any([numbers[name] > 0 for name in sums.whole], axis=0)
    return np.where(odd, np.nan, variance)


# -- arithmetic --------------------------------------------------------------------------------------------------------


def _squared(size: Sequence[Int64s]) -> list[Int64s]:
    """A size times itself, in twice as many limbs."""
    unsigned = [limb.astype(np.uint64) for limb in size]
    found = [np.zeros_like(size[0]) for _ in range(2 * len(size))]
    for n, one in enumerate(unsigned):
        for m, other in enumerate(unsigned):
            product = one * other
            found[n + m] += (product & np.uint64(limbs.LOW)).astype(np.int64)
            found[n + m + 1] += (product >> np.uint64(limbs.BITS)).astype(np.int64)
    return limbs.carried(found)


def _to_double(size: Sequence[Int64s]) -> Floats:
    """A size rounded to a double, by at most two units in the last place."""
    found = np.zeros(len(size[0]))
    for limb in reversed(size):
        found = found * 2.0**limbs.BITS + limb
    return found


def _two_product(a: Floats, b: Floats) -> wide.Wide:
    """The product, and what is lost in rounding it; of factors below 2^990 whose product is above 2^-969."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Floats) -> wide.Wide:
    """Two doubles of 26 bits each that are the number together."""
    scaled = a * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def _distilled(terms: Sequence[Floats], passes: int = 5) -> Floats:
    """The sum of some terms, as if computed with `passes` times 53 bits and rounded (Ogita, Rump and Oishi, 2005)."""
    parts = list(terms)
    for _ in range(passes):
        for n in range(1, len(parts)):
            parts[n], parts[n - 1] = wide.two_sum(parts[n], parts[n - 1])
    return sum(parts[1:], parts[0])
