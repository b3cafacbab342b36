"""What a job has committed to its output, for readers: `muntin.read` and `muntin.create_views`.

In a folder every file with its name is committed. In an object store the log of the output says which files are.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from muntin.model import UsageError
from muntin.spark.checkpoint import committed_files
from muntin.spark.sink.parquet import SCHEMA_FILE, schema_of
from muntin.spark.sink.slice_folders import QUERIES, keeps_slices, pieces_of, sliced_names
from muntin.spark.sink.sliced_rows import SlicedRows, within
from muntin.spark.store import Location, arrow_files, for_spark, locate, store_of


def read(
    output: str | os.PathLike[str],
    query: str,
    since: datetime | None = None,
    until: datetime | None = None,
) -> ds.Dataset | SlicedRows:
    """The committed rows of a query as an Arrow dataset, its files in output order.

    `read("s3://bucket/out", "warm").to_table()` has all rows; DuckDB queries a dataset in a variable by its name.
    `query` may also be `_dead_letters`. A reader sees whole micro-batches; rows that are committed later are not in it.
    `since` and `until` bound the output timestamp: `since <= _ts < until`. What lies outside is not read, as far as
    Parquet says so of whole files and groups of rows. An output that keeps slices has no files of one query: its rows
    are `SlicedRows`, which read as a dataset does.
    """
    place = locate(output)
    asked = within(since, until)
    if keeps_slices(place) and (schema := schema_of(place / QUERIES / query)) is not None:
        assert isinstance(place, Path)
        return SlicedRows(schema.remove_metadata(), list(pieces_of(place, query)), asked)
    found = _files(place, query)
    return found if asked is None else found.filter(asked)


def _files(place: Location, query: str) -> ds.Dataset:
    folder = place / query
    schema = schema_of(folder)
    if schema is None:
        known = ", ".join(_queries(place)) or "none"
        raise UsageError(f"{place} has no Parquet files of {query}", hint=f"queries there: {known}")
    files, format = _committed(place, query), ds.ParquetFileFormat()
    columns = schema.remove_metadata()
    if isinstance(place, Path):
        return ds.dataset([str(place / file) for file in files], columns, format=format) if files else _empty(columns)
    system, root = arrow_files(place)
    paths = [f"{root}/{file}" for file in files]
    return ds.dataset(paths, columns, filesystem=system, format=format) if files else _empty(columns)


def create_views(output: str | os.PathLike[str], on: Any) -> list[str]:
    """A view for each query of an output, with what is committed by now; the names.

    `on` is a DuckDB connection, or a SparkSession. Where that Spark has no file system for the storage, the rows go
    through this process.
    """
    place = locate(output)
    names = _queries(place)
    for name in names:
        is_spark = hasattr(on, "createDataFrame")
        if isinstance(place, Path) and keeps_slices(place):
            text = (place / f"{name}{'.spark' * is_spark}.sql").read_text(encoding="utf-8")
            on.sql(text.rstrip().rstrip(";")) if is_spark else on.execute(text)
            continue
        if not is_spark:
            on.register(name, read(output, name))
            continue
        rows, files = _files(place, name), _committed(place, name)
        schema = on.createDataFrame(rows.schema.empty_table()).schema
        if isinstance(place, Path) and files:
            frame = on.read.schema(schema).parquet(*(for_spark(place / file) for file in files))
        else:
            frame = on.createDataFrame(rows.to_table())
        frame.createOrReplaceTempView(name)
    return names


def _committed(place: Location, query: str) -> list[str]:
    """The committed files of a query in output order, relative to the output."""
    if not isinstance(place, Path):
        return committed_files(place, query)
    found = (file.name for file in store_of(place).files(place / query) if file.name.endswith(".parquet"))
    return [f"{query}/{name}" for name in found if name != SCHEMA_FILE]


def _queries(place: Location) -> list[str]:
    """The queries of an output."""
    if isinstance(place, Path) and keeps_slices(place):
        return sliced_names(place)
    return [name for name in store_of(place).folders(place) if name[0] not in "._" and _is_query(place / name)]


def _is_query(folder: Location) -> bool:
    return store_of(folder).exists(folder / SCHEMA_FILE)


def _empty(schema: pa.Schema) -> ds.Dataset:
    return ds.dataset(schema.empty_table())
