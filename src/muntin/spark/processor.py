"""What Spark calls: one group per (join, shard), once per micro-batch. The work itself is in the room `shard`.

Spark starts a fresh Python process at the start of every run only to learn the state's schema from `init`, and waits
for it: so this module imports nothing of ours, it lies in no room, and the first rows bring the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

DDL = "part int, frame binary"


class JoinProcessor(StatefulProcessor):  # type: ignore[misc]
    """Holds what its tasks must know as `Topology.packed` has it, since that alone needs none of our modules."""

    def __init__(self, topology: tuple[str, str, bytes]):
        self._topology = topology

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._chunks = handle.getMapState("chunks", "id string", "frame binary")
        self._meta = handle.getValueState("meta", "frame binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        from muntin.spark.exchange import Topology, partition_id
        from muntin.spark.shard import ShardState, shard, taken

        topology, state = Topology.unpacked(*self._topology), ShardState(self._chunks, self._meta)
        frames = taken((row["frame"] for row in rows), topology.policy.batch_bytes)
        for part, frame in shard.advance(topology, int(key[0]), frames, state):
            yield Row(part=partition_id(part, topology.shards), frame=frame)

    def close(self) -> None:
        from muntin.spark.worker import set_aside

        set_aside()
