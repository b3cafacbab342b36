"""What every task of a job must know: its plans, and how they are laid out over Spark's partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import pyarrow as pa

from muntin.core.policy import DEFAULT_POLICY, Policy
from muntin.model import MuntinError, Side, Stream
from muntin.plan import Plan, SharedJoin
from muntin.spark.checkpoint import Epoch
from muntin.spark.exchange.address import Address
from muntin.spark.exchange.briefing import briefing
from muntin.spark.exchange.build import BUILD, PLACE, refuse_other_build
from muntin.spark.exchange.packed import packed, unpacked
from muntin.spark.exchange.partitions import group_id
from muntin.spark.exchange.table_versions import fetched


@dataclass(frozen=True)
class Topology:
    """One group per (join, shard), in which the joins that read that one live, too.

    `checkpoint_id` tells the jobs of one worker process apart.

    `plan` is that of epoch 0, `epochs` are later ones that a shard may be at; what comes while the streaming query
    runs is in the briefing of each micro-batch.

    It goes to the workers with every task, so it is packed once, and unpacked once in each of them: with a thousand
    queries that takes a tenth of a second, and Spark runs no stateful operator that takes more than a megabyte.
    """

    plan: Plan
    shards: int
    global_order: bool
    checkpoint_id: str
    policy: Policy = DEFAULT_POLICY
    epochs: tuple[Epoch, ...] = ()
    counting: bool = False
    """Results are counted where they are found and go no further."""
    hub: Address | None = None
    """Where shards deliver results while they are at work; None where the sink gets them after."""
    ahead_of_clock_us: int | None = None
    """How far ahead of the clock of the micro-batch a row may be, in a run without end."""
    tables_at: Address | None = None
    """Where the driver hands out tables; None where nothing is looked up."""
    began_us: int = 0
    """When this run began, on the wall clock: what had come before counts from then on."""

    @property
    def results_go_to_tasks(self) -> bool:
        """Whether tasks of the sink take results. Where shards count or deliver them, so little is left for the sink
        that the driver reads it itself."""
        return not self.counting and self.hub is None

    def __reduce__(self) -> tuple[Callable[[str, str, bytes], Topology], tuple[str, str, bytes]]:
        return Topology.unpacked, self.packed

    @cached_property
    def packed(self) -> tuple[str, str, bytes]:
        """What `unpacked` takes: the build of this Muntin, where it lies, and all fields."""
        return BUILD, PLACE, packed(tuple(getattr(self, field.name) for field in fields(self)))

    @staticmethod
    @lru_cache(maxsize=8)
    def unpacked(build: str, place: str, data: bytes) -> Topology:
        """The same object for all tasks of a job in one worker, which has to be of the same build as the driver."""
        refuse_other_build(build, place)
        return Topology(*unpacked(data))

    def epoch(self, number: int) -> Epoch:
        """A plan by its number: epoch 0, one of those that the job began this run with, or one of the briefing."""
        if number == 0:
            return Epoch(0, self.plan)
        known = {epoch.number: epoch for epoch in (*self.epochs, *briefing().epochs)}
        if number not in known:
            raise MuntinError(f"a task was not told of plan {number}, only of {sorted(known)}")
        return known[number]

    def latest(self) -> int:
        """The last epoch that a task knows of, whether or not it is in force yet."""
        return max((epoch.number for epoch in (*self.epochs, *briefing().epochs)), default=0)

    def group(self, index: int, shard: int) -> int:
        """The key of one shard of the join with this number."""
        return group_id(index, shard, self.shards)

    def groups(self, epochs: Iterable[int]) -> Iterator[int]:
        """The keys of all joins of some epochs; one that reads another lives with it."""
        for index in sorted({join.home for number in epochs for join in self.epoch(number).plan.joins}):
            for shard in range(self.shards):
                yield self.group(index, shard)

    def readers(self, stream: Stream) -> Iterator[tuple[SharedJoin, Side]]:
        """The joins that read a stream, and on which side; a self-join reads it on both.

        A join that is to come gets rows from the moment its plan is written; it takes none before its time.
        """
        for join in self.epoch(self.latest()).plan.joins:
            for side in Side:
                if join.streams[side].name == stream.name and not join.streams[side].derived:
                    yield join, side

    def looking_up(self, stream: Stream) -> Stream:
        """A stream with what its rows look up, for all plans that a shard may be at."""
        reading = [join.streams[side] for join, side in self.readers(stream)]
        return stream.looking_up(lookup for found in reading for lookup in found.lookups)

    def tables(self, stream: Stream) -> dict[str, pa.Table]:
        """The tables that the rows of a stream look into, in the versions of this micro-batch."""
        wanted = {lookup.table for lookup in stream.lookups}
        versions = [version for version in briefing().tables if version.table in wanted]
        return {version.table: fetched(self.tables_at, self.checkpoint_id, version) for version in versions}

    def reporter(self, stream: Stream) -> SharedJoin | None:
        """The join that reports the stream's dead letters; None where no query reads the stream any more."""
        return next((join for join, side in self.readers(stream) if join.reports[side]), None)
