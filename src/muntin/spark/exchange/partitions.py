"""Group ids that Spark's hash partitioning sends where we want them.

Spark puts a group with the int key g on partition `pmod(murmur3(g, 42), n)`. Arbitrary ids can share a partition and
leave cores idle; so shard i of join j gets the j-th int, from 0 up, that lands on partition i. The id depends on
nothing but (j, i, n): it stays the same when joins are added.
"""

from __future__ import annotations

from functools import cache

_MASK = 0xFFFFFFFF


def spark_hash(value: int, seed: int = 42) -> int:
    """Spark SQL's `hash(int)`: Murmur3 x86 32 bit of four bytes, as a signed int."""
    k = (value & _MASK) * 0xCC9E2D51 & _MASK
    k = _rotl(k, 15) * 0x1B873593 & _MASK
    h = (_rotl((seed ^ k) & _MASK, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h & 0x80000000 else h


def _rotl(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (32 - bits))) & _MASK


def partition_of(group: int, partitions: int) -> int:
    """The partition on which Spark puts rows with this int key."""
    return spark_hash(group) % partitions


@cache
def _ids(partitions: int, each: int) -> tuple[tuple[int, ...], ...]:
    """For every partition, the first `each` ints from 0 up that land on it."""
    found: list[list[int]] = [[] for _ in range(partitions)]
    missing, value = partitions, 0
    while missing:
        bucket = found[partition_of(value, partitions)]
        if len(bucket) < each:
            bucket.append(value)
            missing -= len(bucket) == each
        value += 1
    return tuple(tuple(bucket) for bucket in found)


def group_id(join: int, shard: int, shards: int) -> int:
    """The int key of one shard of one join; with `shards` partitions it lands on partition `shard`."""
    return _ids(shards, join + 1)[shard][join]


def place_of(group: int, shards: int) -> tuple[int, int]:
    """The number of the join and the shard that have this key."""
    shard = partition_of(group, shards)
    return sum(partition_of(other, shards) == shard for other in range(group)), shard


def partition_id(partition: int, partitions: int) -> int:
    """The int key that lands on exactly this partition, for the exchange before the sink."""
    return group_id(0, partition, partitions)
