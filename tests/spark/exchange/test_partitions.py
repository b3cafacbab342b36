"""Group ids land on the partitions they were chosen for."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.spark.exchange.partitions import group_id, partition_id, partition_of, spark_hash


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 64])
def test_shard_i_of_every_join_is_on_partition_i_and_no_id_is_used_twice(shards: int):
    ids = {(join, i): group_id(join, i, shards) for join in range(5) for i in range(shards)}
    assert all(partition_of(group, shards) == i for (_, i), group in ids.items())
    assert len(set(ids.values())) == len(ids)
    assert [partition_of(partition_id(i, shards), shards) for i in range(shards)] == list(range(shards))


def test_known_hashes():
    """Spark SQL: SELECT hash(0), hash(1), hash(-1)."""
    assert [spark_hash(n) for n in (0, 1, -1)] == [933211791, -559580957, -1604776387]


@pytest.mark.spark
def test_the_hash_is_sparks(spark: Any):
    values = [0, 1, -1, 42, 2**31 - 1, -(2**31), *range(1000, 1200)]
    frame = spark.createDataFrame([(v,) for v in values], "v int")
    assert [spark_hash(v) for v in values] == [row[0] for row in frame.selectExpr("hash(v)").collect()]
