"""Parquet files that keep slices, exactly once: the sink of `--output DIR` with `SET output_layout = 'sliced'`.

    DIR/_slices/A_B-5f0c1d2e3a4b.json                   a layout: slices, their readers, columns and bits
    DIR/_slices/A_B-5f0c1d2e3a4b/000/b0000000007-000.parquet    pairs of slice 000, each once
    DIR/_slices/_queries/warm/00-schema.parquet         the columns of a query
    DIR/warm.sql, DIR/warm.spark.sql                    the query as a view, for DuckDB and for Spark
    DIR/other/b0000000007-000.parquet                   a query that is not made of pairs as they are

Files are staged and published as those of `ParquetFolders` are: only their folders are others. A layout is there before
the first micro-batch of its queries. What changes with the queries is which layout is written to; views are over all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from muntin.core.results import BITS, PairSlices, SliceLayout, is_sliced, output_schema
from muntin.model import Query, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.checkpoint import FileKind, write_record
from muntin.spark.sink.compaction import Compacted
from muntin.spark.sink.parquet import COMPRESSION, ParquetFolders, check_columns, show_schema, texts_of, write_rows
from muntin.spark.sink.sink import StageFiles, Stager
from muntin.spark.sink.slice_folders import QUERIES, layout_file, pieces_of, slice_folder
from muntin.spark.sink.views import Piece, view_for_duckdb, view_for_spark
from muntin.spark.store import crash_points, store_of


@dataclass(frozen=True)
class StageSlices(StageFiles):
    """Files of slices, and of queries that have none."""

    takes_pairs: ClassVar[bool] = True


class SlicedParquet(ParquetFolders):
    name = "sliced parquet"
    layouts = ("sliced",)
    summary = "with SET output_layout = 'sliced': each pair once, in DIR/_slices/, and a view DIR/<query>.sql"

    @property
    def description(self) -> str:
        return f"sliced:{self.folder}"

    def check(self, query: Query) -> None:
        check_columns(self.folder / QUERIES, query)

    def schemas(self, plan: Plan, settings: Settings) -> dict[str, pa.Schema]:
        sliced = {query.name for query in plan.queries.values() if is_sliced(query)}
        return {name: schema for name, schema in super().schemas(plan, settings).items() if name not in sliced}

    def prepare(self, plan: Plan, settings: Settings) -> None:
        super().prepare(plan, settings)
        for join in plan.joins:
            slices = PairSlices(join)
            if slices.layout.queries:
                self._show(slices.layout)
        for query in plan.queries.values():
            if query.into is None:
                shown = self.folder / QUERIES / query.name
                shown.mkdir(parents=True, exist_ok=True)
                show_schema(shown, output_schema(query))
                self._show_views(query)

    def _show(self, layout: SliceLayout) -> None:
        for number in range(len(layout.slices)):
            folder = self.folder / slice_folder(layout, number)
            folder.mkdir(parents=True, exist_ok=True)
            show_schema(folder, layout.schema(number))
        file = layout_file(self.folder, layout.name)
        if not file.exists():
            write_record(file, FileKind.SLICES, layout, self.job)

    def _show_views(self, query: Query) -> None:
        types = {output.name: output.expr.type for output in query.select}
        no_rows = Piece(str(self.folder / QUERIES / query.name), {name: name for name in types})
        pieces = list(pieces_of(self.folder, query.name)) or [no_rows]
        for suffix, view in ((".sql", view_for_duckdb), (".spark.sql", view_for_spark)):
            _show_text(self.folder / f"{query.name}{suffix}", view(query.name, types, pieces))

    def stager(self, batch: int) -> Stager:
        return StageSlices(str(self.publisher.staging_folder(batch)), ".parquet", write_slice)

    def compact(self, queries: Sequence[str], least: int, checkpoint: Path | None) -> list[Compacted]:
        raise no_compaction(self.folder)

    def compact_query(self, query: Query, kept: Collection[str], least: int) -> None:
        """Slices stay as they are: readers put their micro-batches in order by the names of files."""


def write_slice(table: pa.Table, file: Path) -> None:
    """Whole numbers and times as differences, which are not compressed once more: neighbours in a slice are seldom
    equal, as they are in the files of a query, and so it takes half of the time and of the room. Bits repeat: they have
    a dictionary."""
    bits = [name for name in table.schema.names if name.startswith(BITS)]
    deltas = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if f.name not in bits and _is_whole(f.type)}
    small = dict.fromkeys([*bits, *deltas], "none")
    compression = {name: small.get(name, COMPRESSION) for name in table.schema.names}
    texts = [*texts_of(table.schema), *bits]
    write_rows(_as_they_are(table), file, use_dictionary=texts, column_encoding=deltas, compression=compression)


def _as_they_are(table: pa.Table) -> pa.Table:
    """Columns without a NULL as ones that cannot have any: a tenth less to write. Files of one slice may then differ,
    which those who read them one by one would notice; slices are read by views."""
    schema = table.schema
    for n, column in enumerate(table.columns):
        schema = schema.set(n, schema.field(n).with_nullable(column.null_count > 0))
    return pa.Table.from_arrays(table.columns, schema=schema)


def _is_whole(kind: pa.DataType) -> bool:
    return pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def no_compaction(folder: Path) -> UsageError:
    return UsageError(
        f"{folder} keeps slices, whose files are not merged",
        hint="take larger micro-batches, or copy what a view gives: COPY (FROM warm) TO 'warm.parquet'",
    )


def _show_text(file: Path, text: str) -> None:
    """Write a file whole, unless it says that already."""
    store = store_of(file)
    if not store.exists(file) or store.read(file) != text.encode():
        with crash_points.durable("view of a query"):
            store.put(file, text.encode())
