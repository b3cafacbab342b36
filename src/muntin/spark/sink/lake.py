"""What the sinks of lake tables have in common: tasks write files, and one commit of a table adopts a micro-batch.

    stage       tasks write Parquet files into the table's place, where no reader looks (`table_files.py`)
    manifest    names the files of each table: from here on the micro-batch counts
    complete    the table adopts them in one commit of its own, which also says the number of the micro-batch

A crash before the manifest leaves files that the next start removes. One after it is completed by the next start: the
table itself says whether it has this micro-batch. So readers see whole micro-batches, each once.

A table bears the name of its writer: the id of the checkpoint, and the query. So two jobs do not mix their rows in one
table. Others may add rows of their own.
"""

from __future__ import annotations

import importlib.util
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from muntin.core.results import output_schema
from muntin.model import MuntinError, Query, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.checkpoint import BatchOutcome, Manifest, Publisher, TableFile
from muntin.spark.sink.parquet import beside_rows, rows_of
from muntin.spark.sink.sink import OutputRequest, Sink, Stager
from muntin.spark.sink.table_files import StageTableFiles, remove, sweep
from muntin.spark.store import crash_points

WRITER = "muntin.writer"
"""The property of a table that says who writes it."""
AT_ONCE = 8
"""Tables that commit at the same time: on an object store a commit takes its time, and little of ours."""
TRIES = 5
"""How often a commit is tried that others came before."""


class LakeTable(ABC):
    """One table of a lake, as a library opens it."""

    place: str
    """Where its files are, for `table_files`."""

    @abstractmethod
    def types(self) -> Mapping[str, str]:
        """The types of its columns by name, in the words of its format."""

    @abstractmethod
    def required(self) -> set[str]:
        """The columns that must have a value in each row."""

    @abstractmethod
    def properties(self) -> Mapping[str, str]: ...

    @abstractmethod
    def last_batch(self, writer: str) -> int | None:
        """The last micro-batch that it has of a writer, as it stands now; None where it has none."""

    @abstractmethod
    def add_columns(self, schema: pa.Schema) -> None:
        """Take in the columns of a schema that it has not."""

    @abstractmethod
    def set_property(self, name: str, value: str) -> None: ...

    @abstractmethod
    def adopt(self, files: list[TableFile], writer: str, batch: int) -> None:
        """Take in the files of a micro-batch, and its number, in one commit."""


