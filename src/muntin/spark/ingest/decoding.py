"""Values of messages: from what a source brings as bytes to the columns that a stream declares.

The source's `value` travels as it is to the task that packs rows, and is decoded there, a column at a time. A value
that is no record of the stream becomes a dead letter, with its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.core.batch import own_schema
from muntin.formats import format_named
from muntin.model import Field, Stream, UsageError
from muntin.spark.ingest import dead_letters
from muntin.spark.ingest.arrival import told_by_messages
from muntin.spark.ingest.own_columns import is_widening

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VALUE = "_value"
PLACE = ("topic", "subject", "partition", "offset", "sequence")
"""Columns of sources that say where a message is; a dead letter names them."""
HEADERS = "headers."
"""Before the name of one header."""


def value_columns(stream: Stream) -> pa.Schema:
    """The columns that come out of the value."""
    return pa.schema([field for field in own_schema(stream) if field.name not in stream.metadata])


def check_values(stream: Stream) -> None:
    """Refuse a format that cannot have these columns."""
    assert stream.value is not None
    if not len(value_columns(stream)):
        raise UsageError(
            f"stream {stream.name}: no column comes out of the value",
            hint="declare one without METADATA, or leave VALUE FORMAT out: then all columns are those of the source",
        )
    try:
        format_named(stream.value).check(value_columns(stream))
    except UsageError as error:
        raise UsageError(f"stream {stream.name}: {error.message}", hint=error.hint) from error


def source_columns(stream: Stream) -> list[str]:
    """The columns of the source that are needed to decode a stream, as far as it has them."""
    named = ["headers" if name.startswith(HEADERS) else name for name in stream.metadata.values()]
    return list(dict.fromkeys(["value", *PLACE, *named]))


def undecoded(stream: Stream, frame: DataFrame) -> DataFrame:
    """The value of each message as bytes, metadata under the names that the stream has for them, and the place."""
    brought = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if "value" not in brought:
        raise UsageError(
            f"stream {stream.name}: the source {stream.format} brings no column value to decode",
            hint=f"leave VALUE FORMAT out; the source has {_listed(brought)}",
        )
    metadata = [
        _metadata(frame, brought, stream, stream.schema.find(name), source).alias(name)
        for name, source in stream.metadata.items()
    ]
    place = [frame[name].alias(f"_{name}") for name in PLACE if name in brought]
    return frame.select(frame["value"].cast("binary").alias(VALUE), *metadata, *place, *told_by_messages(stream, frame))


def _metadata(frame: DataFrame, brought: dict[str, str], stream: Stream, field: Field | None, source: str) -> Column:
    from pyspark.sql import functions as F

    assert field is not None
    whole, header = source.split(".", 1) if source.startswith(HEADERS) else (source, "")
    if whole not in brought:
        raise UsageError(
            f"stream {stream.name}: the source {stream.format} has no metadata {source}",
            hint=f"it has {_listed(brought)}",
        )
    column, have = frame[whole], brought[whole]
    if header:
        column, have = F.get(F.filter(column, lambda h: h["key"] == header), F.lit(0))["value"], "binary"
    if have != field.type and not is_widening(have, field.type) and (have, field.type) != ("binary", "string"):
        raise UsageError(
            f"stream {stream.name}: {source} of the source {stream.format} is {have}, not {field.type}",
            hint=f"declare {field.name} {have.upper()} METADATA FROM '{source}'",
        )
    return column.cast(field.type)


def _listed(brought: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind.upper()}" for name, kind in brought.items() if name != "value")


def decoded(stream: Stream, table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of messages, and the dead letters of those that are none."""
    assert stream.value is not None
    schema, values = value_columns(stream), table[VALUE].to_pylist()
    found = format_named(stream.value).decode(schema, values)
    rows, beside = found.rows, table.drop_columns([VALUE])
    if found.faults:
        beside = beside.take(pa.array(found.places, pa.int64()))
    for name in beside.column_names:
        rows = rows.append_column(beside.schema.field(name), beside[name])
    said = [name for name in table.column_names if name in stream.metadata or name.removeprefix("_") in PLACE]
    messages = table.select([VALUE, *said]).take(pa.array(list(found.faults), pa.int64())).to_pylist()
    return rows, dead_letters.undecodable(stream, list(found.faults.values()), messages, VALUE)
