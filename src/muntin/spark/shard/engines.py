"""The operators of one shard: that of the join that the shard is of, and those of the joins above it that read it.

    durable   map state `chunks`: chunk id -> frame of Arrow rows;  value state `meta`: frame of JSON with a nonce
    hot       the memory of each Operator, in files that any worker of the machine finds (hot_state.py)

The state store is the truth. A worker may be killed, may get another shard in the next micro-batch, may run a second
attempt: each write of the meta carries a fresh random nonce, and a hot state with any other nonce is thrown away and
rebuilt from the chunks.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from muntin.core.arrivals import FOREVER, StreamsReached, begun_with
from muntin.core.feeding import begun_by, completed_by
from muntin.core.operator import Operator
from muntin.core.operator_state import OperatorMeta
from muntin.core.step import ChangeOutcome, Step
from muntin.core.storage import table_bytes
from muntin.model import MuntinError, Side
from muntin.model.records import from_json
from muntin.plan import SharedJoin
from muntin.spark.checkpoint import ShardChange
from muntin.spark.exchange import FrameError, FrameKind, Topology, decode, encode
from muntin.spark.shard.eager_sender import EagerSender, deliver
from muntin.spark.shard.hot_state import FileMemory, HotState, hot_root
from muntin.spark.shard.shard_meta import ShardMeta

CHUNK_COMPRESSION = "lz4"


class Chunks(Protocol):
    """What is used of Spark's map state."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None: ...
    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None: ...
    def removeKey(self, key: tuple[Any, ...]) -> None: ...


class Meta(Protocol):
    """What is used of Spark's value state."""

    def get(self) -> tuple[Any, ...] | None: ...
    def update(self, newValue: tuple[Any, ...]) -> None: ...


class ShardState:
    """The durable state of one group, behind Spark's state calls."""

    def __init__(self, chunks: Chunks, meta: Meta):
        self._chunks = chunks
        self._meta = meta

    def meta(self) -> ShardMeta | None:
        stored = self._meta.get()
        return None if stored is None else ShardMeta.read(stored[0], "the state")

    def chunks(self, names: Iterable[str], prefix: str = "") -> dict[str, pa.Table]:
        """Chunks, fetched one by one: Spark's own iterator would bring 10,000 in one message."""
        return {name: self._chunk(prefix + name) for name in names}

    def _chunk(self, name: str) -> pa.Table:
        stored = self._chunks.getValue((name,))
        if stored is None:
            raise MuntinError(f"the state is damaged: chunk {name} is missing")
        frame = decode(stored[0], f"the state chunk {name}")
        if frame.kind != FrameKind.CHUNK or frame.header["id"] != name:
            raise FrameError(f"the state chunk {name} is damaged: it is {frame.header.get('id', 'no chunk')}")
        return frame.table()

    def write(self, step: Step, prefix: str = "") -> None:
        """Store what the step of an operator added and removed."""
        self.remove(step.deletes, prefix)
        for name, table in step.puts.items():
            body = table_bytes(table, CHUNK_COMPRESSION)
            self._chunks.updateValue((prefix + name,), (encode(FrameKind.CHUNK, {"id": prefix + name}, body),))

    def remove(self, chunks: Iterable[str], prefix: str = "") -> None:
        for name in chunks:
            self._chunks.removeKey((prefix + name,))

    def stamp(self, meta: ShardMeta) -> None:
        """Store the small state."""
        self._meta.update((meta.frame,))


@dataclass
class Engine:
    """The operator of one join in one shard, with the memory it lives in."""

    index: int
    prefix: str
    """What the names of its chunks begin with: nothing for the join that the shard is of."""
    hot: HotState
    operator: Operator
    memory: FileMemory
    rebuilt: bool = False
    step: Step | None = None
    """What the micro-batch at hand did."""


