"""The bits that numbers, times and truth values are made of: compiled code has no part in it."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import Int64s


def number_bits(array: pa.Array) -> tuple[Int64s, Int64s | None]:
    """The 64 or 128 bits of a column's values, all of which have a fixed size; those of a NULL do not matter."""
    kind = array.type
    if pa.types.is_floating(kind):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.int64), None
    if pa.types.is_boolean(kind):
        return array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.int64), None
    if pa.types.is_decimal(kind):
        array = array.fill_null(decimal.Decimal(0)).cast(pa.decimal128(38, kind.scale))
        halves = np.frombuffer(array.buffers()[1], np.int64)
        halves = halves[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
        return np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1])
    if pa.types.is_date(kind):
        array = array.cast(pa.int32())
    return array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), None
