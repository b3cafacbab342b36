"""Fewer, larger files in the folders of an output, while its job is stopped: `muntin compact OUTPUT`.

    before  b0000000001-000 b0000000001-001 b0000000002-000 b0000000003-000     of one or more micro-batches each
    after   b0000000001-0000000002          b0000000003-000                     the first and the last of them

Neighbours are merged in the order of their names, so names still sort in output order. The last micro-batches stay as
they are: a start compares their files with the manifests, and readers that follow the output have not read them yet.

A folder is built anew aside, with links to what stays, and takes the place of the old one in one step. So whoever lists
it sees the old files or the new ones, never both. Who has a file open reads on.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.model import MuntinError
from muntin.spark.store import crash_points, sync_file, sync_folder

NAME = re.compile(r"((?:[ap]\d{3}-)?b)(\d{10})-(\d{3}|\d{10})\.parquet")
"""A published file: prefix, micro-batch, and its part; or the first micro-batch and the last of a merged one."""
MERGED = 10
"""Digits of the last number of a merged file."""
ASIDE = "compact-"
AT_CWD, EXCHANGE = -100, 2
"""Of Linux' renameat2: paths are relative to where we are; both names are there, and change places."""


@dataclass(frozen=True)
class Compacted:
    """What became of the files of a query."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class RowFile:
    """A file of rows by its name, whose form is that of `NAME`."""

    name: str
    size: int
    stays: bool
    """Whether it is to be left alone."""
    schema: Callable[[], pa.Schema]

    @property
    def batch(self) -> str:
        """Its micro-batch, the first one of a merged file."""
        return self.name.partition(".")[0].rpartition("-")[0]


def merged_name(run: Sequence[RowFile]) -> str:
    """The name of what files become, after the first micro-batch and the last."""
    first, last = NAME.fullmatch(run[0].name), NAME.fullmatch(run[-1].name)
    assert first is not None and last is not None
    end = last[3] if len(last[3]) == MERGED else last[2]
    return f"{first[1]}{first[2]}-{end}.parquet"


def runs(files: Sequence[RowFile], least: int) -> Iterator[list[RowFile]]:
    """Micro-batches of one pipeline whose files, in order of their names, are all small and have the same columns, each
    run about as large as asked. A micro-batch is merged whole or not at all: only so do names sort as before."""
    run: list[RowFile] = []
    for _, group in groupby(files, key=lambda file: file.batch):
        parts = list(group)
        small = not any(file.stays or file.size >= least for file in parts)
        fits = small and all(_alike((run or parts)[0], file) for file in parts)
        if run and (not fits or sum(file.size for file in run) >= least):
            yield run
            run = []
        if small:
            run = [*run, *parts]
    yield run


def _alike(one: RowFile, other: RowFile) -> bool:
    prefixes = {found[1] for file in (one, other) if (found := NAME.fullmatch(file.name)) is not None}
    return len(prefixes) == 1 and one.schema().equals(other.schema())


def compact_folder(output: Path, name: str, kept: Collection[str], least: int) -> Compacted:
    """Merge neighbours in a query's folder that are smaller than `least` bytes; `kept` are files that stay."""
    folder = output / name
    found = [
        RowFile(file.name, file.stat().st_size, f"{name}/{file.name}" in kept, partial(pq.read_schema, file))
        for file in sorted(folder.iterdir())
        if NAME.fullmatch(file.name)
    ]
    merges = [run for run in runs(found, least) if len(run) > 1]
    if merges:
        _replace(output, folder, merges)
    return Compacted(name, len(found), len(found) - sum(len(run) - 1 for run in merges))


def _replace(output: Path, folder: Path, merges: list[list[RowFile]]) -> None:
    aside = output / "_staging" / f"{ASIDE}{uuid.uuid4().hex[:12]}" / folder.name
    aside.mkdir(parents=True)
    try:
        gone = {file.name for run in merges for file in run}
        for file in folder.iterdir():
            if file.is_file() and file.name not in gone:
                os.link(file, aside / file.name)
        for run in merges:
            merge([folder / file.name for file in run], aside / merged_name(run))
            sync_file(aside / merged_name(run))  # what it replaces goes
        sync_folder(aside)
        with crash_points.durable("compaction"):
            _exchange(folder, aside)
        for left in [path for path in aside.iterdir() if path.is_dir()]:
            left.rename(folder / left.name)
    finally:
        sweep_aside(output)


def sweep_aside(output: Path) -> None:
    """Remove what a compaction left that died: the folders inside of one that was exchanged go back first."""
    for aside in (output / "_staging").glob(f"{ASIDE}*"):
        for inner in aside.glob("*/*/"):
            if not (output / inner.parent.name / inner.name).exists():
                inner.rename(output / inner.parent.name / inner.name)
        shutil.rmtree(aside, ignore_errors=True)


def merge(files: Sequence[Path | pa.NativeFile], target: Path | pa.NativeFile) -> None:
    """One file of the rows of others, in their order."""
    tables = (pq.read_table(file, partitioning=None, page_checksum_verification=True) for file in files)
    first = next(tables)
    texts = [f.name for f in first.schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    options = {"compression": "snappy", "use_dictionary": texts or False, "write_page_checksum": True}
    with pq.ParquetWriter(target, first.schema, **options) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change places in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    rename = getattr(libc, "renameat2", None)
    done = -1 if rename is None else rename(AT_CWD, os.fsencode(one), AT_CWD, os.fsencode(other), EXCHANGE)
    if done != 0:
        why = os.strerror(ctypes.get_errno()) if rename is not None else "this system has no renameat2"
        raise MuntinError(
            f"{one} cannot be exchanged in one step: {why}",
            hint="compact on a local file system of Linux, or write Delta tables: `--output delta:URI`",
        )
