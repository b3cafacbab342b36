"""Spark's checkpoint of a stopped streaming query, as the stand-in keeps it: what a rescale reads and makes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.spark.run import Rescaled, rescale, spark_checkpoint
from whole_way.stand_in import DataFrame, Session
from whole_way.tasks import MicroBatch, Records, Work

CHUNKS = pa.schema([("gid", pa.int32()), ("id", pa.string()), ("frame", pa.binary())])


class Stored:
    """The chunks of all groups, a partition for each."""

    def __init__(self, session: Session, folder: Path):
        self._state = session.checkpoints[str(folder)].state

    def sources(self) -> list[Any]:
        return []

    def run(self, work: Work, first: int) -> list[Records]:
        return [
            [pa.RecordBatch.from_pylist([{"gid": gid, "id": key[0], "frame": value[0]}], CHUNKS)
             for key, value in entries.items()]
            for gid, (entries, _) in self._state.items()
        ]  # fmt: skip


class Written(DataFrame):
    """A DataFrame that is no stream: it can be written."""

    def mapInArrow(self, function: Any, ddl: str) -> Written:
        mapped = super().mapInArrow(function, ddl)
        return Written(mapped.session, mapped.plan)

    @property
    def write(self) -> Written:
        return self

    def parquet(self, folder: str) -> None:
        Path(folder).mkdir()
        parts = self.plan.run(Work(self.session, MicroBatch(0, {}, 0), {}), 0)
        for n, part in enumerate(parts):
            if part:
                pq.write_table(pa.Table.from_batches(part), Path(folder) / f"part-{n}.parquet")


def carry_offsets(session: Session, old: Path, new: Path) -> None:
    """What was committed counts as read in one micro-batch; the messages of the control stream are others."""
    before = session.checkpoints[str(old)]
    files: dict[str, list[int]] = {}
    for batch in before.offsets[: before.committed + 1]:
        for source, numbers in batch.files.items():
            if not source.startswith("lines of"):
                files.setdefault(source, []).extend(numbers)
    session.checkpoints[str(new)].offsets = [MicroBatch(0, files, 0)]


@contextlib.contextmanager
def stands_still(session: Session) -> Iterator[None]:
    """Let the stand-in be read while no query runs."""

    def small_states(_: Any, folder: Path) -> Iterator[tuple[int, bytes]]:
        yield from ((gid, value[0]) for gid, (_, value) in session.checkpoints[str(folder)].state.items() if value)

    seed = spark_checkpoint.seed

    def seeded(spark: Any, old: Path, new: Path, *rest: Any) -> int:
        session.checkpoints.pop(str(new), None)  # what an attempt had left there is gone with the folder
        return seed(spark, old, new, *rest)

    with (
        mock.patch.object(spark_checkpoint, "seed", seeded),
        mock.patch.object(spark_checkpoint, "small_states", small_states),
        mock.patch.object(spark_checkpoint, "chunks", lambda _, folder: Written(session, Stored(session, folder))),
        mock.patch.object(spark_checkpoint, "carry_offsets", lambda old, new: carry_offsets(session, old, new)),
    ):
        yield


def rescaled(session: Session, checkpoint: Path, shards: int) -> Rescaled:
    """A rescale on the stand-in."""
    with stands_still(session):
        return rescale(session, checkpoint, shards)  # type: ignore[arg-type]
