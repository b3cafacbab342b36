"""One shard of one shared join, from the frames of a micro-batch to frames for the sink.

    durable   map state `chunks`: chunk id -> frame of Arrow rows;  value state `meta`: frame of JSON with a nonce
    hot       the Operator's memory, in files that any worker of the machine finds (hot_state.py)

The state store is the truth. A worker may be killed, may get another shard in the next micro-batch, may run a second
attempt: each write of the meta carries a fresh random nonce, and a hot state with any other nonce is thrown away and
rebuilt from the chunks.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol
from zlib import crc32

import pyarrow as pa

from muntin.core.arrivals import FOREVER, FRONTIER, IDLE, LIMIT, HeavyKey, StreamsReached, begun_with, to_report
from muntin.core.batch import Arrivals
from muntin.core.operator import Operator
from muntin.core.operator_state import OperatorMeta
from muntin.core.punctuations import REASON, spoken_by
from muntin.core.results import counted, unmatched
from muntin.core.schedule import WorkLimit
from muntin.core.step import ChangeOutcome, Step
from muntin.core.storage import Payload, table_bytes
from muntin.model import MuntinError, Side
from muntin.model.records import from_json, to_json
from muntin.plan import Plan, SharedJoin
from muntin.plan.cost import Constants
from muntin.plan.punctuation import speakers
from muntin.spark.checkpoint import STATE_FORMAT, ShardChange, ShardReport
from muntin.spark.exchange import (
    Frame,
    FrameError,
    FrameKind,
    Topology,
    decode,
    encode,
    place_of,
)
from muntin.spark.ingest import dead_letters
from muntin.spark.shard.arrivals import control_messages, read_arrivals, sorted_frames
from muntin.spark.shard.eager_sender import Attempt, EagerSender, deliver
from muntin.spark.shard.hot_state import FileMemory, HotState, hot_root
from muntin.spark.shard.report import describe_operator

CHUNK_COMPRESSION = "lz4"

Part = tuple[int, bytes]
"""The number of a sink task and a frame for it."""


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

    def meta(self) -> dict[str, Any] | None:
        stored = self._meta.get()
        if stored is None:
            return None
        header = dict(decode(stored[0], "the meta state").header)
        if header["format"] != STATE_FORMAT:
            raise MuntinError(f"the state has format {header['format']}, this Muntin reads format {STATE_FORMAT}")
        return header

    def chunks(self, names: Iterable[str]) -> dict[str, pa.Table]:
        """Chunks, fetched one by one: Spark's own iterator would bring 10,000 in one message."""
        return {name: self._chunk(name) for name in names}

    def _chunk(self, name: str) -> pa.Table:
        stored = self._chunks.getValue((name,))
        if stored is None:
            raise MuntinError(f"the state is damaged: chunk {name} is missing")
        frame = decode(stored[0], f"the state chunk {name}")
        if frame.kind != FrameKind.CHUNK or frame.header["id"] != name:
            raise FrameError(f"the state chunk {name} is damaged: it is {frame.header.get('id', 'no chunk')}")
        return frame.table()

    def write(self, step: Step, meta: OperatorMeta, epoch: int) -> str:
        """Store what the step added and removed; returns the nonce of this state."""
        self._remove(step.deletes)
        for name, table in step.puts.items():
            body = table_bytes(table, CHUNK_COMPRESSION)
            self._chunks.updateValue((name,), (encode(FrameKind.CHUNK, {"id": name}, body),))
        return self._stamp(meta, epoch)

    def clear(self, chunks: Iterable[str], epoch: int) -> None:
        """Forget an operator whose join is no more; that it is gone is remembered."""
        self._remove(chunks)
        self._stamp(None, epoch)

    def _remove(self, chunks: Iterable[str]) -> None:
        for name in chunks:
            self._chunks.removeKey((name,))

    def _stamp(self, meta: OperatorMeta | None, epoch: int) -> str:
        nonce = secrets.token_hex(16)
        header = {"format": STATE_FORMAT, "nonce": nonce, "epoch": epoch, "operator": to_json(meta)}
        self._meta.update((encode(FrameKind.META, header),))
        return nonce


