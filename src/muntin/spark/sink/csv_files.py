"""CSV for small outputs, exactly once: `--output csv:DIR`.

Each query has one file for each micro-batch that brings it rows, `<query>/b<batch>-000.csv`. The driver writes it, so
all rows of a micro-batch pass through one process. The first line has the names of the columns. Texts stand in quotes
as RFC 4180 has them, so that NULL, an empty field, is not the empty text `""`. Times are ISO 8601.
"""

from __future__ import annotations

import shutil
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from muntin.core.results import output_schema
from muntin.core.storage import read_table
from muntin.formats import json_texts
from muntin.model import Query, UsageError
from muntin.spark.checkpoint import BatchOutcome, Manifest, Staged
from muntin.spark.sink.parquet import FolderSink
from muntin.spark.sink.sink import SendTables, Stager


class CsvFiles(FolderSink):
    name = "csv"
    spelling = "csv:DIR"
    scheme = "csv:"
    noun = "CSV files"
    summary = "for small outputs: a CSV file for each query and micro-batch in DIR/<query>/"
    takes_eager = False

    def check(self, query: Query) -> None:
        for field in output_schema(query):
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
                raise UsageError(
                    f"query {query.name}: column {field.name} is {field.type}, which CSV cannot carry",
                    hint="leave the column out, or write Parquet: `output=` with a folder alone",
                )

    def stager(self, batch: int) -> Stager:
        return SendTables()

    def hand_over(self, done: BatchOutcome) -> None:
        staging = self.publisher.staging_folder(done.batch)
        tables = sorted(done.staged, key=lambda staged: (staged.name, staged.part))
        parts = groupby(tables, key=lambda staged: staged.name)
        done.staged = [self._stage(staging / f"{n}.csv", list(found)) for n, (_, found) in enumerate(parts)]

    def complete(self, manifest: Manifest) -> None:
        for staging in {(self.folder / source).parent for source, _ in manifest.renames}:
            shutil.rmtree(staging, ignore_errors=True)

    def _stage(self, file: Path, parts: list[Staged]) -> Staged:
        table = pa.concat_tables([read_table(part.table or b"") for part in parts])
        file.write_bytes(csv_lines(table))
        return Staged(parts[0].name, 0, table.num_rows, str(file.relative_to(self.folder)))


def csv_lines(table: pa.Table) -> bytes:
    """A header and a line for each row, with the line ends of RFC 4180."""
    names = [_cell(name) for name in table.column_names]
    rows = zip(*(_cells(column) for column in table.columns), strict=True)
    return "".join(f"{','.join(cells)}\r\n" for cells in (names, *rows)).encode()


def _cells(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_string(column.type):
        return ["" if text is None else _quoted(text) for text in column.to_pylist()]
    return ["" if text == "null" else _cell(text.strip('"')) for text in json_texts(column)]


def _cell(text: str) -> str:
    return _quoted(text) if any(mark in text for mark in '",\r\n') else text


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
