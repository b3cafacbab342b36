"""One shard of one shared join, from the frames of a micro-batch to frames for the sink.

    durable   map state `chunks`: chunk id -> frame of Arrow rows;  value state `meta`: frame of JSON with a nonce
    hot       the Operator's memory, in files that any worker of the machine finds (hot.py)

The state store is the truth. A worker may be killed, may get another shard in the next micro-batch, may run a second
attempt: each write of the meta carries a fresh random nonce, and a hot state with any other nonce is thrown away and
rebuilt from the chunks.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals import FOREVER, FRONTIER, IDLE, LIMIT, united
from muntin.core.batch import ARRIVAL, TS, Arrivals, Spans, row_schema
from muntin.core.operator import Operator
from muntin.core.operator_state import OperatorMeta
from muntin.core.punctuations import REASON, spoken_by
from muntin.core.results import counted
from muntin.core.step import ChangeOutcome, Step
from muntin.core.storage import Payload, table_bytes
from muntin.kernels.arrays import Int64s
from muntin.model import MuntinError, Side
from muntin.model.records import from_json, to_json
from muntin.plan import Plan, SharedJoin
from muntin.plan.punctuation import speakers
from muntin.spark.checkpoint import STATE_FORMAT
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
from muntin.spark.shard.eager_sender import EagerSender, deliver
from muntin.spark.shard.hot_state import FileMemory, HotState, hot_root

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
    for frame in _sorted(frames, FrameKind.LETTERS):
        yield _letters(topology, shard, frame.header["stream"], frame.table())
    if all(frame.kind == FrameKind.LETTERS for frame in frames):
        return
    engine = Engine.open(topology, group, index, state)
    changes = [engine.change(message) for message in _plans(frames) if message["epoch"] > engine.epoch]
    operator = engine.operator
    if operator is None:
        if changes:
            yield _part(shard, FrameKind.COUNTERS, _place(index, shard, engine.epoch, changes) | {"gone": True})
        return
    began = time.process_time()
    for message in _control(frames, "ordering"):
        if message["join"] == index:
            operator.follow(message["filter_order"])
    brought = arrivals(operator.join, frames, topology.policy.max_ahead_us)
    if topology.hub is None:
        step = operator.advance(brought)
    else:
        operator.receive(brought)
        with EagerSender(topology.hub, {"join": index, "shard": shard, "epoch": engine.epoch, **attempt()}) as courier:
            deliver(operator, courier)
        step = operator.finish()
    engine.seconds = time.process_time() - began
    head = {"join": index, "shard": shard, "epoch": engine.epoch}
    came = counted(step.found) if topology.counting else {}
    out = [*_late(topology, operator.join, shard, step)]
    if not topology.counting:
        told = _told(topology.epoch(engine.epoch).plan, index, shard, step)
        out += [*_values(topology, head, step), *_runs(topology, head, step), *told]
    operator.tidy()
    engine.store(step)
    yield from out
    yield _part(
        shard,
        FrameKind.COUNTERS,
        _place(index, shard, engine.epoch, changes)
        | report(operator, engine.rebuilt, frames)
        | {"seconds": engine.seconds, "came": came},
    )


def attempt() -> dict[str, Any]:
    """The micro-batch that this task belongs to, and the number of the attempt: a later one has a larger number."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    return {"batch": int(batch or 0), "attempt": context.taskAttemptId()}


def _plans(frames: list[Frame]) -> list[Mapping[str, Any]]:
    """The changes of plan that a micro-batch brings, in order."""
    return _control(frames, "plan")


def _control(frames: list[Frame], kind: str) -> list[Mapping[str, Any]]:
    """Messages of one type in the order in which they were sent."""
    found = [f.header for f in frames if f.kind == FrameKind.CONTROL and f.header["type"] == kind]
    return sorted(found, key=lambda message: message["sequence"])


