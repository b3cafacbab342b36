"""The control stream: messages to a running job as files of its checkpointed input, so that a replay sees them again.

Each message is one file under `CHECKPOINT/control/`, numbered in the order in which they were sent. Its JSON has the
number as `sequence`, the `type` of the message, and the fields of the dataclass of that type.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.core.arrivals import StreamsReached
from muntin.model.records import to_json
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


Message = EndMessage | PlanMessage | IdleMessage | OrderingMessage
TYPES: dict[str, type[Message]] = {
    "end": EndMessage,
    "plan": PlanMessage,
    "idle": IdleMessage,
    "ordering": OrderingMessage,
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
    return tuple(StreamsReached(report.streams, report.max_ts, report.frontiers) for report in joins)


def folder(checkpoint: Path) -> Path:
    return checkpoint / FOLDER


def messages(checkpoint: Path) -> list[Message]:
    """All messages sent so far, in order; none where there is no control stream."""
    return [_read(checkpoint, file) for file in _files(checkpoint)]


def _read(checkpoint: Path, file: Path) -> Message:
    return _message(read_json(file, FileKind.CONTROL, id_if_claimed(checkpoint)), str(file))


def _message(content: dict[str, Any], where: str) -> Message:
    return as_record(content, FileKind.CONTROL, TYPES[content["type"]], where)


def _files(checkpoint: Path) -> list[Path]:
    return sorted(p for p in folder(checkpoint).glob("*.json") if not p.name.startswith((".", "_")))


def send(checkpoint: Path, message: Message) -> None:
    """Append a message; it gets the next sequence number."""
    with _SENDING:
        sequence = max((int(p.stem) for p in _files(checkpoint)), default=0) + 1
        name = next(name for name, made in TYPES.items() if isinstance(message, made))
        content = {"sequence": sequence, "type": name, **to_json(message)}
        target = folder(checkpoint) / f"{sequence:010d}.json"
        write_json(target, FileKind.CONTROL, content, id_if_claimed(checkpoint))


def forget(checkpoint: Path, before: float) -> None:
    """Remove the messages sent before a time. An `end` stays, since a start looks for it, and the last one, since the
    next one's number follows from it."""
    with _SENDING:
        for file in _files(checkpoint)[:-1]:
            if file.stat().st_mtime < before and not isinstance(_read(checkpoint, file), EndMessage):
                file.unlink()


def sent_epochs(checkpoint: Path) -> list[int]:
    """The epochs that messages name."""
    return [message.epoch for message in messages(checkpoint) if isinstance(message, PlanMessage)]


def is_ended(checkpoint: Path) -> bool:
    """Whether an `end` was sent, processed or not."""
    return any(isinstance(message, EndMessage) for message in messages(checkpoint))


def make_folder(checkpoint: Path) -> Path:
    os.makedirs(folder(checkpoint), exist_ok=True)
    return folder(checkpoint)
