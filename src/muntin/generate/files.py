"""Streams as Parquet files whose order (name and modification time) is the order of arrival."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.kernels.arrays import Int64s
from muntin.model import UsageError

FIRST_MODIFIED = 1_700_000_000
"""Modification time of the first file, in seconds: a file source sorts by it, so it must not depend on the disk."""


@dataclass(frozen=True)
class Generated:
    """What was written: the folder and the number of rows of each stream, and the job file with its text."""

    streams: Mapping[str, Path]
    rows: Mapping[str, int]
    job: Path
    job_sql: str


def refuse_used(folder: Path) -> None:
    """Files of two runs in one folder would be read as one stream: nothing is written where something lies."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="name a new folder, or remove this one first")


def quoted(path: Path) -> str:
    """A path as it stands in a string of a job file."""
    return str(path.resolve()).replace("'", "''")


def write_stream(folder: Path, table: pa.Table, arrivals: Int64s, duration_us: int, files: int) -> None:
    """Cut a stream into `files` equal stretches of arrival time, one file each.

    Stretches of time rather than equal numbers of rows: file i of every stream covers the same minutes, so that streams
    of different rates stay side by side when they are played file by file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order = np.argsort(arrivals, kind="stable")
    table = table.take(pa.array(order))
    edges = np.arange(1, files) * (duration_us / files)
    cuts = [0, *np.searchsorted(arrivals[order], edges), len(arrivals)]
    for number in range(files):
        part = table.slice(cuts[number], cuts[number + 1] - cuts[number])
        _write(folder / f"{number:05d}.parquet", part, FIRST_MODIFIED + number)


def _write(path: Path, part: pa.Table, modified: int) -> None:
    """A file appears whole or not at all, since a running job may be watching the folder."""
    hidden = path.with_name(f".{path.name}.tmp")
    pq.write_table(part, hidden)
    os.utime(hidden, (modified, modified))
    hidden.rename(path)
