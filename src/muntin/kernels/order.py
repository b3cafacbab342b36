"""Values of several columns as octets that compare as the values do, and where such octets stand among others.

Each value begins with an octet that puts NULL first or last. Numbers follow in big-endian with the sign turned, texts
with 00 written as 00 FF and ended by 00 00, so that no value's octets begin with all of another's. Where the order is
descending, the octets of the value are inverted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.kernels.arrays import Bools, Int64s, UInt8s
from muntin.kernels.compiled import kernel
from muntin.kernels.hashing import Column, words

SIGN = np.int64((1 << 63) - 1)
FIRST, VALUE, LAST = 1, 2, 3
"""The octet before a value: NULL where NULLs come first, a value, NULL where they come last."""


def sort_keys(columns: Sequence[tuple[Column, bool, bool]]) -> pa.LargeBinaryArray:
    """The octets of each row; of every column, whether it descends, and whether its NULLs come first."""
    arrays = [_one(values) for values, *_ in columns]
    valid = [np.asarray(pc.is_valid(array)) for array in arrays]
    parts = [bounds_of(a) if _is_text(a.type) else _numbers(a) for a in arrays]
    sizes = np.zeros(len(arrays[0]), np.int64)
    for array, there, part in zip(arrays, valid, parts, strict=True):
        if _is_text(array.type):
            _measure_text(part[0], part[1], there, sizes)
        else:
            sizes += 1 + 8 * len(part) * there
    ends = np.concatenate([[0], np.cumsum(sizes)])
    out, cursor = np.zeros(int(ends[-1]), np.uint8), ends[:-1].copy()
    for array, there, part, (_, descends, first) in zip(arrays, valid, parts, columns, strict=True):
        flip = np.uint8(0xFF if descends else 0)
        _put_marks(there, np.uint8(FIRST if first else LAST), cursor, out)
        if _is_text(array.type):
            _put_text(part[0], part[1], there, flip, cursor, out)
        else:
            for word in part:
                _put_word(word, there, flip, cursor, out)
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, pa.py_buffer(ends), pa.py_buffer(out)])


def places(known: Column, wanted: Column) -> tuple[Int64s, Bools]:
    """For each of some octets the place of the first that is not before them, both in order, and whether it is them."""
    at, same = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    _search(*bounds_of(_one(known)), *bounds_of(_one(wanted)), at, same)
    return at, same


def bounds_of(array: pa.Array) -> tuple[UInt8s, Int64s]:
    """The octets of texts, and where each begins and ends."""
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    count = len(array)
    bounds = (
        np.frombuffer(offsets, np.int64)[array.offset : array.offset + count + 1] if count else np.zeros(1, np.int64)
    )
    return np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8), bounds


def _one(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _numbers(array: pa.Array) -> tuple[Int64s, ...]:
    """Whole numbers that compare as the values do, without a sign: one of 64 bits, or the upper and the lower half."""
    low, high = words(array)
    if pa.types.is_floating(array.type):
        low = low ^ (low >> 63 & SIGN)
    return (low ^ ~SIGN,) if high is None else (high ^ ~SIGN, low)


@kernel
def _measure_text(octets, bounds, valid, sizes):
    for n in range(len(sizes)):
        sizes[n] += 1
        if valid[n]:
            sizes[n] += bounds[n + 1] - bounds[n] + 2
            for at in range(bounds[n], bounds[n + 1]):
                sizes[n] += octets[at] == 0


@kernel
def _put_marks(valid, null, cursor, out):
    for n in range(len(valid)):
        out[cursor[n]] = VALUE if valid[n] else null
        cursor[n] += 1


@kernel
def _put_word(word, valid, flip, cursor, out):
    for n in range(len(valid)):
        if valid[n]:
            for octet in range(8):
                out[cursor[n] + octet] = np.uint8(word[n] >> (56 - 8 * octet) & 0xFF) ^ flip
            cursor[n] += 8


@kernel
def _put_text(octets, bounds, valid, flip, cursor, out):
    for n in range(len(valid)):
        if not valid[n]:
            continue
        to = cursor[n]
        for at in range(bounds[n], bounds[n + 1]):
            out[to] = octets[at] ^ flip
            to += 1
            if octets[at] == 0:
                out[to] = np.uint8(0xFF) ^ flip
                to += 1
        out[to], out[to + 1] = flip, flip
        cursor[n] = to + 2


@kernel
def _compare(octets, start, end, others, other_start, other_end):
    """Negative, zero or positive, as the first is before, equal to or after the second."""
    for n in range(min(end - start, other_end - other_start)):
        step = np.int64(octets[start + n]) - np.int64(others[other_start + n])
        if step != 0:
            return step
    return (end - start) - (other_end - other_start)


@kernel
def _search(octets, bounds, wanted, wanted_bounds, at, same):
    for n in range(len(at)):
        low, high = 0 if n == 0 else at[n - 1], len(bounds) - 1
        start, end = wanted_bounds[n], wanted_bounds[n + 1]
        while low < high:
            middle = (low + high) // 2
            if _compare(octets, bounds[middle], bounds[middle + 1], wanted, start, end) < 0:
                low = middle + 1
            else:
                high = middle
        at[n] = low
        if low < len(bounds) - 1:
            same[n] = _compare(octets, bounds[low], bounds[low + 1], wanted, start, end) == 0
