"""What every task of a job must know: the plan, and how it is laid out over Spark's partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muntin.core.policy import DEFAULT_POLICY, Policy
from muntin.model import Side, Stream
from muntin.plan import Plan, SharedJoin
from muntin.spark.shards import group_id

STATE_FORMAT = 2
"""What lies in the state store; a checkpoint of another format is refused."""


@dataclass(frozen=True)
class Topology:
    """One operator per (join, shard); `checkpoint_id` tells the jobs of one worker process apart."""

    plan: Plan
    shards: int
    global_order: bool
    checkpoint_id: str
    policy: Policy = DEFAULT_POLICY

    def group(self, join: SharedJoin, shard: int) -> int:
        return group_id(join.index, shard, self.shards)

    def groups(self) -> dict[int, tuple[SharedJoin, int]]:
        """Join and shard of every group id."""
        return {self.group(join, shard): (join, shard) for join in self.plan.joins for shard in range(self.shards)}

    def readers(self, stream: Stream) -> Iterator[tuple[SharedJoin, Side]]:
        """The joins that read a stream, and on which side; a self-join reads it on both."""
        for join in self.plan.joins:
            for side in Side:
                if join.streams[side].name == stream.name:
                    yield join, side

    def reporter(self, stream: Stream) -> SharedJoin:
        """The join that reports the stream's dead letters."""
        return next(join for join, side in self.readers(stream) if join.reports[side])
