"""Parquet files in an object store, exactly once: the sink of `--output s3://BUCKET/DIR`.

Tasks put files under names that no other attempt has. The commit puts one entry into `_log`, which makes the rows of a
micro-batch visible for all queries at once; `muntin.read` reads by it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from muntin.model import Query, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.checkpoint import Fingerprint, ObjectPublisher, Publisher, Staged
from muntin.spark.sink.compaction import Compacted
from muntin.spark.sink.parquet import beside_rows, check_columns, parquet_bytes, rows_of, show_schema
from muntin.spark.sink.sink import OutputRequest, Sink, Stager
from muntin.spark.store import Location, ObjectPath, is_uri, locate

MERGE_INSTEAD = "take larger micro-batches, or write Delta tables: `output=` with delta:URI"


@dataclass(frozen=True)
class PutObjects(Stager):
    """Tables become objects, which count once the log names them."""

    output: ObjectPath
    begins: str
    """The prefix of the pipeline and the number of the micro-batch."""
    takes_tables: ClassVar[bool] = True

    def stage(self, name: str, part: int, table: pa.Table) -> Staged | None:
        data = parquet_bytes(table)
        path = f"{name}/{self.begins}-{part:03d}-{uuid.uuid4().hex[:12]}.parquet"
        self.output.store.put(self.output / path, data)
        return Staged(name, part, table.num_rows, path, fingerprint=Fingerprint.of_bytes(data))


class ParquetObjects(Sink):
    name = "parquet objects"
    spelling = "s3://BUCKET/DIR"
    noun = "Parquet files in an object store"
    summary = "the same in an object store; read them with muntin.read, which knows what is committed"
    exactly_once = True
    takes_eager = False
    objects: ObjectPath

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        place = locate(request.output or "")
        assert isinstance(place, ObjectPath)
        self.objects = place
        self._shown: dict[str, pa.Schema] = {}
        """The columns that each folder shows its readers, as far as this run has written them."""

    def check_settings(self, settings: Settings) -> None:
        if settings.min_file_size_bytes is not None:
            raise UsageError(
                f"{self.objects} is in an object store, where files are not merged: min_file_size has no effect",
                hint=MERGE_INSTEAD,
            )

    def compact(self, queries: Sequence[str], least: int, checkpoint: Path | None) -> list[Compacted]:
        raise UsageError(f"{self.objects} is in an object store, where files are not merged", hint=MERGE_INSTEAD)

    @classmethod
    def takes(cls, request: OutputRequest) -> bool:
        return is_object_uri(request.output)

    @property
    def description(self) -> str:
        return str(self.objects)

    def default_checkpoint(self) -> str:
        return f"{self.objects}/_checkpoint"

    def check(self, query: Query) -> None:
        check_columns(self.objects, query)

    def prepare(self, plan: Plan, settings: Settings) -> None:
        for name, schema in (rows_of(plan, None) | beside_rows(plan, settings)).items():
            if self._shown.get(name) != schema:
                show_schema(self.objects / name, schema)
                self._shown[name] = schema

    def open_publisher(self, checkpoint: Location, prefix: str = "") -> Publisher:
        return ObjectPublisher(checkpoint, self.objects, prefix)

    def stager(self, batch: int) -> Stager:
        return PutObjects(self.objects, f"{self.publisher.prefix}{batch:010d}")


def is_object_uri(text: str | None) -> bool:
    """Whether an output is the URI of an object store that we know."""
    return text is not None and is_uri(text) and isinstance(locate(text), ObjectPath)
