"""The control stream: messages to a running job as files of its checkpointed input, so that a replay sees them again.

A message is a JSON object with a "type", one file each under `CHECKPOINT/control/`, numbered in the order in which they
were sent:

    end    the named streams will bring nothing more
    plan   from here on the plan of an epoch is in force (`plans.py`)
    idle, ordering   what the driver has noticed (`watch.py`)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.spark.checkpoint import FileKind, from_line, id_if_claimed, read_json, read_manifests, write_json
from muntin.spark.exchange import FrameKind, Topology, encode
from muntin.spark.ingest import Packed, as_batches

FOLDER = "control"
NAME = "_control"
"""Where it stands beside the streams, for example in status."""


_SENDING = threading.Lock()
"""Several threads of a run send messages, and each has to find its number."""


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
        message = from_line(line.encode(), FileKind.CONTROL, None, topology.checkpoint_id, where)
        epoch = message["epoch"] if message["type"] == "plan" else topology.latest()
        if message["type"] == "plan" and topology.checkpoint is not None:
            message["seen"] = seen_before(Path(topology.checkpoint), epoch)
        frame = encode(FrameKind.CONTROL, message)
        for group in topology.groups({max(0, epoch - 1), epoch}):
            yield group, frame


def seen_before(checkpoint: Path, epoch: int) -> dict[str, int]:
    """How far each stream had come when an epoch began, for joins that begin with it: what is late for others is late
    for them. The last commit says so, unless it is that of this very micro-batch, which is then a replay."""
    for manifest in read_manifests(checkpoint):
        reports = [report for report in manifest.reports.values() if report.epoch < epoch]
        if len(reports) == len(manifest.reports):
            return {name: ts for r in reports for name, ts in zip(r.streams, r.max_ts, strict=True)}
    return {}


def folder(checkpoint: Path) -> Path:
    return checkpoint / FOLDER


def messages(checkpoint: Path) -> list[dict[str, Any]]:
    """All messages sent so far, in order."""
    return [_read(checkpoint, file) for file in _files(checkpoint)]


def _read(checkpoint: Path, file: Path) -> dict[str, Any]:
    return dict(read_json(file, FileKind.CONTROL, id_if_claimed(checkpoint)))


def _files(checkpoint: Path) -> list[Path]:
    return sorted(p for p in folder(checkpoint).glob("*.json") if not p.name.startswith((".", "_")))


def send(checkpoint: Path, message: dict[str, Any]) -> dict[str, Any]:
    """Append a message; it gets the next sequence number."""
    with _SENDING:
        sequence = max((int(p.stem) for p in _files(checkpoint)), default=0) + 1
        numbered = {"sequence": sequence, **message}
        target = folder(checkpoint) / f"{sequence:010d}.json"
        write_json(target, FileKind.CONTROL, numbered, id_if_claimed(checkpoint))
        return numbered


def send_plan(checkpoint: Path, epoch: int) -> None:
    send(checkpoint, {"type": "plan", "epoch": epoch})


def forget(checkpoint: Path, before: float) -> None:
    """Remove the messages sent before a time; but an `end`, which may be asked for, and the last, for the next one's
    number."""
    with _SENDING:
        for file in _files(checkpoint)[:-1]:
            if file.stat().st_mtime < before and _read(checkpoint, file)["type"] != "end":
                file.unlink()


def send_end(checkpoint: Path, streams: list[str]) -> None:
    send(checkpoint, {"type": "end", "streams": streams})


def is_ended(checkpoint: Path) -> bool:
    """Whether an `end` was sent, processed or not."""
    return folder(checkpoint).is_dir() and any(m["type"] == "end" for m in messages(checkpoint))


def make_folder(checkpoint: Path) -> Path:
    os.makedirs(folder(checkpoint), exist_ok=True)
    return folder(checkpoint)
