"""JSON: each value is one object whose fields are the columns, by their exact names. A field that is missing is NULL,
one that no column has is passed over."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa

from muntin.formats.columns import Misfit
from muntin.formats.format import Format, Parse, Record
from muntin.formats.json_texts import json_rows


class JsonValues(Format):
    name = "json"
    writes = True

    def parser(self, schema: pa.Schema) -> Parse:
        loads = json.JSONDecoder(parse_float=Decimal if _has_decimals(schema) else None).decode

        def parse(value: bytes) -> Record:
            try:
                found = loads(value.decode())
            except UnicodeDecodeError:
                raise Misfit("not UTF-8") from None
            except (ValueError, RecursionError) as error:
                raise Misfit(f"not JSON: {error}") from None
            if not isinstance(found, dict):
                raise Misfit("not a JSON object")
            return found

        return parse

    def encode(self, rows: pa.Table) -> list[bytes]:
        return json_rows(rows)


def _has_decimals(schema: pa.Schema) -> bool:
    """Whether digits must be kept as they stand."""
    return any("decimal" in str(field.type) for field in schema)
