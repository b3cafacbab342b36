"""Fewer, larger files in an Iceberg table, also while its job runs.

One snapshot takes the small files out and the merged ones in: rows move, none come or go. Who reads an older snapshot
reads on, with the files that it names. Only files that a job wrote are merged, each day by itself, and none that has
rows which somebody deleted.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from muntin.spark.sink.compaction import RowFile, merge, merged_name, runs
from muntin.spark.sink.table_files import remove, storage, whole_place

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

OURS = re.compile(r"((?:[ap]\d{3}-)?b\d{10}-(?:\d{3}|\d{10}))-.*\.parquet")
"""The name of a file that a task wrote, or that was merged: how it begins is as in the folder of a query."""
FOLDER = "merged"
"""Where merged files lie: a start that takes away what no micro-batch has does not look there."""


def compact_table(table: Table, least: int) -> tuple[int, int]:
    """Merge files below `least` bytes; how many there were, and are."""
    merges, before = list(_merges(table, least)), len(list(table.scan().plan_files()))
    if not merges:
        return before, before
    place, root, written = whole_place(table.location()), table.location().rstrip("/"), list[str]()
    try:
        for run, files in merges:
            written.append(_write(place, root, run, files))
        _commit(table, [file for _, files in merges for file in files], [f"{root}/{path}" for path in written])
    except Exception:
        remove(place, written)
        raise
    return before, before - sum(len(files) - 1 for _, files in merges)


def _merges(table: Table, least: int) -> Iterator[tuple[list[RowFile], list[DataFile]]]:
    """The files that become one, for each that is made; those of a day in order of their names."""
    root = table.location().rstrip("/")
    system, base = storage(whole_place(table.location()))
    found: list[tuple[str, str, RowFile, DataFile]] = []
    for task in table.scan().plan_files():
        path = task.file.file_path.removeprefix(f"{root}/")
        name = OURS.fullmatch(path.rpartition("/")[2])
        if name is not None and path != task.file.file_path:
            schema = partial(_schema, system, f"{base}/{path}")
            row_file = RowFile(f"{name[1]}.parquet", task.file.file_size_in_bytes, bool(task.delete_files), schema)
            found.append((str(task.file.partition), path.rpartition("/")[2], row_file, task.file))
    found.sort(key=lambda one: one[:2])
    for _, group in groupby(found, key=lambda one: one[0]):
        day = [(row_file, file) for _, _, row_file, file in group]
        by_file = {id(row_file): file for row_file, file in day}
        for run in runs([row_file for row_file, _ in day], least):
            if len(run) > 1:
                yield run, [by_file[id(row_file)] for row_file in run]


def _schema(system: fs.FileSystem, path: str) -> pa.Schema:
    with system.open_input_file(path) as file:
        return pq.read_schema(file)


def _write(place: str, root: str, run: list[RowFile], files: list[DataFile]) -> str:
    """The merged file, by its path in the place of the table."""
    system, base = storage(place)
    path = f"{FOLDER}/{merged_name(run).removesuffix('.parquet')}-{uuid.uuid4().hex[:8]}.parquet"
    if "://" not in place:
        system.create_dir(f"{base}/{FOLDER}", recursive=True)
    paths = [file.file_path.removeprefix(f"{root}/") for file in files]
    with system.open_output_stream(f"{base}/{path}") as target:
        merge([system.open_input_file(f"{base}/{one}") for one in paths], target)
    return path


def _commit(table: Table, gone: list[DataFile], made: list[str]) -> None:
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    with table.transaction() as change, change.update_snapshot().overwrite() as rewrite:
        for file in gone:
            rewrite.delete_data_file(file)
        for path in made:
            rewrite.append_data_file(parquet_file_to_data_file(table.io, change.table_metadata, path))
