"""Join keys as 128 bits, and the shard a key belongs to.

Keys of up to 128 bits of fixed width (one or two integers, a timestamp, a decimal, a double) are carried exactly.
Strings and longer keys are carried as their 128-bit SipHash-2-4: two different keys among n share one with a
probability of about n * n / 2**129, for a billion keys 1.5e-21, and nobody who does not know the secret can make two
collide.

Equality is Spark SQL's: NaN equals NaN, -0.0 equals 0.0, a NULL part makes the whole key match nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.kernels.arrays import Bools, Int32s, Int64s
from muntin.kernels.bits import number_bits
from muntin.kernels.compiled import inlined, kernel

Column: TypeAlias = "pa.Array | pa.ChunkedArray"

SECRET = (0x6D756E74696E2121, 0x77696E646F777321)
"""Default key of the hash; a job can bring its own."""


def hash_keys(columns: Sequence[Column], secret: tuple[int, int] = SECRET) -> tuple[Int64s, Int64s, Bools]:
    """Both halves of each row's key and whether it has one; the columns are already in the common key types."""
    arrays = [_plain(c) for c in columns]
    valid = np.ones(len(arrays[0]), dtype=bool)
    for array in arrays:
        if array.null_count:
            valid &= np.asarray(pc.is_valid(array))
    parts = [words(array, secret) for array in arrays]
    exact = [low for low, high in parts if high is None]
    if len(parts) == 1:
        low, high = parts[0]
        return low, np.zeros_like(low) if high is None else high, valid
    if len(parts) == 2 and len(exact) == 2:
        return exact[0], exact[1], valid
    k0, k1 = (np.uint64(s) for s in secret)
    h1, h2 = np.zeros(len(valid), np.int64), np.zeros(len(valid), np.int64)
    for low, high in parts:
        _fold(h1, h2, low, np.zeros_like(low) if high is None else high, k0, k1)
    return h1, h2, valid


def extend_keys(h1: Int64s, h2: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Keys that also have another part."""
    h1, h2 = h1.copy(), h2.copy()
    _fold(h1, h2, low, high, np.uint64(SECRET[0]), np.uint64(SECRET[1]))
    return h1, h2


def shard_of(h1: Int64s, h2: Int64s, shards: int) -> Int32s:
    """The shard of each key, evenly spread whatever the keys look like."""
    found: Int32s = _shards(h1, h2, shards)
    return found


def _plain(column: Column) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def words(array: pa.Array, secret: tuple[int, int] = SECRET) -> tuple[Int64s, Int64s | None]:
    """The 64 or 128 bits that stand for a column's values; what stands for a NULL does not matter."""
    if pa.types.is_primitive(array.type) or pa.types.is_decimal(array.type):
        return number_bits(array)
    return _hash_bytes(array.cast(pa.large_binary()), secret)


def _hash_bytes(array: pa.Array, secret: tuple[int, int]) -> tuple[Int64s, Int64s]:
    _, offsets, data = array.buffers()
    n = len(array)
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + n + 1] if n else np.zeros(1, np.int64)
    octets = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    halves: tuple[Int64s, Int64s] = _siphash(octets, bounds, np.uint64(secret[0]), np.uint64(secret[1]))
    return halves


@inlined
def _rotl(x, b):
    return (x << np.uint64(b)) | (x >> np.uint64(64 - b))


@inlined
def _round(v0, v1, v2, v3):
    v0 += v1
    v1 = _rotl(v1, 13) ^ v0
    v0 = _rotl(v0, 32)
    v2 += v3
    v3 = _rotl(v3, 16) ^ v2
    v0 += v3
    v3 = _rotl(v3, 21) ^ v0
    v2 += v1
    v1 = _rotl(v1, 17) ^ v2
    v2 = _rotl(v2, 32)
    return v0, v1, v2, v3


@inlined
def _start(k0, k1):
    return (
        k0 ^ np.uint64(0x736F6D6570736575),
        k1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE),
        k0 ^ np.uint64(0x6C7967656E657261),
        k1 ^ np.uint64(0x7465646279746573),
    )


@inlined
def _absorb(v0, v1, v2, v3, word):
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@inlined
def _finish(v0, v1, v2, v3):
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@kernel
def _siphash(octets, bounds, k0, k1):
    """SipHash-2-4 with 128 bits of output (Aumasson, Bernstein 2012) of each value of a binary column."""
    n = len(bounds) - 1
    low, high = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        v0, v1, v2, v3 = _start(k0, k1)
        at, end = bounds[i], bounds[i + 1]
        length = end - at
        while at + 8 <= end:
            word = np.uint64(0)
            for b in range(8):
                word |= np.uint64(octets[at + b]) << np.uint64(8 * b)
            v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
            at += 8
        word = np.uint64(length & 0xFF) << np.uint64(56)
        for b in range(end - at):
            word |= np.uint64(octets[at + b]) << np.uint64(8 * b)
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
        a, b = _finish(v0, v1, v2, v3)
        low[i], high[i] = np.int64(a), np.int64(b)
    return low, high


@kernel
def _fold(h1, h2, low, high, k0, k1):
    """Take another column's 128 bits into the running hash of each row."""
    for i in range(len(h1)):
        v0, v1, v2, v3 = _start(k0, k1)
        for word in (h1[i], h2[i], low[i], high[i]):
            v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, np.uint64(word))
        a, b = _finish(v0, v1, v2, v3)
        h1[i], h2[i] = np.int64(a), np.int64(b)


@inlined
def mix(h1, h2):
    """64 well-mixed bits of a key (the finaliser of MurmurHash3 over both halves)."""
    x = np.uint64(h1) ^ (np.uint64(h2) * np.uint64(0x9E3779B97F4A7C15))
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


@kernel
def _shards(h1, h2, shards):
    out = np.empty(len(h1), np.int32)
    for i in range(len(h1)):
        out[i] = np.int32((mix(h1[i], h2[i]) >> np.uint64(32)) % np.uint64(shards))
    return out
