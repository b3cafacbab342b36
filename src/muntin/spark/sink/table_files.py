"""Files of rows that tasks write straight into the place of a lake table: nobody sees them until a commit adopts them.

    TABLE/b0000001/b0000001234-000-2024-01-31-5f0c.parquet    micro-batch, part, day, attempt

A place is a folder, or a URI of whatever Arrow can write to. Keys and endpoints come from the environment
(`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_ENDPOINT_URL`, ...), so they stand in no job file or checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from muntin.core.results import OUTPUT_TS
from muntin.spark.checkpoint import Staged, TableFile
from muntin.spark.sink.parquet import write_parquet
from muntin.spark.sink.sink import Stager

DAY_US = 86_400_000_000
IN_FOLDER = 1000
"""Micro-batches that share a folder: a start looks at two folders, not at all that was ever written."""


def whole_place(text: str) -> str:
    """A place as it is told apart from others: a path of this machine as an absolute one, a URI without its end."""
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    return os.path.abspath(text) if "://" not in text else text.rstrip("/")


def storage(place: str) -> tuple[fs.FileSystem, str]:
    """The file system of a whole place, and the path there."""
    scheme, found, path = place.partition("://")
    if not found:
        return fs.LocalFileSystem(), place
    if scheme in ("s3", "s3a"):
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return fs.S3FileSystem(endpoint_override=os.environ.get("AWS_ENDPOINT_URL"), region=region), path
    return fs.FileSystem.from_uri(place)


def load_parquet(place: str) -> pa.Table:
    """All rows of a Parquet file or a folder of them."""
    system, root = storage(place)
    return pq.read_table(root, filesystem=system, partitioning=None)


def batch_folder(prefix: str, batch: int) -> str:
    return f"{prefix}{batch // IN_FOLDER:07d}"


@dataclass(frozen=True)
class StageTableFiles(Stager):
    """Rows become files in the places of tables, a file for each day of output timestamps."""

    places: Mapping[str, str]
    """By the name that the rows bear."""
    prefix: str
    batch: int
    attempt: str
    takes_tables: ClassVar[bool] = True

    def stage(self, name: str, part: int, table: pa.Table) -> Staged | None:
        system, root = storage(self.places[name])
        files = []
        for day, rows in by_day(table):
            named = [f"{self.prefix}{self.batch:010d}", f"{part:03d}", *([day] if day else []), self.attempt]
            path = f"{batch_folder(self.prefix, self.batch)}/{'-'.join(named)}.parquet"
            files.append(TableFile(path, _write(system, f"{root}/{path}", rows), rows.num_rows, day, _span(rows)))
        return Staged(name, part, table.num_rows, files=files)


def _write(system: fs.FileSystem, path: str, rows: pa.Table) -> int:
    if isinstance(system, fs.LocalFileSystem):
        system.create_dir(os.path.dirname(path), recursive=True)
    with system.open_output_stream(path) as stream:
        write_parquet(rows, stream)
        return int(stream.tell())


def by_day(table: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
    """The rows of each day of output timestamps, in their order; all at once where they have none."""
    if OUTPUT_TS.name not in table.column_names:
        yield None, table
        return
    days = table[OUTPUT_TS.name].cast(pa.int64()).to_numpy() // DAY_US
    for day in np.unique(days):
        same = days == day
        yield str(np.datetime64(int(day), "D")), table if same.all() else table.filter(pa.array(same))


def _span(rows: pa.Table) -> tuple[int, int] | None:
    if OUTPUT_TS.name not in rows.column_names:
        return None
    times = rows[OUTPUT_TS.name].cast(pa.int64()).to_numpy()
    return int(times.min()), int(times.max())


def sweep(place: str, prefix: str, committed: int, adopted: Collection[str]) -> list[str]:
    """Remove files of the last micro-batch that was committed and of the one after it that are not adopted."""
    system, root = storage(place)
    removed = []
    for batch in (committed, committed + 1):
        selector = fs.FileSelector(f"{root}/{batch_folder(prefix, batch)}", allow_not_found=True)
        for found in system.get_file_info(selector):
            path = f"{batch_folder(prefix, batch)}/{found.base_name}"
            if found.base_name.startswith(f"{prefix}{batch:010d}-") and path not in adopted:
                system.delete_file(found.path)
                removed.append(path)
    return removed


def remove(place: str, paths: Collection[str]) -> None:
    """Remove files that nothing has adopted."""
    system, root = storage(place)
    for path in paths:
        system.delete_file(f"{root}/{path}")