class LakeSink(Sink):
    """Sinks of lake tables. As the output of a job it has a table for each query, as a place of a query that table."""

    exactly_once = True
    takes_eager = False
    library: ClassVar[str]
    """The package that it needs, which is also the name of an extra of ours."""
    extra: ClassVar[str]

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        if importlib.util.find_spec(self.library) is None:
            message = f"rows go to {self.noun} only with the package {self.library}"
            raise UsageError(message, hint=f"pip install 'muntin[{self.extra}]'")
        if request.into is not None and request.into.options:
            raise UsageError(f"INTO {self.into_word} takes no options", hint="leave WITH (...) out")
        self._tables: dict[str, LakeTable] = {}

    # -- for each format ------------------------------------------------------------------------------------------

    def address(self, name: str) -> str:
        """The whole name of a table of rows."""
        raise NotImplementedError

    def find(self, address: str) -> LakeTable | None:
        """The table with a name, None where there is none."""
        raise NotImplementedError

    def create(self, address: str, schema: pa.Schema, writer: str) -> LakeTable:
        raise NotImplementedError

    def types_of(self, schema: pa.Schema) -> Mapping[str, str]:
        """The types of columns in the words of the format; raises for one that it has not."""
        raise NotImplementedError

    # -- before micro-batches -------------------------------------------------------------------------------------

    def check(self, query: Query) -> None:
        address = self.address(query.name)
        wanted = self._types(query.name, output_schema(query))
        with telling(address, "cannot be read"):
            table = self.find(address)
            found = table.types() if table is not None else {}
            writer = table.properties().get(WRITER) if table is not None else None
            required = table.required() if table is not None else set()
        self._check_writer(address, query.name, writer)
        if missing := sorted(required - set(wanted)):
            message = f"query {query.name} has no column {missing[0]}, which the table {address} requires"
            raise UsageError(message, hint="select it under this name, or name another table")
        for name, kind in wanted.items():
            if found.get(name, kind) != kind:
                raise UsageError(
                    f"query {query.name}: column {name} is {kind}, but {found[name]} in the table {address}",
                    hint="give the column another name, or name another table",
                )

    def _types(self, query: str, schema: pa.Schema) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for column in schema:
            try:
                found |= self.types_of(pa.schema([column]))
            except Exception:
                raise UsageError(
                    f"query {query}: column {column.name} is {column.type}, which {self.noun} cannot carry",
                    hint="leave the column out, or cast it",
                ) from None
        return found

    def _check_writer(self, address: str, name: str, writer: str | None) -> None:
        if self.job is None or writer in (None, self._writer(name)):
            return
        job, _, query = (writer or "").partition("/")
        whose = f"query {query} of this job" if job == self.job else "another checkpoint"
        raise UsageError(f"the table {address} has the rows of {whose}", hint="name another table")

    def _writer(self, name: str) -> str:
        return f"{self.job}/{name}"

    def attached(self, pipeline: int, publisher: Publisher) -> Self:
        mine = super().attached(pipeline, publisher)
        mine._tables = {}
        return mine

    def prepare(self, plan: Plan, settings: Settings) -> None:
        schemas = rows_of(plan, self.request.into)
        if self.request.into is None:
            schemas |= beside_rows(plan, settings)
        for name, schema in schemas.items():
            with telling(self.address(name), "cannot be prepared"):
                self._prepare_table(name, schema)

    def _prepare_table(self, name: str, schema: pa.Schema) -> None:
        address = self.address(name)
        table = self._tables.get(name) or self.find(address)
        if table is None:
            table = self.create(address, schema, self._writer(name))
        if name not in self._tables:
            self._check_writer(address, name, table.properties().get(WRITER))
            self._check_moment(address, table)
            last = self.publisher.last
            adopted = {file.path for file in last.adopted.get(address, ())}
            sweep(table.place, self.publisher.prefix, last.batch, adopted)
            if WRITER not in table.properties():
                table.set_property(WRITER, self._writer(name))
        if not set(schema.names) <= set(table.types()):
            table.add_columns(schema)
        self._tables[name] = table

    def _check_moment(self, address: str, table: LakeTable) -> None:
        """Refuse a table and a checkpoint of which one was restored from a back-up and the other was not."""
        last, has = self.publisher.last, table.last_batch(self._transactions)
        told = last.tables.get(address, -1)
        if has is not None and has > last.batch:
            raise MuntinError(
                f"the checkpoint is older than the table {address}: its last micro-batch is {last.batch}, but the "
                f"table has rows of micro-batch {has}, which would come twice",
                hint="restore both of one moment, or begin anew with another `checkpoint=` and other tables",
            )
        if (-1 if has is None else has) < told:
            raise MuntinError(
                f"the table {address} is older than the checkpoint: it lacks micro-batch {told}",
                hint="restore both of one moment, or begin anew with another `checkpoint=` and other tables",
            )

    @property
    def _transactions(self) -> str:
        """Under which name a table counts the micro-batches of this pipeline."""
        return f"muntin/{self.publisher.job or 'nobody'}/{self.publisher.prefix}"

    # -- micro-batches --------------------------------------------------------------------------------------------

    def stager(self, batch: int) -> Stager:
        places = {name: table.place for name, table in self._tables.items()}
        return StageTableFiles(places, self.publisher.prefix, batch, uuid.uuid4().hex[:8])

    def hand_over(self, done: BatchOutcome) -> None:
        for staged in done.staged:
            done.adopted.setdefault(self.address(staged.name), []).extend(staged.files)
        done.staged = []

    def discard(self, done: BatchOutcome) -> None:
        for staged in done.staged:
            remove(self._tables[staged.name].place, [file.path for file in staged.files])
        done.staged = []

    def complete(self, manifest: Manifest) -> None:
        mine = [address for address in manifest.adopted if self._is_mine(address)]
        if mine:
            with ThreadPoolExecutor(min(AT_ONCE, len(mine))) as pool:
                list(pool.map(lambda address: self._adopt(address, manifest), mine))

    def _is_mine(self, address: str) -> bool:
        raise NotImplementedError

    def _adopt(self, address: str, manifest: Manifest) -> None:
        """Let a table take in its files, unless it has. Where others were first, it is read anew and tried again."""
        for attempt in range(TRIES):
            table = next((t for name, t in self._tables.items() if self.address(name) == address), None)
            with telling(address, "cannot be written"):
                table = table or self.find(address)
                if table is None:
                    raise MuntinError(f"the table {address} is gone", hint="restore it, or begin anew")
                has = table.last_batch(self._transactions)
                if has is not None and has >= manifest.batch:
                    return
                try:
                    with crash_points.durable("table commit"):
                        table.adopt(manifest.adopted[address], self._transactions, manifest.batch)
                    return
                except Exception as error:
                    if attempt + 1 == TRIES or not self.is_conflict(error):
                        raise

    def is_conflict(self, error: Exception) -> bool:
        """Whether a commit failed since another one came before it."""
        raise NotImplementedError

    def default_checkpoint(self) -> str | Path | None:
        raise UsageError(f"a run that writes {self.noun} needs a checkpoint", hint="name one with `checkpoint=`")


@contextmanager
def telling(address: str, what: str) -> Iterator[None]:
    """What a library raises, as one message about a table; the stack that some put into their texts is left out."""
    try:
        yield
    except MuntinError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = lines[0] if lines else type(error).__name__
        raise MuntinError(
            f"the table {address} {what}: {said}",
            hint="see that the storage can be reached and that its keys are in the environment; then start again with "
            "the same checkpoint: nothing is lost",
        ) from error
