"""Delta tables, exactly once: `--output delta:URI` has a table for each query, `INTO DELTA 'URI'` is the table itself.

Tables are partitioned by `_date`, the day of the output timestamp. Each micro-batch is one commit, with an application
transaction that says its number: the log of the table keeps that for good.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.core.results import OUTPUT_TS
from muntin.model import Query, UsageError
from muntin.model.event_time import time_text
from muntin.spark.checkpoint import TableFile
from muntin.spark.sink.compaction import Compacted
from muntin.spark.sink.lake import WRITER, LakeSink, LakeTable, telling
from muntin.spark.sink.sink import OutputRequest
from muntin.spark.sink.table_files import whole_place

if TYPE_CHECKING:
    from deltalake import DeltaTable

DATE = pa.field("_date", pa.date32())
"""The column that tables are partitioned by."""
MS = 1000


class DeltaTables(LakeSink):
    name = "delta"
    spelling = "delta:URI"
    scheme = "delta:"
    into_word = "DELTA"
    noun = "Delta tables"
    summary = "a Delta table for each query in URI/<query>, a folder or an object store"
    library = "deltalake"
    extra = "delta"

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        self._root = whole_place(request.into.place if request.into else (request.output or "")[len(self.scheme) :])

    @property
    def description(self) -> str:
        return f"{self.scheme}{self._root}"

    def address(self, name: str) -> str:
        return self._root if self.request.into is not None else f"{self._root}/{name}"

    def _is_mine(self, address: str) -> bool:
        return address == self._root if self.request.into is not None else address.startswith(f"{self._root}/")

    def find(self, address: str) -> LakeTable | None:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(address):
            return None
        table = DeltaTable(address)
        if (by := table.metadata().partition_columns) not in ([], [DATE.name]):
            message = f"the table {address} is partitioned by {', '.join(by)}, and rows come partitioned by {DATE.name}"
            raise UsageError(message, hint="name another table, or one that is not partitioned")
        return OpenDeltaTable(address, table)

    def create(self, address: str, schema: pa.Schema, writer: str) -> LakeTable:
        from deltalake import DeltaTable

        DeltaTable.create(
            address,
            _with_date(schema),
            mode="ignore",  # another pipeline of the job may have been first
            partition_by=_partitions(schema.names),
            configuration={WRITER: writer},
            raise_if_key_not_exists=False,
        )
        return OpenDeltaTable(address, DeltaTable(address))

    def compact(self, queries: Sequence[str], least: int, checkpoint: Path | None) -> list[Compacted]:
        """In one commit for each table, which moves rows and adds none: readers go on with the version they have."""
        from deltalake import DeltaTable

        alone = DeltaTable.is_deltatable(self._root)
        if not queries and not alone and "://" in self._root:
            raise UsageError(f"{self._root} is not a table", hint="name its queries, or the table itself")
        names = queries or ([""] if alone else sorted(p.parent.name for p in Path(self._root).glob("*/_delta_log")))
        done = []
        for name in names:
            address = f"{self._root}/{name}".rstrip("/")
            if not DeltaTable.is_deltatable(address):
                raise UsageError(f"{address} is not a Delta table", hint="name an output or a table that is there")
            before, after = self._compact(address, least)
            done.append(Compacted(name or address, before, after))
        return done

    def _compact(self, address: str, least: int) -> tuple[int, int]:
        from deltalake import DeltaTable

        with telling(address, "cannot be compacted"):
            table = DeltaTable(address)
            before = len(table.file_uris())
            table.optimize.compact(target_size=least)
            return before, len(DeltaTable(address).file_uris())

    def compact_query(self, query: Query, kept: Collection[str], least: int) -> None:
        self._compact(self.address(query.name), least)

    def types_of(self, schema: pa.Schema) -> Mapping[str, str]:
        from deltalake import Schema

        return {field.name: str(field.type) for field in Schema.from_arrow(schema).fields}

    def is_conflict(self, error: Exception) -> bool:
        from deltalake.exceptions import CommitFailedError

        return isinstance(error, CommitFailedError)


class OpenDeltaTable(LakeTable):
    def __init__(self, address: str, table: DeltaTable):
        self.place = address
        self._table = table

    def types(self) -> Mapping[str, str]:
        return {field.name: str(field.type) for field in self._table.schema().fields}

    def required(self) -> set[str]:
        return {field.name for field in self._table.schema().fields if not field.nullable} - {DATE.name}

    def properties(self) -> Mapping[str, str]:
        return self._table.metadata().configuration

    def last_batch(self, writer: str) -> int | None:
        self._table.update_incremental()
        return self._table.transaction_version(writer)

    def add_columns(self, schema: pa.Schema) -> None:
        from deltalake import Schema

        self._table.update_incremental()
        known = set(self.types())
        new = [field for field in Schema.from_arrow(_nullable(schema)).fields if field.name not in known]
        if new:
            self._table.alter.add_columns(new)
            self._table.update_incremental()

    def set_property(self, name: str, value: str) -> None:
        self._table.alter.set_table_properties({name: value}, raise_if_not_exists=False)

    def adopt(self, files: list[TableFile], writer: str, batch: int) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        now, partitions = time.time_ns() // 1_000_000, self._table.metadata().partition_columns
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {name: file.date for name in partitions}, now, True, statistics(file))
            for file in files
        ]
        self._table.create_write_transaction(
            actions,
            "append",
            self._table.schema(),
            partitions,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(writer, batch)], custom_metadata={"muntin.batch": batch}
            ),
        )


def load_delta(address: str) -> pa.Table | None:
    """All rows of a Delta table; None where the package that reads it is not installed."""
    try:
        from deltalake import DeltaTable
    except ImportError:
        return None
    with telling(address, "cannot be read"):
        return DeltaTable(address).to_pyarrow_table()


def statistics(file: TableFile) -> str:
    """What readers may know of a file without opening it; times in whole milliseconds that enclose its own."""
    if file.span_us is None:
        return json.dumps({"numRecords": file.rows})
    low, high = file.span_us[0] // MS * MS, -(-file.span_us[1] // MS) * MS
    least, greatest = ({OUTPUT_TS.name: f"{time_text(us, 'T', 'milliseconds')}Z"} for us in (low, high))
    nulls = {OUTPUT_TS.name: 0}
    return json.dumps({"numRecords": file.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def _with_date(schema: pa.Schema) -> pa.Schema:
    return _nullable(schema).append(DATE) if _partitions(schema.names) else _nullable(schema)


def _partitions(names: list[str]) -> list[str]:
    return [DATE.name] if OUTPUT_TS.name in names else []


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Columns that came later have no values in rows before."""
    return pa.schema([field.with_nullable(True) for field in schema])