def advance(topology: Topology, group: int, received: Sequence[bytes], state: ShardState) -> Iterator[Part]:
    """One micro-batch of one shard: dead letters pass through, rows go through the operator, its state is stored.

    A change of plan comes first: it is in force for all that the micro-batch brings.
    """
    index, shard = place_of(group, topology.shards)
    frames = [decode(data, f"a frame for join {index}, shard {shard}") for data in received]
    for frame in sorted_frames(frames, FrameKind.DEAD_LETTERS):
        yield _dead_letters(topology, shard, frame.header["stream"], frame.table())
    if all(frame.kind == FrameKind.DEAD_LETTERS for frame in frames):
        return
    engine = Engine.open(topology, group, index, state)
    plans = [message for message in control_messages(frames, "plan") if message["epoch"] > engine.epoch]
    with _open_sender(topology, engine, shard, [message["epoch"] for message in plans]) as sender:
        if plans and sender is not None:
            engine.complete(sender)
        changes = [engine.change(message) for message in plans]
        report = ShardReport(index, shard, engine.epoch, changes)
        operator, began = engine.operator, time.process_time()
        if operator is not None:
            _follow_messages(operator, index, frames)
            place = shard, topology.shards
            step = _join(operator, read_arrivals(operator.join, frames, topology.policy.max_ahead_us, place), sender)
        elif sender is not None:
            sender.done()
    if operator is None:
        if changes:
            yield _report(replace(report, gone=True), {}, {})
        return
    report.seconds = time.process_time() - began
    report.rebuilt = engine.rebuilt
    times, alone = (counted(step.found), unmatched(step.found)) if topology.counting else ({}, {})
    plan = topology.epoch(engine.epoch).plan
    out = [*_turned_away(topology, plan, operator.join, shard, step)]
    if not topology.counting:
        head = {"join": index, "shard": shard, "epoch": engine.epoch}
        punctuations = _punctuations(plan, index, shard, step)
        out += [*_values(topology, head, step), *_results(topology, head, step), *punctuations]
    operator.tidy()
    engine.store(step)
    yield from out
    yield _report(describe_operator(report, operator), times, alone)


def _open_sender(
    topology: Topology, engine: Engine, shard: int, epochs: Sequence[int]
) -> AbstractContextManager[EagerSender | None]:
    """The way to the driver while a micro-batch is at work; none with batch delivery, or where there is no join."""
    before = [] if engine.operator is None else [engine.epoch]
    if topology.hub is None or not (before or epochs):
        return nullcontext()
    return EagerSender(topology.hub, task_attempt(engine.index, shard, [*before, *epochs]))


def _follow_messages(operator: Operator, index: int, frames: list[Frame]) -> None:
    """Do what the driver has told: which ordering to follow, which keys are hot, and how much work to do."""
    for message in control_messages(frames, "ordering"):
        if message["join"] == index:
            operator.follow(message["filter_order"])
    for message in control_messages(frames, "hot_keys"):
        if message["join"] == index:
            hot, cool = ([from_json(HeavyKey, key) for key in message[name]] for name in ("hot", "cool"))
            operator.heat(hot, cool)
    for message in control_messages(frames, "work"):
        constants = from_json(Constants, message["constants"])
        until = message["until"].get(str(index))
        operator.work_limit = WorkLimit(message["limit_ns"], until, message["scheduler"], constants)


def _join(operator: Operator, brought: Arrivals, sender: EagerSender | None) -> Step:
    """The work of a micro-batch; with eager delivery results leave on the way."""
    if sender is None:
        return operator.advance(brought)
    operator.receive(brought)
    sender.done(deliver(operator, operator.work(), sender))
    return operator.finish()


