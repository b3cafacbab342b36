"""What is added up for an aggregate: from the values of pairs to numbers that a layer keeps, and back to SQL's values.

Numbers that a layer keeps have names, so that whoever receives them can find those that a query needs:

    n                        pairs
    count X                  pairs in which X is not NULL
    sum X 0, sum X 1, ...    limbs of 32 bits of the sum of X, whole numbers and decimals: exact, and never too large
    high X, low X            the sum of X's finite values, doubles: together exact as long as 106 bits are enough
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


def count_name(arg: Expr) -> str:
    return f"count {arg.sql}"


def distinct_name(arg: Expr) -> str:
    return f"distinct {arg.sql}"


def extreme_name(call: Call) -> str:
    assert call.arg is not None
    return f"{call.function} {call.arg.sql}"


def double_names(arg: Expr) -> list[str]:
    """The two halves of a sum of doubles; none where whole numbers do."""
    return [f"high {arg.sql}", f"low {arg.sql}"] if _is_double(arg) else []


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
    """What each value adds to the whole numbers and to the double of its sum; NULL adds nothing."""
    if _is_double(arg):
        doubles = np.asarray(values.cast(pa.float64()).fill_null(0.0))
        odd = [np.isnan(doubles), np.isposinf(doubles), np.isneginf(doubles)]
        return [flags.astype(np.int64) for flags in odd], [np.where(np.isfinite(doubles), doubles, 0.0)]
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
    if call.function is Function.AVG:
        return _average(call, limbs, numbers[count_name(call.arg)], none), fine
    if len(limbs) == 2:
        high = limbs[1] + (limbs[0] >> LIMB)
        too_large = (high < -(1 << 31)) | (high >= 1 << 31)
        return pa.array((high << LIMB) | (limbs[0] & LOW), mask=none | too_large), too_large
    return _decimal(call, limbs, none)


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
    high, low = (numbers[name] for name in double_names(arg))
    nan, above, below = (numbers[name] > 0 for name in sum_names(arg))
    total = (high + low).astype(np.float64)
    total = np.where(above, np.inf, np.where(below, -np.inf, total))
    return np.where(nan | (above & below), np.nan, total)


def _average(call: Call, limbs: list[Int64s], count: Int64s, none: Bools) -> pa.Array:
    """Computed in double, as Spark does for whole numbers; of decimals exact to 15 digits."""
    assert call.arg is not None
    scale = (decimal_parts(call.arg.type) or (0, 0))[1]
    total = sum(limb.astype(np.float64) * 2.0 ** (LIMB * n) for n, limb in reversed(list(enumerate(limbs))))
    mean = total / np.where(none, 1, count) / 10.0**scale
    return pa.array(mean, mask=none).cast(arrow_type(call.type))


def _decimal(call: Call, limbs: list[Int64s], none: Bools) -> tuple[pa.Array, Bools]:
    parts, carry = [], np.zeros_like(limbs[0])
    for limb in limbs:
        whole = limb + carry
        parts.append(whole & LOW)
        carry = whole >> LIMB
    kind = arrow_type(call.type)
    top = limbs[3] + (limbs[2] + (limbs[1] + (limbs[0] >> LIMB) >> LIMB) >> LIMB)
    size = np.abs(top.astype(np.float64) * 2.0**96 + parts[2].astype(np.float64) * 2.0**64)
    too_large = size >= 10.0**kind.precision
    low, high = parts[1] << LIMB | parts[0], parts[3] << LIMB | parts[2]
    return _from_words(np.stack([low, high], axis=1), kind, none | too_large), too_large


def _from_words(halves: Int64s, kind: pa.DataType, missing: Bools) -> pa.Array:
    buffers = [pa.array(~missing).buffers()[1], pa.py_buffer(np.ascontiguousarray(halves))]
    return pa.Array.from_buffers(kind, len(halves), buffers)
