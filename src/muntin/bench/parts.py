"""Where our part of a micro-batch's time goes: ingest, operator and sink in this process, with nothing of Spark around.

The same functions that Spark's tasks call, over the files of a workload; state calls go to a dictionary. Seconds are of
one core, medians over the micro-batches after the largest window is full. What a micro-batch on Spark takes beyond
that, divided by the cores, is Spark's: planning, tasks, reading the files, exchanges, state store, commits.
"""

from __future__ import annotations

import secrets
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from muntin.bench.workload import Workload
from muntin.core.policy import Policy
from muntin.plan import make_plan
from muntin.spark.checkpoint import Publisher
from muntin.spark.exchange import Topology, decode
from muntin.spark.ingest import packing
from muntin.spark.shard import ShardState, forget_hot, shard
from muntin.spark.sink import OutputRequest, SinkTask, open_sink
from muntin.sql import parse_job

RECORDS = 32_768
"""Rows in an Arrow batch, as Spark hands them over."""


class Cells:
    """What a shard uses of Spark's map state and value state."""

    def __init__(self) -> None:
        self.held: dict[Any, Any] = {}
        self.written = 0

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self.held.get(key)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self.held[key] = value
        self.written += len(value[0])

    def removeKey(self, key: tuple[Any, ...]) -> None:
        self.held.pop(key, None)

    def get(self) -> tuple[Any, ...] | None:
        return self.getValue(())

    def update(self, newValue: tuple[Any, ...]) -> None:
        self.updateValue((), newValue)


class Rehearsal:
    """A job without Spark, one micro-batch after the other, each step timed."""

    def __init__(self, load: Workload, folder: Path, layouts: Sequence[str], shards: int):
        spec = parse_job(load.job_sql(folder, "parquet"))
        self._folder, self._layouts, output = folder, layouts, bool(layouts)
        policy = Policy.of(spec.settings, shards)
        self.topology = Topology(make_plan(spec), shards, True, secrets.token_hex(8), policy, counting=not output)
        self._cells = [(Cells(), Cells()) for _ in range(shards)]
        self.seen: list[dict[str, float]] = []

    def take(self, batch: int) -> None:
        self._now: dict[str, float] = defaultdict(float)
        frames: dict[int, list[bytes]] = defaultdict(list)
        for stream in self.topology.plan.streams:
            table = pq.read_table(self._folder / "parquet" / stream.name / f"{batch:05d}.parquet")
            with self._timed("ingest_s"):
                for gathered in packing.gather(table.to_batches(RECORDS)):
                    for group, frame in packing.pack(self.topology, stream, gathered, 0, 0):
                        frames[group].append(frame)
        self._now["exchanged_in_mb"] = sum(len(f) for many in frames.values() for f in many) / 1e6
        parts: dict[int, list[bytes]] = defaultdict(list)
        for n, (chunks, meta) in enumerate(self._cells):
            before = chunks.written + meta.written
            group = self.topology.group(0, n)
            with self._timed("operator_s"):
                for part, frame in shard.advance(self.topology, group, frames[group], ShardState(chunks, meta)):
                    parts[part].append(frame)
            self._now["state_written_mb"] += (chunks.written + meta.written - before) / 1e6
        self._now["exchanged_out_mb"] = sum(len(f) for many in parts.values() for f in many) / 1e6
        turn = batch % max(1, len(self._layouts))
        for layout in [*self._layouts[turn:], *self._layouts[:turn]]:
            self._write(layout, parts)
        self.seen.append(dict(self._now))

    def _write(self, layout: str, parts: Mapping[int, list[bytes]]) -> None:
        """What the tasks of the sink do, into a folder that then goes."""
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            sink = open_sink(OutputRequest(f"{scratch}/out", layout=layout))
            task = SinkTask(self.topology, sink.attached(0, Publisher(Path(scratch, "ckpt"), sink.folder)).stager(0))
            for many in parts.values():
                with self._timed(f"sink_{layout}_s"):
                    for _ in task.messages([decode(frame, "a frame") for frame in many]):
                        pass
            written = [file.stat().st_size for file in Path(scratch, "out").rglob("*.parquet")]
            self._now[f"written_{layout}_mb"] = sum(written) / 1e6

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self._now[what] += time.process_time() - began


def parts(load: Workload, folder: Path, layouts: Sequence[str], shards: int = 2) -> dict[str, float]:
    """Core seconds and megabytes of a micro-batch in the steady state; without layouts, rows are counted.

    Layouts of the output write the same results, one after the other, with each micro-batch another one first.
    """
    rehearsal = Rehearsal(load, folder, layouts, shards)
    try:
        for batch in range(load.batches):
            rehearsal.take(batch)
    finally:
        forget_hot(rehearsal.topology.checkpoint_id)
    steady = rehearsal.seen[load.warm :]
    return {name: statistics.median(seen[name] for seen in steady) for name in steady[0]}
