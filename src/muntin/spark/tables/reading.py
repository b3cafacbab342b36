"""Reading a table whole, with the columns that it declares, and seeing that it may have changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.kernels.evaluate import arrow_type
from muntin.model import DimensionTable, Field, MuntinError, UsageError
from muntin.spark.ingest import FILE_FORMATS, choose_columns
from muntin.spark.sink import load_delta, load_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = "delta"
UNDESCRIBED = ("csv", "json", "xml")
"""Formats whose files do not say of which types their columns are."""
BROKERS = ("kafka", "nats", "rate", "socket")


def check_table(table: DimensionTable) -> None:
    """Refuse what Spark would find out only while running."""
    form, path = table.format.lower(), path_of(table)
    if form in BROKERS:
        raise UsageError(f"table {table.name}: {form} has no end, and a table is read whole", hint="declare a stream")
    if form in (*FILE_FORMATS, DELTA) and path is None:
        raise UsageError(f"table {table.name}: format {table.format} needs a path", hint="WITH (path = '...')")
    local = local_path(table)
    if local is not None and not os.path.exists(local):
        raise UsageError(f"table {table.name}: there is no {local}", hint="the path is relative to where you are")


def path_of(table: DimensionTable) -> str | None:
    return next((value for name, value in table.options.items() if name.lower() == "path"), None)


def local_path(table: DimensionTable) -> str | None:
    """The path of a table on this machine; None where it is elsewhere, or a pattern."""
    path = path_of(table)
    if path is None:
        return None
    local = path.removeprefix("file://")
    return None if "://" in local or any(c in local for c in "*?[{") else local


def stamp(table: DimensionTable) -> object | None:
    """What is another thing as soon as a table has changed; None where only reading it tells."""
    local = local_path(table)
    if local is None:
        return None
    found: list[tuple[str, int, int]] = []
    for folder, _, names in os.walk(local) if os.path.isdir(local) else [(os.path.dirname(local), [], [local])]:
        for name in names:
            file = os.path.join(folder, name)
            try:
                seen = os.stat(file)
            except FileNotFoundError:  # somebody is changing it
                continue
            found.append((file, seen.st_size, seen.st_mtime_ns))
    return sorted(found)


def read(spark: SparkSession, table: DimensionTable) -> pa.Table:
    """All rows of a table; refuses one that lacks columns, or has them with other types."""
    options = {name: _absolute(value) if name.lower() == "path" else value for name, value in table.options.items()}
    try:
        if (whole := _without_spark(table)) is not None:
            return _chosen(table, whole, [Field(f.name, _type_name(f.type)) for f in whole.schema])
        reader = spark.read.format(table.format)
        if table.format.lower() in UNDESCRIBED:
            described = ", ".join(f"`{field.name}` {field.type}" for field in table.schema)
            reader = reader.options(**{"mode": "FAILFAST", **options}).schema(described)
        else:
            reader = reader.options(**options)
        frame = reader.load()
        brought = [Field(f.name, f.dataType.simpleString()) for f in frame.schema.fields]
        chosen = choose_columns(table, brought)
        return _named(table, frame.select(*(f"`{name}`" for name, _ in chosen)).toArrow())
    except MuntinError:
        raise
    except Exception as error:
        raise UsageError(f"table {table.name} cannot be read: {_said(error)}", hint=_hint(table)) from error


def _without_spark(table: DimensionTable) -> pa.Table | None:
    """All rows where a package of ours reads them: Delta tables, and Parquet in an object store, for which Spark would
    need a jar; None where Spark reads."""
    form, path = table.format.lower(), str(path_of(table))
    if form == DELTA:
        return load_delta(path)
    return load_parquet(path.rstrip("/")) if form == "parquet" and path.startswith("s3://") else None


def _chosen(table: DimensionTable, whole: pa.Table, brought: list[Field]) -> pa.Table:
    return _named(table, whole.select([name for name, _ in choose_columns(table, brought)]))


def _named(table: DimensionTable, rows: pa.Table) -> pa.Table:
    """Rows with the names and types that are declared."""
    wanted = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in table.schema])
    return rows.rename_columns(wanted.names).cast(wanted).combine_chunks()


def _type_name(kind: pa.DataType) -> str:
    """What Spark calls a type."""
    from pyspark.sql.pandas.types import from_arrow_type

    return str(from_arrow_type(kind).simpleString())


def _absolute(path: str) -> str:
    return os.path.abspath(path) if os.path.exists(path) else path


def _said(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    lines = str(java.getMessage() if java is not None else error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _hint(table: DimensionTable) -> str:
    return f"CREATE TABLE {table.name} declares {', '.join(f'{f.name} {f.type.upper()}' for f in table.schema)}"
