"""Avro: each value is one record in Avro's binary form, without a header.

`schema` names the file with the writer's schema. Without it the schema is that of the columns, in order, each of which
may be null: what `encode` writes. With `framing = 'confluent'` a value begins with the five bytes that a schema
registry puts before it; the schema is the one of the file all the same.
"""

from __future__ import annotations

import io
import json
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from muntin.formats.columns import Misfit
from muntin.formats.format import Format, Parse, Record
from muntin.model import UsageError

FRAME = 5
"""Bytes that a schema registry puts before a value: zero, and the number of the schema."""
PRIMITIVES: dict[str, Any] = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "bool": "boolean",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date32[day]": {"type": "int", "logicalType": "date"},
    "timestamp[us, tz=UTC]": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp[us]": {"type": "long", "logicalType": "local-timestamp-micros"},
    "duration[us]": "long",
}


class AvroValues(Format):
    name = "avro"
    options: ClassVar[dict[str, str]] = {
        "schema": "a file with the writer's schema; if not given, the columns are the schema",
        "framing": "'confluent' where a schema registry's five bytes come first",
    }
    package, extra = "fastavro", "avro"
    writes = True

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        if self.given.get("framing", "confluent") != "confluent":
            raise UsageError(f"there is no framing {self.given['framing']}", hint="write framing = 'confluent'")
        if self._written is not None:
            named = {field["name"] for field in self._written["fields"]}
            for name in schema.names:
                if name not in named:
                    raise UsageError(
                        f"{self.given['schema']} has no field {name}", hint=f"its fields are {', '.join(sorted(named))}"
                    )

    @cached_property
    def _written(self) -> dict[str, Any] | None:
        """The schema of the file that is given."""
        if (file := self.given.get("schema")) is None:
            return None
        from fastavro import parse_schema

        try:
            parsed = parse_schema(json.loads(Path(file).read_text()))
        except OSError as error:
            raise UsageError(f"cannot read the Avro schema {file}: {error.strerror}") from error
        except Exception as error:  # fastavro has a handful of kinds
            raise UsageError(f"{file} is not an Avro schema: {error}") from error
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise UsageError(f"{file} is not the Avro schema of a record")
        return parsed

    def parser(self, schema: pa.Schema) -> Parse:
        from fastavro import parse_schema, schemaless_reader

        written = self._written or parse_schema(avro_schema(schema))
        skipped = FRAME if "framing" in self.given else 0

        def parse(value: bytes) -> Record:
            if skipped and (len(value) < FRAME or value[0] != 0):
                raise Misfit("no schema registry's frame before the value")
            read = io.BytesIO(value)
            read.seek(skipped)
            try:
                found = schemaless_reader(read, written, None)
            except Exception as error:  # whatever it stumbles over, the value is no such record
                raise Misfit(f"not Avro of this schema: {error or type(error).__name__}") from None
            if read.tell() != len(value):
                raise Misfit(f"not Avro of this schema: {len(value) - read.tell()} bytes too many")
            if not isinstance(found, dict):
                raise Misfit("not an Avro record")
            return found

        return parse

    def encode(self, rows: pa.Table) -> list[bytes]:
        from fastavro import parse_schema, schemaless_writer

        schema, found = parse_schema(avro_schema(rows.schema)), list[bytes]()
        for index, field in enumerate(rows.schema):
            if pa.types.is_duration(field.type):
                rows = rows.set_column(index, field.name, rows.column(index).cast(pa.int64()))
        for row in rows.to_pylist(maps_as_pydicts="strict"):
            written = io.BytesIO()
            schemaless_writer(written, schema, row)
            found.append(written.getvalue())
        return found


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Columns as the schema of an Avro record; each may be null."""
    return _record("row", [(field.name, field.type) for field in schema])


def _record(name: str, fields: list[tuple[str, pa.DataType]]) -> dict[str, Any]:
    typed = [{"name": f, "type": ["null", _avro_type(kind, f"{name}_{f}")], "default": None} for f, kind in fields]
    return {"type": "record", "name": name, "fields": typed}


def _avro_type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_struct(kind):
        return _record(name, [(field.name, field.type) for field in kind])
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, f"{name}_item")]}
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _avro_type(kind.item_type, f"{name}_value")]}
    return PRIMITIVES[str(kind)]
