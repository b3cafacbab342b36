"""Iceberg tables, exactly once: `--output iceberg:CATALOG.NAMESPACE` has a table for each query, `INTO ICEBERG
'CATALOG.NAMESPACE.TABLE'` is the table itself.

Catalogs are those of PyIceberg's configuration (a file, or the environment), so any that it knows will do. Tables are
partitioned by the day of the output timestamp. Each micro-batch is one snapshot, which bears its number. So does a
property of the table, set in the same commit: snapshots expire, and the table must not forget what it has.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.core.results import OUTPUT_TS
from muntin.model import Query, UsageError
from muntin.spark.checkpoint import TableFile
from muntin.spark.sink.compaction import Compacted
from muntin.spark.sink.iceberg_compaction import compact_table
from muntin.spark.sink.lake import TRIES, WRITER, LakeSink, LakeTable, telling
from muntin.spark.sink.sink import OutputRequest
from muntin.spark.sink.table_files import whole_place

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

BATCH = "muntin.batch"
"""The property of a snapshot that says its micro-batch, and how that of a table begins."""


class IcebergTables(LakeSink):
    name = "iceberg"
    spelling = "iceberg:CATALOG.NAMESPACE"
    scheme = "iceberg:"
    into_word = "ICEBERG"
    noun = "Iceberg tables"
    summary = "an Iceberg table for each query in a namespace of a catalog of PyIceberg's configuration"
    library = "pyiceberg"
    extra = "iceberg"

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        self._root = request.into.place if request.into else (request.output or "")[len(self.scheme) :]
        least = 3 if request.into else 2
        if len(parts := self._root.split(".")) < least or not all(parts):
            wanted = "CATALOG.NAMESPACE.TABLE" if request.into else "CATALOG.NAMESPACE"
            raise UsageError(f"{self._root!r} does not name {self.noun}", hint=f"write {wanted}")

    @property
    def description(self) -> str:
        return f"{self.scheme}{self._root}"

    def address(self, name: str) -> str:
        return self._root if self.request.into is not None else f"{self._root}.{name.replace('/', '_')}"

    def _is_mine(self, address: str) -> bool:
        return address == self._root if self.request.into is not None else address.startswith(f"{self._root}.")

    def find(self, address: str) -> LakeTable | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        catalog, _, table = address.partition(".")
        try:
            return OpenIcebergTable(open_catalog(catalog).load_table(table))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def create(self, address: str, schema: pa.Schema, writer: str) -> LakeTable:
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
        from pyiceberg.schema import assign_fresh_schema_ids
        from pyiceberg.transforms import DayTransform

        catalog, _, table = address.partition(".")
        opened, columns = open_catalog(catalog), assign_fresh_schema_ids(_converted(schema))
        by = UNPARTITIONED_PARTITION_SPEC
        if OUTPUT_TS.name in schema.names:
            time = columns.find_field(OUTPUT_TS.name).field_id
            by = PartitionSpec(PartitionField(time, 1000, DayTransform(), f"{OUTPUT_TS.name}_day"))
        opened.create_namespace_if_not_exists(table.rpartition(".")[0])
        try:
            made = opened.create_table(table, columns, partition_spec=by, properties={WRITER: writer})
        except TableAlreadyExistsError:  # another pipeline of the job was first
            made = opened.load_table(table)
        return OpenIcebergTable(made)

    def compact(self, queries: Sequence[str], least: int, checkpoint: Path | None) -> list[Compacted]:
        """In one snapshot for each table, which moves rows and adds none: readers go on with the one they have."""
        alone = len(self._root.split(".")) > 2 and self.find(self._root) is not None
        catalog, _, space = self._root.partition(".")
        if not queries and not alone:
            with telling(self._root, "cannot be listed"):
                queries = sorted(name[-1] for name in open_catalog(catalog).list_tables(space))
        addresses = {name: f"{self._root}.{name}" for name in queries} or {self._root: self._root}
        return [Compacted(name, *self._compact(address, least)) for name, address in addresses.items()]

    def _compact(self, address: str, least: int) -> tuple[int, int]:
        for attempt in range(TRIES):
            with telling(address, "cannot be compacted"):
                table = self.find(address)
                if not isinstance(table, OpenIcebergTable):
                    raise UsageError(f"{address} is not an Iceberg table", hint="name a namespace or a table")
                try:
                    return table.compact(least)
                except Exception as error:
                    if attempt + 1 == TRIES or not self.is_conflict(error):
                        raise
        raise AssertionError("unreachable")

    def compact_query(self, query: Query, kept: Collection[str], least: int) -> None:
        self._compact(self.address(query.name), least)

    def types_of(self, schema: pa.Schema) -> Mapping[str, str]:
        return _types(_converted(schema))

    def is_conflict(self, error: Exception) -> bool:
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException

        return isinstance(error, CommitFailedException | CommitStateUnknownException | ValidationException)


class OpenIcebergTable(LakeTable):
    def __init__(self, table: Table):
        self._table = table
        self.place = whole_place(table.location())

    def types(self) -> Mapping[str, str]:
        return _types(self._table.schema())

    def required(self) -> set[str]:
        return {field.name for field in self._table.schema().fields if field.required}

    def properties(self) -> Mapping[str, str]:
        return self._table.properties

    def last_batch(self, writer: str) -> int | None:
        self._table.refresh()
        found = self._table.properties.get(f"{BATCH}.{writer}")
        return None if found is None else int(found)

    def add_columns(self, schema: pa.Schema) -> None:
        self._table.refresh()
        with self._table.update_schema() as update:
            update.union_by_name(_converted(schema))

    def set_property(self, name: str, value: str) -> None:
        with self._table.transaction() as change:
            change.set_properties({name: value})

    def adopt(self, files: list[TableFile], writer: str, batch: int) -> None:
        root = self._table.location().rstrip("/")
        with self._table.transaction() as change:
            change.add_files(
                [f"{root}/{file.path}" for file in files],
                snapshot_properties={BATCH: str(batch), WRITER: writer},
                check_duplicate_files=False,  # the property says whether they are there; a look takes all manifests
            )
            change.set_properties({f"{BATCH}.{writer}": str(batch)})

    def compact(self, least: int) -> tuple[int, int]:
        """Merge files below a size; how many there were, and are."""
        return compact_table(self._table, least)


CATALOGS: dict[str, Catalog] = {}
"""Those that are open in this process."""
_OPENING = threading.Lock()


def open_catalog(name: str) -> Catalog:
    """A catalog of the configuration."""
    from pyiceberg.catalog import load_catalog

    with _OPENING:
        if name not in CATALOGS:
            try:
                CATALOGS[name] = load_catalog(name)
            except Exception as error:
                raise UsageError(
                    f"the catalog {name} cannot be opened: {str(error).splitlines()[0]}",
                    hint=f"say where it is in ~/.pyiceberg.yaml, or with PYICEBERG_CATALOG__{name.upper()}__URI",
                ) from error
        return CATALOGS[name]


def _converted(schema: pa.Schema) -> Schema:
    """The columns in Iceberg's types; all may be NULL, since rows from before a column came have no value there."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    return _pyarrow_to_schema_without_ids(pa.schema([field.with_nullable(True) for field in schema]))


def _types(schema: Schema) -> Mapping[str, str]:
    """The types by name, without the numbers that Iceberg gives to the fields inside."""
    return {field.name: re.sub(r"-?\d+: ", "", str(field.field_type)) for field in schema.fields}
