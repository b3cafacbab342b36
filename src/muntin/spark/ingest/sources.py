"""From a stream of the model to a streaming DataFrame, and back from a DataFrame to a stream."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from muntin.model import Field, JobSpec, Schema, Stream, UsageError
from muntin.model.types import column_name_fault, is_type
from muntin.spark.brokers import broker_of, load_messages, say_source
from muntin.spark.ingest.arrival import TOLD, told_by_files, told_by_messages
from muntin.spark.ingest.decoding import check_values, source_columns, undecoded
from muntin.spark.ingest.own_columns import choose_columns
from muntin.spark.ingest.packing import CORRUPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from muntin.plan.explain import PlanDescription

FILE_FORMATS = ("parquet", "json", "csv", "text", "orc", "avro", "xml")
START, BEGINNING = "startingoffsets", "earliest"
"""The option of brokers that says where they are read from, and its value that means the beginning."""
TEXT_FORMATS = ("json", "csv")
"""Formats in which a line can be malformed; Spark then puts it into a column of its own."""


def read_stream(spark: SparkSession, stream: Stream) -> DataFrame:
    """The source of a stream, with the columns that it declares (and the malformed lines of a text format).

    A source that takes no columns from us refuses them: then it brings its own.
    """
    options = {name: _absolute(value) if name.lower() == "path" else value for name, value in stream.options.items()}
    if stream.value is not None:
        return undecoded(stream, _load(spark, stream, options))
    fields = [f"`{f.name}` {f.type}" for f in stream.own]
    if stream.format.lower() in TEXT_FORMATS and stream.schema.find(CORRUPT) is None:
        fields.append(f"`{CORRUPT}` string")
        options["columnNameOfCorruptRecord"] = CORRUPT
    if broker_of(stream) is None:
        reader = spark.readStream.format(stream.format).options(**options)
        is_file = stream.format.lower() in FILE_FORMATS
        try:
            frame = reader.schema(", ".join(fields)).load()
            return told_by_files(frame) if is_file else frame
        except Exception as error:
            if is_file:
                raise _unreadable(stream, error) from error
    frame = _load(spark, stream, options)
    chosen = choose_columns(stream, [Field(f.name, f.dataType.simpleString()) for f in frame.schema.fields])
    columns = [frame[f"`{name}`"].cast(field.type).alias(field.name) for name, field in chosen]
    return frame.select(*columns, *told_by_messages(stream, frame))


def _load(spark: SparkSession, stream: Stream, options: Mapping[str, str]) -> DataFrame:
    """A source with the columns that it brings."""
    if broker_of(stream) is not None:
        wanted = [*source_columns(stream), TOLD] if stream.value is not None else []
        return load_messages(spark, stream, options, list(dict.fromkeys(wanted)))
    try:
        return spark.readStream.format(stream.format).options(**options).load()
    except Exception as error:
        raise _unreadable(stream, error) from error


def with_sources(plan: PlanDescription, spec: JobSpec, spark: SparkSession | None = None) -> PlanDescription:
    """A plan that says of each stream of a broker who reads it; without a session, with the jars that Spark brings."""
    said = {stream.name: say_source(stream, spark) for stream in spec.streams.values()}
    return replace(plan, streams=[replace(stream, source=said[stream.name]) for stream in plan.streams])


def check_source(stream: Stream) -> None:
    """Refuse what Spark would find out only while running."""
    if not stream.format:
        raise UsageError(
            f"stream {stream.name} does not say where it comes from",
            hint="CREATE STREAM ... WITH (format = 'parquet', path = '...')",
        )
    if stream.format.lower() in FILE_FORMATS and _path(stream) is None:
        raise UsageError(f"stream {stream.name}: format {stream.format} needs a path", hint="WITH (path = '...')")
    if stream.value is not None:
        check_values(stream)
    if (kind := broker_of(stream)) is not None:
        kind.check(stream)
    if (missing := missing_path(stream)) is not None:
        raise UsageError(f"stream {stream.name}: there is no {missing}", hint="the path is relative to where you are")


def check_beginning(query: str, stream: Stream, is_frame: bool) -> None:
    """Refuse a source that cannot be read from its beginning while a job has come further in it."""
    what = f"query {query} asks for rows from the beginning, and stream {stream.name}"
    leave = "leave FROM BEGINNING out: the query then begins with what comes"
    if is_frame:
        raise UsageError(f"{what} is a DataFrame: nobody knows where that begins", hint=leave)
    if stream.format.lower() in FILE_FORMATS:
        return
    start = next((value for name, value in stream.options.items() if name.lower() == START), None)
    if start is None:
        raise UsageError(f"{what} has format {stream.format}, which cannot be read again", hint=leave)
    if start.lower() != BEGINNING:
        raise UsageError(f"{what} is read from {start} on", hint=f"{leave}; or let the stream begin with 'earliest'")


def missing_path(stream: Stream) -> str | None:
    """The path of a stream of files, where it is on this machine and not there."""
    local = local_path(stream)
    return local if local is not None and not os.path.exists(local) else None


def local_path(stream: Stream) -> str | None:
    """The path of a stream of files on this machine; None where it is elsewhere, or a pattern."""
    path = _path(stream)
    if stream.format.lower() not in FILE_FORMATS or path is None:
        return None
    local = path.removeprefix("file://")
    return None if "://" in local or any(c in local for c in "*?[{") else local


def misplaced_file(stream: Stream) -> str | None:
    """Two files of a stream that Spark does not read in the order of their names: it goes by modification time, and
    where that is the same by whatever order the folder has. None where all are in order, or nobody can tell."""
    folder = local_path(stream)
    if folder is None or not os.path.isdir(folder):
        return None
    with os.scandir(folder) as found:
        files = sorted((file.name, file.stat().st_mtime_ns // 1_000_000) for file in found if file.name[0] not in "._")
    for (earlier, then), (later, now) in itertools.pairwise(files):
        if now <= then:
            how = "is as old as" if now == then else "is older than"
            return f"{os.path.join(folder, later)} {how} {earlier}"
    return None


def _path(stream: Stream) -> str | None:
    return next((value for name, value in stream.options.items() if name.lower() == "path"), None)


def schema_of(name: str, frame: DataFrame) -> Schema:
    """The columns of a user's DataFrame in the model's types."""
    fields = tuple(Field(f.name, f.dataType.simpleString()) for f in frame.schema.fields)
    for n, field in enumerate(fields):
        fault = column_name_fault(field.name, [other.name for other in fields[:n]])
        if fault is not None:
            raise UsageError(
                f"stream {name}: {fault[0]}",
                hint=f"{fault[1]}; rename it first, for example df.withColumnRenamed({field.name!r}, ...)",
            )
        if not is_type(field.type):
            raise UsageError(
                f"stream {name}: column {field.name} has type {field.type}, which a stream cannot carry",
                hint="leave it out, or cast it: df.withColumn(...)",
            )
    return Schema(fields)


def _absolute(path: str) -> str:
    """Relative paths are relative to where the user is now; Java knows only where it was started."""
    return os.path.abspath(path) if os.path.exists(path) else path


def _unreadable(stream: Stream, error: Exception) -> UsageError:
    """What Spark says of a source that it cannot read, and where to get one that it does not have."""
    java = getattr(error, "java_exception", None)  # what Py4J itself says is where it was called
    lines = str(java.getMessage() if java is not None else error).strip().splitlines()
    said = lines[0] if lines else type(error).__name__
    hint = None
    if "_NOT_ENABLED]" in said or "_NOT_FOUND]" in said:
        hint = "bring its package: muntin run --packages group:name:version, or spark.jars.packages of your session"
    return UsageError(f"stream {stream.name}: Spark cannot read it: {said}", hint=hint)
