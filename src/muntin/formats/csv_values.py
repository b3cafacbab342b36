"""CSV: each value is one line whose cells are the columns in order. An empty cell is NULL."""

from __future__ import annotations

import csv
from typing import ClassVar

import pyarrow as pa

from muntin.formats.columns import Misfit
from muntin.formats.format import Format, Parse, Record
from muntin.model import UsageError


class CsvValues(Format):
    name = "csv"
    options: ClassVar[dict[str, str]] = {"delimiter": "what stands between cells, a comma if not given"}

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        if len(self.given.get("delimiter", ",")) != 1:
            raise UsageError("the delimiter of CSV is one character", hint="write CSV (delimiter = ';')")
        for field in schema:
            if pa.types.is_nested(field.type):
                raise UsageError(
                    f"column {field.name} is {field.type}, which a cell of CSV cannot carry",
                    hint="declare it STRING, or send JSON",
                )

    def parser(self, schema: pa.Schema) -> Parse:
        delimiter, fields = self.given.get("delimiter", ","), list(schema)

        def parse(value: bytes) -> Record:
            try:
                (cells,) = csv.reader([value.decode()], delimiter=delimiter, strict=True)
            except UnicodeDecodeError:
                raise Misfit("not UTF-8") from None
            except (csv.Error, ValueError) as error:
                raise Misfit(f"not a line of CSV: {error}") from None
            if len(cells) != len(fields):
                raise Misfit(f"{len(cells)} cells, not {len(fields)}")
            return {field.name: _cell(field.type, cell) for field, cell in zip(fields, cells, strict=True)}

        return parse


def _cell(kind: pa.DataType, text: str) -> object:
    """What a cell says; a text that says no number stays one, and does not fit into the column."""
    if text == "":
        return None
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}.get(text.lower(), text)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            return int(text) if pa.types.is_integer(kind) else float(text)
        except ValueError:
            return text
    return text
