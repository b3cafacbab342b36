"""The rows of a query of an output that keeps slices, in output order.

    b0000000007-000     of slice 000, 001, ...      a query's rows of a part of a micro-batch: those with its bit,
                                                    merged by `_ts`
    b0000000007-001     the next part               after all rows of the part before

A file that has no row in the time that is asked for is passed over by what Parquet notes of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from muntin.core.results import OUTPUT_TS
from muntin.spark.sink.parquet import SCHEMA_FILE
from muntin.spark.sink.views import Piece

Files = list[tuple[Path, Piece]]


def within(since: datetime | None, until: datetime | None) -> ds.Expression | None:
    """That `_ts` is not before `since` and before `until`; None where nothing is asked for."""
    ts = ds.field(OUTPUT_TS.name)
    bounds = [] if since is None else [ts >= pa.scalar(since, OUTPUT_TS.type)]
    bounds += [] if until is None else [ts < pa.scalar(until, OUTPUT_TS.type)]
    return bounds[0] & bounds[-1] if bounds else None


class SlicedRows:
    """Reads as a `pyarrow.dataset.Dataset` does, a part of a micro-batch at a time; DuckDB takes it as a table.

    Which files there are is settled when it is made, so it may be read again and again.
    """

    def __init__(self, schema: pa.Schema, pieces: Sequence[Piece], asked: ds.Expression | None = None):
        self.schema = schema
        self._asked = asked
        found: dict[str, Files] = defaultdict(list)
        for piece in pieces:
            for file in Path(piece.folder).glob("*.parquet"):
                if file.name != SCHEMA_FILE:
                    found[file.name].append((file, piece))
        self._parts = [sorted(files) for _, files in sorted(found.items())]

    @property
    def files(self) -> list[str]:
        return [str(file) for files in self._parts for file, _ in files]

    def to_batches(self, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows; `columns` and `filter` are as for a dataset."""
        for files in self._parts:
            yield from self._part(files, **options).to_batches()

    def to_table(self, **options: Any) -> pa.Table:
        parts = [self._part(files, **options) for files in self._parts]
        return pa.concat_tables([self._chosen(self.schema.empty_table(), **options), *parts])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def count_rows(self) -> int:
        return sum(self._part(files, columns=[]).num_rows for files in self._parts)

    def tail(self, rows: int) -> pa.Table:
        """The last rows, of which no more is read than their parts."""
        found = self.schema.empty_table()
        for files in reversed(self._parts):
            if found.num_rows >= rows:
                break
            found = pa.concat_tables([self._part(files), found])
        return found.slice(max(0, found.num_rows - rows))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _part(self, files: Files, **options: Any) -> pa.Table:
        """The rows of a part of a micro-batch, of all slices that the query reads."""
        tables = [self._rows(file, piece) for file, piece in files]
        table = pa.concat_tables(tables)
        if len(tables) > 1:
            order = pc.array_sort_indices(table[OUTPUT_TS.name].combine_chunks())
            table = table.take(order)
        return self._chosen(table, **options)

    def _rows(self, file: Path, piece: Piece) -> pa.Table:
        conditions = [] if self._asked is None else [self._asked]
        if piece.reads is not None:
            word = ds.field(piece.reads.bits)
            conditions.append(pc.bit_wise_and(word, pa.scalar(piece.reads.bit, pa.int64())) != 0)
        rows = ds.dataset(file, format="parquet")
        stored = {name: piece.columns.get(name, name) for name in self.schema.names}
        columns = {name: ds.field(where) for name, where in stored.items() if where in rows.schema.names}
        both = None if not conditions else conditions[0] & conditions[-1]
        found = rows.to_table(columns=columns, filter=both)
        missing = {name: pa.nulls(found.num_rows, self.schema.field(name).type) for name in self.schema.names}
        arrays = [found[name] if name in columns else missing[name] for name in self.schema.names]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _chosen(self, table: pa.Table, columns: list[str] | None = None, filter: Any = None) -> pa.Table:
        kept = table if filter is None else table.filter(filter)
        return kept if columns is None else kept.select(columns)