def task_attempt(join: int, shard: int, epochs: list[int]) -> Attempt:
    """Which attempt this task is, at which micro-batch; a later attempt has a larger number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    return Attempt(join=join, shard=shard, epochs=epochs, batch=int(batch or 0), attempt=context.taskAttemptId())


@dataclass
class Engine:
    """The operator of one shard, None before its join has come and after it has gone, with the memory it lives in."""

    topology: Topology
    index: int
    state: ShardState
    hot: HotState
    epoch: int
    operator: Operator | None
    memory: FileMemory | None
    rebuilt: bool = False

    @classmethod
    def open(cls, topology: Topology, group: int, index: int, state: ShardState) -> Engine:
        """The hot operator, or a new one, or one rebuilt from the chunks."""
        stored = state.meta()
        hot = HotState(hot_root(topology.checkpoint_id), group)
        epoch = stored["epoch"] if stored else 0
        gone = stored is not None and stored["operator"] is None
        join = None if gone else topology.epoch(epoch).plan.join(index)
        if join is None:
            return cls(topology, index, state, hot, epoch, None, None)
        claimed = hot.claim(stored["nonce"]) if stored else None
        if claimed is not None and claimed[1].fits(join):
            memory, image = claimed
            return cls(topology, index, state, hot, epoch, Operator(join, memory, topology.policy, image=image), memory)
        memory = hot.begin()
        if stored is None:
            return cls(topology, index, state, hot, epoch, Operator(join, memory, policy=topology.policy), memory)
        meta = from_json(OperatorMeta, stored["operator"])
        operator = Operator.restore(join, meta, state.chunks(meta.chunks), memory, topology.policy)
        return cls(topology, index, state, hot, epoch, operator, memory, True)

    def complete(self, sender: EagerSender) -> None:
        """Do all that earlier micro-batches have left, for the queries that are there, before these change."""
        if self.operator is not None and (work := self.operator.complete()) is not None:
            deliver(self.operator, work, sender)
            self.operator.completed()

    def change(self, message: Mapping[str, Any]) -> ShardChange:
        """Go over to another epoch; what that did here."""
        target = self.topology.epoch(message["epoch"])
        join, self.epoch = target.plan.join(self.index), target.number
        if join is None:
            changed = self._leave()
        elif self.operator is None:
            self.memory = self.hot.begin()
            self.operator = Operator(join, self.memory, policy=self.topology.policy)
            seen = [from_json(StreamsReached, of) for of in message["seen"]]
            changed = self.operator.begin(*begun_with([stream.name for stream in join.streams], seen))
        else:
            names = {query.name for query in join.queries}
            changed = self.operator.change(join, {n: c for n, c in target.covered.items() if n in names})
        return ShardChange(self.epoch, **asdict(changed))

    def _leave(self) -> ChangeOutcome:
        """The join is no more: all of its state is given back."""
        if self.operator is None or self.memory is None:
            return ChangeOutcome(-FOREVER, {}, 0, 0)
        rows, size = sum(self.operator.state.rows(side) for side in Side), self.operator.nbytes
        self.state.clear(self.operator.chunks.live, self.epoch)
        release, self.operator = self.operator.release, None
        shutil.rmtree(self.memory.folder, ignore_errors=True)
        return ChangeOutcome(release + 1, {}, rows, size)

    def store(self, step: Step) -> None:
        assert self.operator is not None and self.memory is not None
        nonce = self.state.write(step, self.operator.meta, self.epoch)
        self.hot.put_back(self.memory, nonce, self.operator.image)


def _values(topology: Topology, head: Mapping[str, Any], step: Step) -> Iterator[Part]:
    """The values of groups, those of a query at one place where they are put together over all shards."""
    for values in step.values:
        if values.table.num_rows:
            part = crc32(values.query.encode()) % topology.shards if topology.global_order else head["shard"]
            yield _part(part, FrameKind.VALUES, {**head, **values.header}, values.payload)


def _results(topology: Topology, head: Mapping[str, Any], step: Step) -> Iterator[Part]:
    """The results in one piece, or one piece per time range where ranges are merged over all shards."""
    if not len(step.found):
        return
    if topology.global_order:
        pieces = dict(enumerate(step.found.split(topology.shards, step.span)))
    else:
        pieces = {head["shard"]: step.found.whole()}
    for part, piece in pieces.items():
        if len(piece):
            yield _part(part, FrameKind.RESULTS, head, piece.to_bytes())


def _dead_letters(topology: Topology, shard: int, stream: str, table: pa.Table) -> Part:
    """Dead letters, or where rows are only counted, their number for each class of error."""
    if topology.counting:
        return _part(shard, FrameKind.DEAD_LETTERS, {"stream": stream, "classes": dead_letters.by_class(table)})
    return _part(shard, FrameKind.DEAD_LETTERS, {"stream": stream}, table_bytes(table))


def _turned_away(topology: Topology, plan: Plan, join: SharedJoin, shard: int, step: Step) -> Iterator[Part]:
    """The dead letters of rows that are late or too far ahead, or broke a promise."""
    for side in Side:
        rows, stream = to_report(plan, join, side, step.late[side]), join.streams[side]
        other = join.streams[side.other].name
        if rows.num_rows:
            table = dead_letters.late(stream, rows.drop_columns([FRONTIER, IDLE]), rows[FRONTIER], rows[IDLE], other)
            yield _dead_letters(topology, shard, stream.name, table)
        rows = step.ahead[side]
        if join.reports[side] and rows.num_rows:
            table = dead_letters.ahead(stream, rows.drop_columns([LIMIT]), rows[LIMIT], "the other rows")
            yield _dead_letters(topology, shard, stream.name, table)
    for side, rows in step.refused:
        if join.reports[side]:
            table = dead_letters.refused(join.streams[side], rows.drop_columns([REASON]), rows[REASON])
            yield _dead_letters(topology, shard, join.streams[side].name, table)


def _punctuations(plan: Plan, index: int, shard: int, step: Step) -> Iterator[Part]:
    """Punctuations of the queries' outputs."""
    if step.punctuations:
        for name, table in spoken_by(index, step.punctuations, speakers(plan)).items():
            yield _part(shard, FrameKind.PUNCTUATIONS, {"query": name, "join": index}, table_bytes(table))


def _report(report: ShardReport, times: Mapping[str, Mapping[int, int]], alone: Mapping[str, int]) -> Part:
    """The report, and rows that were only counted: by the moment at which they had arrived, and those of them that had
    no match."""
    arrivals = {name: list(moments.items()) for name, moments in times.items()}
    header = {"report": to_json(report), "arrivals": arrivals, "unmatched": dict(alone)}
    return _part(report.shard, FrameKind.REPORT, header)


def _part(part: int, kind: FrameKind, header: Mapping[str, Any], payload: Payload = b"") -> Part:
    return part, encode(kind, {**header, "part": part}, payload)