def _place(index: int, shard: int, epoch: int, changes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"join": index, "shard": shard, "epoch": epoch, "changes": changes}


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
    seconds: float = 0.0
    """Of one core, that the operator took for its micro-batch."""

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

    def change(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Go over to another epoch; what that did here."""
        target = self.topology.epoch(message["epoch"])
        join, self.epoch = target.plan.join(self.index), target.number
        if join is None:
            changed = self._leave()
        elif self.operator is None:
            self.memory = self.hot.begin()
            self.operator = Operator(join, self.memory, policy=self.topology.policy)
            changed = self.operator.begin([message["seen"].get(s.name, -FOREVER) for s in join.streams])
        else:
            names = {query.name for query in join.queries}
            changed = self.operator.change(join, {n: c for n, c in target.covered.items() if n in names})
        return {"epoch": self.epoch, **asdict(changed)}

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


def _runs(topology: Topology, head: Mapping[str, Any], step: Step) -> Iterator[Part]:
    """The results as one run, or one run per time range where ranges are merged over all shards."""
    if not len(step.found):
        return
    if topology.global_order:
        runs = dict(enumerate(step.found.split(topology.shards, step.span)))
    else:
        runs = {head["shard"]: step.found.whole()}
    for part, run in runs.items():
        if len(run):
            yield _part(part, FrameKind.RUN, head, run.to_bytes())


def _letters(topology: Topology, shard: int, stream: str, table: pa.Table) -> Part:
    """Dead letters, or where rows are only counted, their number for each class of error."""
    if topology.counting:
        return _part(shard, FrameKind.LETTERS, {"stream": stream, "classes": dead_letters.by_class(table)})
    return _part(shard, FrameKind.LETTERS, {"stream": stream}, table_bytes(table))


def _late(topology: Topology, join: SharedJoin, shard: int, step: Step) -> Iterator[Part]:
    for side in Side:
        rows, stream, other = step.late[side], join.streams[side], join.streams[side.other].name
        if not join.reports[side]:  # late in this join alone: the other streams of a stream are not equally far
            rows = rows.filter(rows[IDLE])
        if rows.num_rows:
            table = dead_letters.late(stream, rows.drop_columns([FRONTIER, IDLE]), rows[FRONTIER], rows[IDLE], other)
            yield _letters(topology, shard, stream.name, table)
        rows = step.ahead[side]
        if join.reports[side] and rows.num_rows:
            table = dead_letters.ahead(stream, rows.drop_columns([LIMIT]), rows[LIMIT], "the other rows")
            yield _letters(topology, shard, stream.name, table)
    for side, rows in step.refused:
        if join.reports[side]:
            table = dead_letters.refused(join.streams[side], rows.drop_columns([REASON]), rows[REASON])
            yield _letters(topology, shard, join.streams[side].name, table)


def _told(plan: Plan, index: int, shard: int, step: Step) -> Iterator[Part]:
    """Punctuations of the queries' outputs."""
    if step.punctuations:
        for name, table in spoken_by(index, step.punctuations, speakers(plan)).items():
            yield _part(shard, FrameKind.PUNCTUATIONS, {"query": name, "join": index}, table_bytes(table))


def _part(part: int, kind: FrameKind, header: Mapping[str, Any], payload: Payload = b"") -> Part:
    return part, encode(kind, {**header, "part": part}, payload)


def _sorted(frames: list[Frame], kind: FrameKind) -> list[Frame]:
    """Frames of a kind in an order that does not depend on how the exchange delivered them."""
    wanted = [f for f in frames if f.kind == kind]
    return sorted(wanted, key=lambda f: tuple(f.header.get(k, 0) for k in ("stream", "partition", "sequence", "piece")))


def arrivals(join: SharedJoin, frames: list[Frame], max_ahead_us: int | None = None) -> Arrivals:
    """What the frames of one micro-batch bring to one shard."""
    left, right = (_side_arrivals(join, side, frames) for side in Side)
    ends = (left[1], right[1]), (left[2], right[2])
    ended, idle = (_named(join, _control(frames, kind)) for kind in ("end", "idle"))
    spans = [_spans(side, frames, max_ahead_us) for side in Side]
    moment = min((f.header["came"] for f in frames if f.kind == FrameKind.ROWS), default=0)
    return Arrivals((left[0], right[0]), *ends, ended, (left[3], right[3]), idle, (spans[0], spans[1]), moment)


def _named(join: SharedJoin, messages: list[Mapping[str, Any]]) -> tuple[bool, bool]:
    """Whether messages name the left and the right stream."""
    names = {name for message in messages for name in message["streams"]}
    return join.streams[0].name in names, join.streams[1].name in names


def _spans(side: Side, frames: list[Frame], max_ahead_us: int | None) -> Spans:
    """The spans of the whole stream, of which each frame tells those of its partition."""
    if max_ahead_us is None:
        return ()
    told = [
        f.header for f in frames if f.kind == FrameKind.ROWS and f.header["side"] == side and f.header["piece"] == 0
    ]
    return united([header["spans"] for header in told], max_ahead_us)


def _side_arrivals(
    join: SharedJoin, side: Side, frames: list[Frame]
) -> tuple[pa.Table, int | None, int | None, Int64s | None]:
    """Rows of one side, the span of the stream in this micro-batch, and its clock where rows are counted."""
    arrived = [f for f in _sorted(frames, FrameKind.ROWS) if f.header["side"] == side]
    ticks = [f for f in _sorted(frames, FrameKind.CLOCK) if f.header["side"] == side]
    starts = np.cumsum([0, *(f.header["rows"] for f in ticks)])
    first = {_origin(f): int(start) for f, start in zip(ticks, starts, strict=False)}
    tables = [row_schema(join, side).empty_table()]
    for frame in arrived:
        if frame.header["rows"]:
            table = frame.table()
            if ticks:
                at = table.column_names.index(ARRIVAL)
                table = table.set_column(at, ARRIVAL, pc.add(table[ARRIVAL], first[_origin(frame)]))
            tables.append(table)
    low = min((f.header["min_ts"] for f in arrived), default=None)
    high = max((f.header["max_ts"] for f in arrived), default=None)
    clock = np.concatenate([f.table()[TS].to_numpy() for f in ticks]) if ticks else None
    return pa.concat_tables(tables), low, high, clock


def _origin(frame: Frame) -> tuple[int, int]:
    """The input rows that a frame was made from."""
    return frame.header["partition"], frame.header["sequence"]


def report(operator: Operator, rebuilt: bool, frames: list[Frame]) -> dict[str, Any]:
    """What status shows of one shard: counters, rows per slice, frontiers (None before the first row), held rows."""
    frontiers = operator.progress.streams.frontiers
    keyless = [
        sum(f.header["keyless"] for f in frames if f.kind == FrameKind.ROWS and f.header["side"] == s) for s in Side
    ]
    return {
        "streams": [stream.name for stream in operator.join.streams],
        "max_ts": operator.progress.streams.max_ts,
        "rebuilt": rebuilt,
        "counters": asdict(operator.counters),
        "slices": [operator.slice_rows(side) for side in Side],
        "frontiers": [None if f == -FOREVER else "ended" if f == FOREVER else f for f in frontiers],
        "keyless": keyless,
        "bytes": operator.nbytes,
        "matches": operator.state.matches,
        "release": operator.release,
        "filter_order": operator.filter_order,
        "ahead": max(operator.joined) > operator.release,
        "idle": operator.progress.streams.idle,
        "behind": int(operator.progress.behind),
        "span": [operator.progress.streams.min_ts, max(operator.progress.streams.max_ts)],
        "classes": [s.tally for s in operator.selections],
        "top_keys": [_top_key(operator, side) for side in Side],
    }


def _top_key(operator: Operator, side: Side) -> dict[str, Any]:
    key = operator.fullest_key(side)
    if key is None:
        return {"rows": 0, "key": {}}
    return {"rows": key.rows, "key": {name: str(value)[:100] for name, value in key.values.items()}}
