"""Whole numbers of any size as limbs of 32 bits in columns of int64: exact sums, differences and quotients.

A number is the sum of its limbs, limb n times 2^(32 n). Limbs may be larger than 32 bits, or negative, until they are
carried: so 2^31 numbers are added up limb by limb, and nothing is carried before somebody asks for the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.bits import number_bits

BITS = 32
LOW = (1 << BITS) - 1


def limbs_of(values: pa.ChunkedArray) -> list[Int64s]:
    """Whole numbers as two limbs and decimals as four, of which the last has the sign; NULL is zero."""
    low, high = number_bits(values.combine_chunks())
    there = np.asarray(values.is_valid())
    halves = [np.where(there, half, 0) for half in (low, high) if half is not None]
    limbs = [limb for half in halves for limb in (half & LOW, half >> BITS & LOW)]
    limbs[-1] = halves[-1] >> BITS
    return limbs


def carried(limbs: Sequence[Int64s]) -> list[Int64s]:
    """The same number with limbs from 0 to below 2^32, but for the last, which has the sign."""
    found, carry = [], np.zeros_like(limbs[0])
    for limb in limbs[:-1]:
        found.append(limb + carry & LOW)
        carry = limb + carry >> BITS
    return [*found, limbs[-1] + carry]


def magnitude(limbs: Sequence[Int64s]) -> tuple[Bools, list[Int64s]]:
    """Where a number is below zero, and its size in limbs that are not, each below 2^32, one more than it came in."""
    whole = carried([*limbs, np.zeros_like(limbs[0])])
    negative = whole[-1] < 0
    return negative, carried([np.where(negative, -limb, limb) for limb in whole])


def multiplied(size: Sequence[Int64s], factor: int | Int64s) -> list[Int64s]:
    """A size times a factor below 2^31, in one limb more."""
    return carried([*(limb * factor for limb in size), np.zeros_like(size[0])])


def divided(size: Sequence[Int64s], count: Int64s) -> list[Int64s]:
    """A size divided by a count below 2^31, rounded to the nearest, half up: long division, limb by limb."""
    quotient, rest = [], np.zeros_like(count)
    for limb in reversed(size):
        whole = rest << BITS | limb
        quotient.append(whole // count)
        rest = whole % count
    quotient[-1] = quotient[-1] + (2 * rest >= count)
    return carried(quotient[::-1])


def is_less(size: Sequence[Int64s], bound: int) -> Bools:
    """Where a size is below a bound; the first limb that differs decides."""
    less = np.zeros(len(size[0]), bool)
    for n, limb in enumerate(size):
        part = bound >> BITS * n & LOW
        less = (limb < part) | ((limb == part) & less)
    return less


def to_decimal(halves: Int64s, kind: pa.DataType, missing: Bools) -> pa.Array:
    """Decimals from both halves of their 128 bits."""
    buffers = [pa.array(~missing).buffers()[1], pa.py_buffer(np.ascontiguousarray(halves))]
    return pa.Array.from_buffers(kind, len(halves), buffers)
