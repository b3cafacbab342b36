"""The control stream: messages to a running job as files of its checkpointed input, so that a replay sees them again.

Each message is one file under `CHECKPOINT/control/`, numbered in the order in which they were sent. Its JSON has the
number as `sequence`, the `type` of the message, and the fields of the dataclass of that type.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.core.arrivals import HeavyKey, StreamsReached
from muntin.model.records import to_json
from muntin.plan.cost import Constants
from muntin.spark.checkpoint import (
    FileKind,
    Manifest,
    as_record,
    from_line,
    id_if_claimed,
    read_json,
    write_json,
)
from muntin.spark.exchange import FrameKind, Topology, briefing, encode
from muntin.spark.ingest import Packed, as_batches
from muntin.spark.store import Location, crash_points, spark_half, store_of

FOLDER = "control"
NAME = "_control"
"""Where it stands beside the streams, for example in status."""


_SENDING = threading.Lock()
"""Several threads of a run send messages, and each has to find its number."""


@dataclass(frozen=True)
class EndMessage:
    """The named streams will bring nothing more."""

    streams: list[str]


@dataclass(frozen=True)
class PlanMessage:
    """From here on the plan of an epoch is in force (`plans.py`)."""

    epoch: int


@dataclass(frozen=True)
class IdleMessage:
    """The named streams have been silent for as long as they declare; each is awake again with its next row."""

    streams: list[str]


@dataclass(frozen=True)
class OrderingMessage:
    """A join goes over to Filter-Order, or back to Sync-Filter (hammad2005 6)."""

    join: int
    filter_order: bool


@dataclass(frozen=True)
class WorkMessage:
    """How much work a micro-batch does, with all that the place depends on where it stops (core/schedule/limits.py).

    `until` has, by the number of the join, the event time up to which rows have waited for long enough.
    """

    limit_ns: int | None
    until: dict[str, int]
    scheduler: str
    constants: Constants


@dataclass(frozen=True)
class HotKeysMessage:
    """Rows of some keys of a join visit every shard from now on, and those of others no more."""

    join: int
    hot: list[HeavyKey]
    cool: list[HeavyKey]


Message = EndMessage | PlanMessage | IdleMessage | OrderingMessage | WorkMessage | HotKeysMessage
TYPES: dict[str, type[Message]] = {
    "end": EndMessage,
    "plan": PlanMessage,
    "idle": IdleMessage,
    "ordering": OrderingMessage,
    "work": WorkMessage,
    "hot_keys": HotKeysMessage,
}


@dataclass(frozen=True)
class ControlIngest:
    """The task function of the control stream, for `mapInArrow`: every operator gets every message."""

    topology: Topology

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lines = [line for batch in batches for line in batch.column(0).to_pylist() if line and line.strip()]
        yield from as_batches(copies(self.topology, lines))


def copies(topology: Topology, lines: list[str]) -> Iterator[Packed]:
    """One frame per message and operator that it concerns: a change of plan those that are there before it or after."""
    for line in lines:
        where = f"a message in {FOLDER}/ of the checkpoint"
        header = from_line(line.encode(), FileKind.CONTROL, None, topology.checkpoint_id, where)
        message, epoch = _message(header, where), topology.latest()
        if isinstance(message, PlanMessage):
            epoch = message.epoch
            header["seen"] = to_json(briefing().reached)
        frame = encode(FrameKind.CONTROL, header)
        for group in topology.groups({max(0, epoch - 1), epoch}):
            yield group, frame


def streams_reached(manifest: Manifest) -> tuple[StreamsReached, ...]:
    """How far the streams of each join have come with a commit, for joins that begin after it: what is late for others
    is late for them."""
    joins = {report.join: report for report in manifest.reports.values()}.values()
    return tuple(StreamsReached(r.streams, r.max_ts, r.frontiers, r.own_frontiers) for r in joins)


def folder(checkpoint: Location) -> Location:
    return spark_half(checkpoint) / FOLDER


def messages(checkpoint: Location) -> list[Message]:
    """All messages sent so far, in order; none where there is no control stream."""
    return [_read(checkpoint, file) for file in _files(checkpoint)]


def _read(checkpoint: Location, file: Location) -> Message:
    return _message(read_json(file, FileKind.CONTROL, id_if_claimed(checkpoint)), str(file))


def _message(content: dict[str, Any], where: str) -> Message:
    return as_record(content, FileKind.CONTROL, TYPES[content["type"]], where)


def _files(checkpoint: Location) -> list[Location]:
    place = folder(checkpoint)
    return [file for file in store_of(place).files(place) if file.name.endswith(".json") and file.name[0] != "_"]


def send(checkpoint: Location, message: Message) -> None:
    """Append a message; it gets the next sequence number."""
    with _SENDING:
        sequence = last_number(checkpoint) + 1
        name = next(name for name, made in TYPES.items() if isinstance(message, made))
        content = {"sequence": sequence, "type": name, **to_json(message)}
        target = folder(checkpoint) / f"{sequence:010d}.json"
        write_json(target, FileKind.CONTROL, content, id_if_claimed(checkpoint))


def last_number(checkpoint: Location) -> int:
    """The number of the last message; 0 where there is none."""
    return max((int(file.stem) for file in _files(checkpoint)), default=0)


def forget(checkpoint: Location, last: int) -> None:
    """Remove the messages up to a number. An `end` stays, since a start looks for it, and the very last one, since the
    next one's number follows from it."""
    with _SENDING:
        for file in _files(checkpoint)[:-1]:
            if int(file.stem) <= last and not isinstance(_read(checkpoint, file), EndMessage):
                with crash_points.durable("old messages removed"):
                    store_of(file).remove(file)


def sent_epochs(checkpoint: Location) -> list[int]:
    """The epochs that messages name."""
    return [message.epoch for message in messages(checkpoint) if isinstance(message, PlanMessage)]


def is_ended(checkpoint: Location) -> bool:
    """Whether an `end` was sent, processed or not."""
    return any(isinstance(message, EndMessage) for message in messages(checkpoint))


def make_folder(checkpoint: Location) -> Location:
    """The folder, there for Spark to look into where there are folders."""
    place = folder(checkpoint)
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
    return place