@dataclass
class Engines:
    """The engines of one shard, each after those that it reads; none before its join has come and after it has gone."""

    topology: Topology
    group: int
    home: int
    state: ShardState
    epoch: int = 0
    all: dict[int, Engine] = field(default_factory=dict)

    @classmethod
    def open(cls, topology: Topology, group: int, home: int, state: ShardState) -> Engines:
        """The hot operators, or new ones, or such as are rebuilt from the chunks."""
        stored = state.meta()
        self = cls(topology, group, home, state, stored.epoch if stored else 0)
        small = stored.joins(home) if stored else {}
        for join in topology.epoch(self.epoch).plan.living_in(home):
            if stored is None or join.index in small:
                self.all[join.index] = self._opened(join, stored.nonce if stored else None, small.get(join.index))
        return self

    def _opened(self, join: SharedJoin, nonce: str | None = None, meta: OperatorMeta | None = None) -> Engine:
        prefix = "" if join.index == self.home else f"{join.index}/"
        root, policy = hot_root(self.topology.checkpoint_id), self.topology.policy
        hot = HotState(root, self.group, join.index if prefix else None)
        claimed = hot.claim(nonce, meta) if nonce and meta else None
        if claimed is not None and claimed[1].fits(join):
            memory, image = claimed
            return Engine(join.index, prefix, hot, Operator(join, memory, policy, image=image), memory)
        memory = hot.begin()
        if meta is None:
            return Engine(join.index, prefix, hot, Operator(join, memory, policy=policy), memory)
        operator = Operator.restore(join, meta, self.state.chunks(meta.chunks, prefix), memory, policy)
        return Engine(join.index, prefix, hot, operator, memory, True)

    @property
    def own(self) -> Engine | None:
        """That of the join which the shard is of."""
        return self.all.get(self.home)

    @property
    def operators(self) -> dict[int, Operator]:
        return {index: engine.operator for index, engine in self.all.items()}

    def complete(self, sender: EagerSender) -> None:
        """Do all that earlier micro-batches have left, for the queries that are there, before these change."""
        for engine in self.all.values():
            if (work := engine.operator.complete()) is not None:
                deliver(engine.operator, work, sender)
                engine.operator.completed()

    def change(self, message: Mapping[str, Any]) -> dict[int, ShardChange]:
        """Go over to another epoch; what that did here to each join."""
        target = self.topology.epoch(message["epoch"])
        before, self.all, self.epoch = self.all, {}, target.number
        done: dict[int, ChangeOutcome] = {}
        for join in target.plan.living_in(self.home):
            engine = before.pop(join.index, None)
            if engine is None:
                engine = self._opened(join)
                seen = [from_json(StreamsReached, of) for of in message["seen"]]
                begun = begun_with([stream.name for stream in join.streams], seen)
                outcome = engine.operator.begin(begun_by(join, self.operators, begun))
            else:
                names = {query.name for query in join.queries}
                covered = {name: known for name, known in target.covered.items() if name in names}
                outcome = engine.operator.change(join, covered)
            done[join.index] = completed_by(outcome, engine.operator, self.operators)
            self.all[join.index] = engine
        done |= {index: self._leave(engine) for index, engine in before.items()}
        if not done:
            done[self.home] = ChangeOutcome(-FOREVER, {}, 0, 0)
        elif not self.all:
            self.state.stamp(ShardMeta.of(self.home, {}, self.epoch))
        return {index: ShardChange(self.epoch, **asdict(outcome)) for index, outcome in done.items()}

    def _leave(self, engine: Engine) -> ChangeOutcome:
        """The join is no more: all of its state is given back."""
        operator = engine.operator
        rows, size = sum(operator.state.rows(side) for side in Side), operator.nbytes
        self.state.remove(operator.chunks.live, engine.prefix)
        shutil.rmtree(engine.memory.folder, ignore_errors=True)
        return ChangeOutcome(operator.release + 1, {}, rows, size)

    def store(self) -> None:
        """Make durable what the micro-batch did, and leave the memory to the next one."""
        for engine in self.all.values():
            assert engine.step is not None
            self.state.write(engine.step, engine.prefix)
        meta = ShardMeta.of(self.home, {index: engine.operator.meta for index, engine in self.all.items()}, self.epoch)
        self.state.stamp(meta)
        for engine in self.all.values():
            if engine.operator.lacks_rows and self.topology.hub is not None:
                engine.hot.drop()  # the hub counts on the rows that a second attempt finds, from the chunks
            else:
                engine.hot.put_back(engine.memory, meta.nonce, engine.operator.image)
