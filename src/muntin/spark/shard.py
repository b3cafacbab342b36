"""One shard of one shared join, from the frames of a micro-batch to frames for the sink.

    durable   map state `chunks`: chunk id -> frame of Arrow rows;  value state `meta`: frame of JSON with a nonce
    hot       the Operator itself, in the worker's memory, valid only while its nonce equals the stored one

The state store is the truth. A worker may be killed, may get another shard in the next micro-batch, may run a second
attempt: each write of the meta carries a fresh random nonce, and a hot operator with any other nonce is thrown away and
rebuilt from the chunks.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import pyarrow as pa

from muntin.core.batch import Arrivals, row_schema
from muntin.core.operator import FOREVER, FRONTIER, Operator, Step
from muntin.model import MuntinError, Side
from muntin.plan import SharedJoin
from muntin.spark import letters
from muntin.spark.codec import Frame, Kind, Payload, decode, encode, table_bytes
from muntin.spark.topology import STATE_FORMAT, Topology

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


class HotOperators:
    """Operators kept between micro-batches by this worker process."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[str, Operator]] = {}

    def take(self, checkpoint_id: str, group: int, nonce: str) -> Operator | None:
        """The operator, if it is exactly the one whose state is stored.

        It leaves the cache until it is kept again: an operator whose step failed midway is never reused.
        """
        found = self._kept.pop((checkpoint_id, group), None)
        return found[1] if found and found[0] == nonce else None

    def keep(self, checkpoint_id: str, group: int, nonce: str, operator: Operator) -> None:
        self._kept[checkpoint_id, group] = (nonce, operator)


HOT = HotOperators()


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
        return decode(stored[0], f"the state chunk {name}").table()

    def write(self, step: Step, meta: dict[str, Any]) -> str:
        """Store what the step added and removed; returns the nonce of this state."""
        for name in step.deletes:
            self._chunks.removeKey((name,))
        for name, table in step.puts.items():
            body = table_bytes(table, CHUNK_COMPRESSION)
            self._chunks.updateValue((name,), (encode(Kind.CHUNK, {"id": name}, body),))
        nonce = secrets.token_hex(16)
        self._meta.update((encode(Kind.META, {"format": STATE_FORMAT, "nonce": nonce, "operator": meta}),))
        return nonce


def advance(topology: Topology, group: int, received: Sequence[bytes], state: ShardState) -> Iterator[Part]:
    """One micro-batch of one shard: dead letters pass through, rows go through the operator, its state is stored."""
    join, shard = topology.groups()[group]
    frames = [decode(data, f"a frame for join {join.index}, shard {shard}") for data in received]
    for frame in _sorted(frames, Kind.LETTERS):
        yield _part(shard, Kind.LETTERS, frame.header, frame.payload)
    if all(frame.kind == Kind.LETTERS for frame in frames):
        return
    operator, rebuilt = _operator(topology, join, group, state)
    step = operator.advance(arrivals(join, frames))
    out = [*_results(topology, join, shard, step), *_late(join, shard, step)]
    operator.tidy()
    nonce = state.write(step, operator.meta)
    HOT.keep(topology.checkpoint_id, group, nonce, operator)
    yield from out
    yield _part(shard, Kind.COUNTERS, report(operator, shard, rebuilt, frames))


def _operator(topology: Topology, join: SharedJoin, group: int, state: ShardState) -> tuple[Operator, bool]:
    """The hot operator, or one rebuilt from the chunks (True), or a new one."""
    stored = state.meta()
    if stored is None:
        return Operator(join), False
    hot = HOT.take(topology.checkpoint_id, group, stored["nonce"])
    if hot is not None:
        return hot, False
    return Operator.restore(join, stored["operator"], state.chunks(stored["operator"]["chunks"])), True


def _results(topology: Topology, join: SharedJoin, shard: int, step: Step) -> Iterator[Part]:
    """The results as one run, or one run per time range where ranges are merged over all shards."""
    if not len(step.run):
        return
    if topology.global_order:
        runs = dict(enumerate(step.run.split(topology.shards, step.span)))
    else:
        runs = {shard: step.run.whole()}
    for part, run in runs.items():
        if len(run):
            yield _part(part, Kind.RUN, {"join": join.index, "shard": shard}, run.to_bytes())


def _late(join: SharedJoin, shard: int, step: Step) -> Iterator[Part]:
    for side in Side:
        rows, stream = step.late[side], join.streams[side]
        if join.reports[side] and rows.num_rows:
            table = letters.late(stream, rows.drop_columns([FRONTIER]), rows[FRONTIER])
            yield _part(shard, Kind.LETTERS, {"stream": stream.name}, table_bytes(table))


def _part(part: int, kind: Kind, header: Mapping[str, Any], payload: Payload = b"") -> Part:
    return part, encode(kind, {**header, "part": part}, payload)


def _sorted(frames: list[Frame], kind: Kind) -> list[Frame]:
    """Frames of a kind in an order that does not depend on how the exchange delivered them."""
    wanted = [f for f in frames if f.kind == kind]
    return sorted(wanted, key=lambda f: tuple(f.header.get(k, 0) for k in ("stream", "partition", "sequence", "piece")))


def arrivals(join: SharedJoin, frames: list[Frame]) -> Arrivals:
    """What the frames of one micro-batch bring to one shard."""
    arrived = _sorted(frames, Kind.ROWS)
    sides = [[f for f in arrived if f.header["side"] == side] for side in Side]
    tables = [
        pa.concat_tables(
            [row_schema(join.streams[s]).empty_table(), *(f.table() for f in sides[s] if f.header["rows"])]
        )
        for s in Side
    ]
    lows = [min((f.header["min_ts"] for f in sides[s]), default=None) for s in Side]
    highs = [max((f.header["max_ts"] for f in sides[s]), default=None) for s in Side]
    ends = [f.header for f in frames if f.kind == Kind.CONTROL and f.header["type"] == "end"]
    over = {name for end in ends for name in end["streams"]}
    ended = [join.streams[s].name in over for s in Side]
    return Arrivals(
        (tables[0], tables[1]),
        (lows[0], lows[1]),
        (highs[0], highs[1]),
        (ended[0], ended[1]),
    )


def report(operator: Operator, shard: int, rebuilt: bool, frames: list[Frame]) -> dict[str, Any]:
    """What status shows of one shard: counters, rows per slice, frontiers (None before the first row), held rows."""
    frontiers = [operator.frontier(side) for side in Side]
    keyless = [sum(f.header["keyless"] for f in frames if f.kind == Kind.ROWS and f.header["side"] == s) for s in Side]
    return {
        "join": operator.join.index,
        "shard": shard,
        "rebuilt": rebuilt,
        "counters": asdict(operator.counters),
        "slices": [operator.slice_rows(side) for side in Side],
        "frontiers": [None if f == -FOREVER else "ended" if f == FOREVER else f for f in frontiers],
        "keyless": keyless,
    }
