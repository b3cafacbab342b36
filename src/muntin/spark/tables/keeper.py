"""Which version of each table a micro-batch goes by.

The driver looks at a table before each micro-batch that has not been tried before. If it has changed, it is read,
checked and written down as a version that begins with this micro-batch; then the tasks start. One that is run once more
goes by what was written down. A table that cannot be read any more, or has keys twice, stays as it was: the status says
why, and it is tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.core.arrivals import repeated_keys
from muntin.core.storage import read_table
from muntin.model import DimensionTable, Lookup, MuntinError, UsageError
from muntin.model.records import LEFT_OUT
from muntin.spark.exchange import Address, TableVersion
from muntin.spark.sink import HubPlace
from muntin.spark.store import Location
from muntin.spark.tables import reading
from muntin.spark.tables.desk import TableDesk
from muntin.spark.tables.versions import Version, VersionLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGAIN_S = 60.0
"""How often a table is read that only reading can tell has changed."""
RETRY_S = 10.0
"""How often one is tried again that could not be read."""


@dataclass(frozen=True)
class TableStatus:
    """The version of a table that the last micro-batch went by, and why a newer one is not taken."""

    version: int
    since_batch: int
    rows: int
    warning: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass
class _Look:
    """The last look at a table: how it was found, when, what was read, and whether that is in a version."""

    stamp: object | None
    at: float
    rows: pa.Table | None = None
    fault: str | None = None


class TableKeeper:
    """The tables of one pipeline. `tried` is the last micro-batch that any run may have begun."""

    def __init__(
        self,
        folder: Location,
        tables: Mapping[str, DimensionTable],
        read: Callable[[DimensionTable], pa.Table],
        tried: int,
        desk_at: HubPlace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._log = VersionLog(folder)
        self._tables = tables
        self._read = read
        self._tried = tried
        self._clock = clock
        self._lock = threading.Lock()
        """Changes of queries ask while micro-batches run."""
        self._looks: dict[str, _Look] = {}
        self._last: dict[str, tuple[int, pa.Table]] = {}
        """The rows of the last version of each table."""
        self._desk = TableDesk(desk_at, self._log.content) if desk_at is not None and tables else None

    def begin(self, lookups: Iterable[Lookup]) -> None:
        """Read all that is looked into, or raise why that cannot be."""
        for name, mine in self._by_table(lookups).items():
            self._looks[name] = self._look(name, mine)
            if (fault := self._looks[name].fault) is not None:
                raise UsageError(fault, hint="mend it, or leave out the queries that use it")

    def check(self, lookups: Iterable[Lookup]) -> None:
        """Refuse what a new query wants to look up, where that has no answer."""
        with self._lock:
            for name, mine in self._by_table(lookups).items():
                rows = self._known_rows(name)
                if rows is not None:
                    _refuse_repeated(mine, rows)
                elif (fault := self._look(name, mine).fault) is not None:
                    raise UsageError(fault)

    def at(self, batch: int, lookups: Iterable[Lookup]) -> tuple[TableVersion, ...]:
        """The versions that a micro-batch goes by; written down before it begins."""
        wanted = self._by_table(lookups)
        with self._lock:
            for name, mine in wanted.items() if batch > self._tried else ():
                self._renew(name, mine, batch)
            self._tried = max(batch, self._tried)
        found = [self._log.at(name, batch) for name in wanted]
        return tuple(TableVersion(version.table, version.number) for version in found if version is not None)

    @property
    def address(self) -> Address | None:
        """Where tasks ask for versions; None where the job has no tables."""
        return self._desk.address if self._desk is not None else None

    def close(self) -> None:
        if self._desk is not None:
            self._desk.close()

    def forget(self, batch: int) -> None:
        """Remove the versions that only micro-batches before this one went by."""
        self._log.forget(batch)

    def status(self, batch: int) -> dict[str, TableStatus]:
        """What the status says of each table after a micro-batch."""
        found: dict[str, TableStatus] = {}
        for name, look in self._looks.items():
            version = self._log.at(name, batch) or Version(name, 0, batch, 0)
            found[name] = TableStatus(version.number, version.first_batch, version.rows, look.fault)
        return found

    def _by_table(self, lookups: Iterable[Lookup]) -> dict[str, list[Lookup]]:
        """Lookups by their tables; those of tables that are declared no more, nobody needs."""
        found: dict[str, list[Lookup]] = {}
        for lookup in lookups:
            if lookup.table in self._tables:
                found.setdefault(lookup.table, []).append(lookup)
        return found

    def _renew(self, name: str, lookups: list[Lookup], batch: int) -> None:
        """Begin another version of a table with a micro-batch, where it has changed for the better."""
        look = self._looks.get(name)
        if look is None or (look.rows is None and self._is_due(name, look)):
            look = self._looks[name] = self._look(name, lookups)
        if look.rows is not None:
            before = self._known_rows(name)
            if before is None or not before.equals(look.rows):
                version = self._log.write(name, batch, look.rows)
                self._last[name] = version.number, look.rows
            look.rows = None

    def _is_due(self, name: str, look: _Look) -> bool:
        """Whether to look into a table again."""
        passed, stamp = self._clock() - look.at, reading.stamp(self._tables[name])
        if stamp is None:
            return passed >= AGAIN_S
        return stamp != look.stamp or (look.fault is not None and passed >= RETRY_S)

    def _look(self, name: str, lookups: list[Lookup]) -> _Look:
        table = self._tables[name]
        look = _Look(reading.stamp(table), self._clock())
        try:
            reading.check_table(table)
            rows = self._read(table)
            _refuse_repeated(lookups, rows)
            look.rows = rows
        except MuntinError as error:
            look.fault = error.message
        return look

    def _known_rows(self, name: str) -> pa.Table | None:
        """The rows of the last version, None where there is none."""
        versions = self._log.of(name)
        if not versions:
            return None
        number = versions[-1].number
        if name not in self._last or self._last[name][0] != number:
            self._last[name] = number, read_table(self._log.content(name, number))
        return self._last[name][1]


def open_tables(spark: SparkSession, folder: Location, tables: Mapping[str, DimensionTable], tried: int) -> TableKeeper:
    """The tables of a pipeline whose last micro-batch, as far as Spark knows, is `tried`."""
    place = HubPlace.of(spark.sparkContext.getConf()) if tables else None
    return TableKeeper(folder, tables, lambda table: reading.read(spark, table), tried, place)


def _refuse_repeated(lookups: list[Lookup], rows: pa.Table) -> None:
    for lookup in lookups:
        found = repeated_keys(lookup, rows)
        if found is not None:
            keys = "key" if found.count == 1 else "keys"
            raise UsageError(
                f"table {lookup.table} has {found.count:,} {keys} more than once, such as {found.example}; "
                f"{lookup.text} would make several rows of one",
                hint="let each key have one row, or join by more columns",
            )
