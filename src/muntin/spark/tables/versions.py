"""The versions of tables that a pipeline has read, each with the first micro-batch that goes by it.

    CHECKPOINT/muntin/tables/Places/0000000002.json      the rows as Arrow, and the number of that micro-batch

A version is written before the first micro-batch that goes by it begins, and is never written again. So a micro-batch
that is run once more looks into the same rows, whatever has become of the table since.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pyarrow as pa

from muntin.core.storage import table_bytes
from muntin.spark.checkpoint import FileKind, id_if_claimed, identity, read_record, write_record
from muntin.spark.store import Location, store_of

FOLDER = "tables"


@dataclass(frozen=True)
class StoredVersion:
    """The content of a file; `arrow` is the rows in base64."""

    table: str
    number: int
    first_batch: int
    rows: int
    arrow: str


@dataclass(frozen=True)
class Version:
    """A version without its rows."""

    table: str
    number: int
    first_batch: int
    rows: int


class VersionLog:
    """The versions of one pipeline, read once: nobody but its run writes them."""

    def __init__(self, checkpoint: Location):
        self._checkpoint = checkpoint
        self.folder = checkpoint / identity.FOLDER / FOLDER
        self._known: dict[str, list[Version]] = {}

    def of(self, table: str) -> list[Version]:
        """The versions of a table that are kept, in order."""
        if table not in self._known:
            place = self.folder / table
            numbers = sorted(int(file.stem) for file in store_of(place).files(place) if file.stem.isdigit())
            stored = [self.stored(table, number) for number in numbers]
            self._known[table] = [Version(s.table, s.number, s.first_batch, s.rows) for s in stored]
        return self._known[table]

    def at(self, table: str, batch: int) -> Version | None:
        """The version that a micro-batch goes by; None where the table was not looked into then."""
        return next((version for version in reversed(self.of(table)) if version.first_batch <= batch), None)

    def write(self, table: str, first_batch: int, rows: pa.Table) -> Version:
        """Let micro-batches from one on go by other rows."""
        number = max((version.number for version in self.of(table)), default=0) + 1
        arrow = base64.b64encode(bytes(memoryview(table_bytes(rows)))).decode()
        stored = StoredVersion(table, number, first_batch, rows.num_rows, arrow)
        write_record(self._file(table, number), FileKind.TABLE, stored, id_if_claimed(self._checkpoint))
        written = Version(table, number, first_batch, rows.num_rows)
        self._known[table] = [*self.of(table), written]
        return written

    def content(self, table: str, number: int) -> bytes:
        """The rows of a version as Arrow."""
        return base64.b64decode(self.stored(table, number).arrow)

    def stored(self, table: str, number: int) -> StoredVersion:
        return read_record(self._file(table, number), FileKind.TABLE, StoredVersion, id_if_claimed(self._checkpoint))

    def tables(self) -> list[str]:
        """The tables of which there are versions."""
        return store_of(self.folder).folders(self.folder)

    def forget(self, batch: int) -> None:
        """Remove the versions that no micro-batch from this one on goes by."""
        for table in self.tables():
            versions, needed = self.of(table), self.at(table, batch)
            first = needed.number if needed is not None else 0
            for version in versions:
                if version.number < first:
                    store_of(self.folder).remove(self._file(table, version.number))
            self._known[table] = [version for version in versions if version.number >= first]

    def _file(self, table: str, number: int) -> Location:
        return self.folder / table / f"{number:010d}.json"
