"""What is added up for an aggregate: from the values of pairs to numbers that a layer keeps, and back to SQL's values.

Numbers that a layer keeps have names, so that whoever receives them can find those that a query needs:

    n                        pairs
    count X                  pairs in which X is not NULL
    sum X 0, sum X 1, ...    limbs of 32 bits of the sum of X, whole numbers and decimals: exact, and never too large
    high X, low X            the sum of X's finite doubles: together exact as long as 106 bits are enough
    large high X, large low X    the same of those from 2^970 on, which are kept apart and scaled down: their sum
                             cannot leave the range, and nothing of them stays with the others when they have gone
    nan X, +inf X, -inf X    how often these occur
    distinct X               different values of X
    max X, min X             the greatest key of X; keys are in the order of the values, of MIN in the reverse order;
                             of texts, which have no keys that all shards know, the value itself
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.kernels.aggregate import add_wide
from muntin.kernels.arrays import AnyArray, Bools, Floats, Int64s
from muntin.kernels.evaluate import arrow_type
from muntin.kernels.hashing import words
from muntin.model import Call, Expr, Function
from muntin.model.types import INTEGERS, decimal_parts

Numbers = Mapping[str, AnyArray]
PAIRS = "n"
LIMB = 32
LOW = (1 << LIMB) - 1
SIGN = np.int64((1 << 63) - 1)
LARGE = 2.0**970
"""Doubles from here on are kept apart: 2^53 smaller ones together stay within the range."""
SCALED = 2.0**-200
"""What large doubles are multiplied by."""


def count_name(arg: Expr) -> str:
    return f"count {arg.sql}"


def distinct_name(arg: Expr) -> str:
    return f"distinct {arg.sql}"


def extreme_name(call: Call) -> str:
    assert call.arg is not None
    return f"{call.function} {call.arg.sql}"


def double_names(arg: Expr) -> list[str]:
    """The sums of doubles, ordinary and large, in two halves each; none where whole numbers do."""
    halves = ("high", "low", "large high", "large low")
    return [f"{half} {arg.sql}" for half in halves] if _is_double(arg) else []


def sum_names(arg: Expr) -> list[str]:
    """The whole numbers that make a sum."""
    if _is_double(arg):
        return [f"{odd} {arg.sql}" for odd in ("nan", "+inf", "-inf")]
    return [f"sum {arg.sql} {n}" for n in range(2 if arg.type in INTEGERS else 4)]


def names(call: Call) -> list[str]:
    """The numbers that a call needs."""
    if call.arg is None:
        return [PAIRS]
    match call.function:
        case Function.COUNT:
            return [count_name(call.arg)]
        case Function.COUNT_DISTINCT:
            return [distinct_name(call.arg)]
        case Function.SUM | Function.AVG:
            return [count_name(call.arg), *sum_names(call.arg), *double_names(call.arg)]
        case _:
            return [extreme_name(call)]


def _is_double(arg: Expr) -> bool:
    return arg.type in ("float", "double")


# -- of pairs ----------------------------------------------------------------------------------------------------------


def summands(arg: Expr, values: pa.ChunkedArray) -> tuple[list[Int64s], list[Floats]]:
    """What each value adds to the whole numbers and to the doubles of its sum; NULL adds nothing."""
    if _is_double(arg):
        doubles = np.asarray(values.cast(pa.float64()).fill_null(0.0))
        odd = [np.isnan(doubles), np.isposinf(doubles), np.isneginf(doubles)]
        finite = np.where(np.isfinite(doubles), doubles, 0.0)
        large = np.abs(finite) >= LARGE
        parts = [np.where(large, 0.0, finite), np.where(large, finite * SCALED, 0.0)]
        return [flags.astype(np.int64) for flags in odd], parts
    low, high = words(_one(values))
    low = np.where(_valid(values), low, 0)
    if high is None:
        return [low & LOW, low >> LIMB], []
    high = np.where(_valid(values), high, 0)
    return [low & LOW, low >> LIMB & LOW, high & LOW, high >> LIMB], []


def keys(values: pa.ChunkedArray) -> Int64s:
    """A number for each value that compares as the value does, whatever where it is NULL."""
    low, _ = words(_one(values))
    if pa.types.is_floating(values.type):
        low = low ^ (low >> 63 & SIGN)
    return low


def turned(call: Call, keys: Int64s) -> Int64s:
    """Keys, or what comes of them, in the order in which the greatest is wanted, and back."""
    return ~keys if call.function is Function.MIN else keys


def _one(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _valid(values: pa.ChunkedArray) -> Bools:
    return np.asarray(pc.is_valid(values))


# -- of groups ---------------------------------------------------------------------------------------------------------


def result(
    call: Call, numbers: Numbers, present: Mapping[str, Bools], texts: Mapping[str, pa.Array]
) -> tuple[pa.Array, Bools]:
    """The value of a call for each group, and where it is too large for its type; keys of texts are places in texts."""
    rows = len(numbers[PAIRS])
    fine = np.zeros(rows, bool)
    if call.arg is None or call.function in (Function.COUNT, Function.COUNT_DISTINCT):
        return pa.array(numbers[names(call)[0]]), fine
    if extreme_name(call) in texts:
        found = turned(call, numbers[extreme_name(call)])
        return texts[extreme_name(call)].take(pa.array(found, mask=~present[extreme_name(call)])), fine
    if call.function in (Function.MIN, Function.MAX):
        return _extreme(call, numbers[extreme_name(call)], present[extreme_name(call)]), fine
    none = numbers[count_name(call.arg)] == 0
    if _is_double(call.arg):
        total = _double(call.arg, numbers)
        if call.function is Function.AVG:
            total = total / np.where(none, 1, numbers[count_name(call.arg)])
        return pa.array(total, mask=none), fine
    limbs = [numbers[name] for name in sum_names(call.arg)]
    if call.function is Function.AVG and len(limbs) == 2:
        return _average(limbs, numbers[count_name(call.arg)], none), fine
    if len(limbs) == 2:
        high = limbs[1] + (limbs[0] >> LIMB)
        too_large = (high < -(1 << 31)) | (high >= 1 << 31)
        return pa.array((high << LIMB) | (limbs[0] & LOW), mask=none | too_large), too_large
    return _decimal(call, limbs, numbers[count_name(call.arg)], none)


def _extreme(call: Call, found: Int64s, present: Bools) -> pa.Array:
    low, kind = turned(call, found), arrow_type(call.type)
    if pa.types.is_floating(kind):
        return pa.array((low ^ (low >> 63 & SIGN)).view(np.float64), mask=~present).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(low.astype(bool), mask=~present)
    if pa.types.is_decimal(kind):
        return _from_words(np.stack([low, low >> 63], axis=1), kind, ~present)
    if pa.types.is_date(kind):
        return pa.array(low.astype(np.int32), mask=~present).cast(kind)
    return pa.array(low, mask=~present).cast(kind)


def _double(arg: Expr, numbers: Numbers) -> Floats:
    high, low, large_high, large_low = (np.asarray(numbers[name], np.float64) for name in double_names(arg))
    nan, above, below = (numbers[name] > 0 for name in sum_names(arg))
    all_high, all_low = add_wide(large_high, large_low, high * SCALED, low * SCALED)
    with np.errstate(over="ignore"):  # past the range is an infinity
        total = np.where(large_high == 0, high + low, (all_high + all_low) / SCALED)
    total = np.where(above, np.inf, np.where(below, -np.inf, total))
    return np.where(nan | (above & below), np.nan, total)


def _average(limbs: list[Int64s], count: Int64s, none: Bools) -> pa.Array:
    """The mean of whole numbers: a double, as in Spark."""
    total = limbs[1].astype(np.float64) * 2.0**LIMB + limbs[0].astype(np.float64)
    return pa.array(total / np.where(none, 1, count), mask=none)


def _decimal(call: Call, limbs: list[Int64s], count: Int64s, none: Bools) -> tuple[pa.Array, Bools]:
    """The sum or the mean of decimals, exact, the mean rounded once, half away from zero; where it does not fit."""
    assert call.arg is not None
    kind, digits = arrow_type(call.type), decimal_parts(call.arg.type)
    assert digits is not None
    negative, size = _magnitude(limbs)
    if call.function is Function.AVG:
        size = _divided(_multiplied(size, 10 ** (kind.scale - digits[1])), np.where(none, 1, count))
    too_large = ~_is_less(size, 10**kind.precision)
    low, high = size[1] << LIMB | size[0], size[3] << LIMB | size[2]
    low, high = np.where(negative, -low, low), np.where(negative, ~high + (low == 0), high)
    return _from_words(np.stack([low, high], axis=1), kind, none | too_large), too_large


def _magnitude(limbs: list[Int64s]) -> tuple[Bools, list[Int64s]]:
    """Where a sum is below zero, and its size in limbs that are not, each below 2^32, one more than it came in."""
    whole = _carried([*limbs, np.zeros_like(limbs[0])])
    negative = whole[-1] < 0
    turned = _carried([np.where(negative, -limb, limb) for limb in whole])
    return negative, turned


def _carried(limbs: list[Int64s]) -> list[Int64s]:
    """The same number with limbs from 0 to below 2^32, but for the last, which has the sign."""
    found, carry = [], np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        found.append(limb + carry & LOW)
        carry = limb + carry >> LIMB
    return [*found, limbs[-1] + carry]


def _multiplied(size: list[Int64s], factor: int) -> list[Int64s]:
    """A size times a factor below 2^31, in one limb more."""
    return _carried([*(limb * factor for limb in size), np.zeros_like(size[0])])


def _divided(size: list[Int64s], count: Int64s) -> list[Int64s]:
    """A size divided by a count below 2^31, rounded to the nearest, half up: long division, limb by limb."""
    quotient, rest = [], np.zeros_like(count)
    for limb in reversed(size):
        whole = rest << LIMB | limb
        quotient.append(whole // count)
        rest = whole % count
    quotient[-1] = quotient[-1] + (2 * rest >= count)
    return _carried(quotient[::-1])


def _is_less(size: list[Int64s], bound: int) -> Bools:
    """Where a size is below a bound; the first limb that differs decides."""
    less = np.zeros(len(size[0]), bool)
    for n, limb in enumerate(size):
        part = bound >> LIMB * n & LOW
        less = (limb < part) | ((limb == part) & less)
    return less


def _from_words(halves: Int64s, kind: pa.DataType, missing: Bools) -> pa.Array:
    buffers = [pa.array(~missing).buffers()[1], pa.py_buffer(np.ascontiguousarray(halves))]
    return pa.Array.from_buffers(kind, len(halves), buffers)
