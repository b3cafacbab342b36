"""All formats of values."""

from __future__ import annotations

from muntin.formats.avro_values import AvroValues
from muntin.formats.csv_values import CsvValues
from muntin.formats.format import Format
from muntin.formats.json_values import JsonValues
from muntin.formats.protobuf_values import ProtobufValues
from muntin.model import ValueFormat

FORMATS: dict[str, type[Format]] = {kind.name: kind for kind in (JsonValues, CsvValues, AvroValues, ProtobufValues)}


def format_named(value: ValueFormat) -> Format:
    """The format that a stream declares."""
    return FORMATS[value.name](value.options)
