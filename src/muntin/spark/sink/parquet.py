"""Parquet files in a folder for each query, exactly once: the sink of `--output DIR`.

Tasks write files below `_staging`, and the commit gives them the names `<query>/b<batch>-<part>.parquet`. Each folder
has a file with the schema and no rows, so that any reader can open it from the start.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.core.punctuations import punctuation_schema
from muntin.core.results import output_schema
from muntin.model import Destination, Query, Settings, UsageError
from muntin.plan import Plan
from muntin.plan.punctuation_modes import are_used
from muntin.spark.checkpoint import (
    WHAT_TO_DO,
    DamageError,
    FileKind,
    Lock,
    from_line,
    identity,
    read_manifests,
    to_line,
)
from muntin.spark.ingest import dead_letters
from muntin.spark.sink.compaction import Compacted, compact_folder, sweep_aside
from muntin.spark.sink.sink import OutputRequest, Sink, StageFiles, Stager
from muntin.spark.store import Location, crash_points, locate, store_of

SCHEMA_FILE = "00-schema.parquet"
COLUMNS = b"muntin.columns"
"""Key of the schema file's metadata under which stand all columns that the folder's files have had."""
COMPRESSION = "snappy"
BATCH = 1 << 14
"""Values of a column that are encoded at a time."""


class FolderSink(Sink):
    """Publishes files in a folder for each query, and keeps the checkpoint there if nobody names another place."""

    exactly_once = True
    folder: Path

    def __init__(self, request: OutputRequest):
        super().__init__(request)
        text = (request.output or "").removeprefix(self.scheme)
        place = locate(text)
        if not isinstance(place, Path):
            hint = f"name a folder, or write Parquet: `output=` with {text} alone and batch delivery"
            raise UsageError(f"{self.noun} cannot be written to {text}", hint=hint)
        self.folder = place.absolute()

    @property
    def description(self) -> str:
        return f"{self.scheme}{self.folder}"

    def default_checkpoint(self) -> str | Path | None:
        return self.folder / "_checkpoint"

    def prepare(self, plan: Plan, settings: Settings) -> None:
        for name in self.schemas(plan, settings):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def schemas(self, plan: Plan, settings: Settings) -> dict[str, pa.Schema]:
        """The folders of a plan, and the columns of their files."""
        return rows_of(plan, None) | beside_rows(plan, settings)


class ParquetFolders(FolderSink):
    name = "parquet"
    spelling = "DIR"
    scheme = ""
    noun = "Parquet files"
    summary = "Parquet files in DIR/<query>/, whose names sort in output order"
    takes_eager = False

    def check(self, query: Query) -> None:
        check_columns(self.folder, query)

    def prepare(self, plan: Plan, settings: Settings) -> None:
        super().prepare(plan, settings)
        for name, schema in self.schemas(plan, settings).items():
            show_schema(self.folder / name, schema)

    def compact(self, queries: Sequence[str], least: int, checkpoint: Path | None) -> list[Compacted]:
        place = checkpoint or self.folder / "_checkpoint"
        if (job := identity.id_if_claimed(place)) is None:
            raise UsageError(f"{place} is not the checkpoint of a job", hint=f"name that of {self.folder}")
        identity.check_output(self.folder, job)
        folders = sorted(path.name for path in self.folder.iterdir() if _has_rows(path))
        for query in queries:
            if query not in folders:
                raise UsageError(f"{self.folder} has no query {query}", hint=f"it has {', '.join(folders) or 'none'}")
        lock = Lock(place)
        try:
            sweep_aside(self.folder)
            pipelines = [identity.pipeline_folder(place, n) for n in identity.pipeline_numbers(place)]
            kept = {name for folder in pipelines for manifest in read_manifests(folder) for name in manifest.files}
            return [compact_folder(self.folder, name, kept, least) for name in queries or folders]
        finally:
            lock.release()

    def compact_query(self, query: Query, kept: Collection[str], least: int) -> None:
        compact_folder(self.folder, query.name, kept, least)

    def stager(self, batch: int) -> Stager:
        return StageFiles(str(self.publisher.staging_folder(batch)), ".parquet", write_parquet)


def check_columns(output: Location, query: Query) -> None:
    """Refuse a query with a column of another type than in files that lie in its folder already: no reader could take
    them together. Columns may come and go: files are read by the names of columns, and what one lacks is NULL."""
    before = columns_ever(output / query.name)
    for field in output_schema(query):
        if before.get(field.name, str(field.type)) != str(field.type):
            raise UsageError(
                f"query {query.name}: column {field.name} is {field.type}, but {before[field.name]} in the files "
                f"that {output / query.name} has already",
                hint="give the column another name, or the query",
            )


def _has_rows(folder: Path) -> bool:
    """Whether a folder of the output is that of a query, or of dead letters."""
    return folder.is_dir() and (folder / SCHEMA_FILE).exists()


def rows_of(plan: Plan, into: Destination | None) -> dict[str, pa.Schema]:
    """The columns of the queries whose rows go to a place, None for the output of the job."""
    return {name: output_schema(query) for name, query in plan.queries.items() if query.into == into}


def beside_rows(plan: Plan, settings: Settings) -> dict[str, pa.Schema]:
    """The tables beside those of the queries' rows: punctuations of their outputs, and dead letters."""
    schemas = {dead_letters.NAME: dead_letters.SCHEMA}
    for join in plan.joins:
        if are_used(join, settings.punctuations):
            schemas |= {punctuations_of(query.name): punctuation_schema(join) for query in join.queries}
    return schemas


def punctuations_of(query: str) -> str:
    """Where the punctuations of a query's output go; readers of the query's own folder pass it over."""
    return f"{query}/_punctuations"


def parquet_bytes(table: pa.Table) -> bytes:
    """A file that is still in memory."""
    out = pa.BufferOutputStream()
    write_parquet(table, out)
    return out.getvalue().to_pybytes()


def write_parquet(table: pa.Table, file: Path | pa.NativeFile) -> None:
    """Dictionaries for texts only: for numbers they took six times as long to write and more room. Pages have
    checksums, so that readers can tell a damaged one."""
    write_rows(table, file, use_dictionary=texts_of(table.schema) or False)


def write_rows(table: pa.Table, file: Path | pa.NativeFile, **encodings: Any) -> None:
    """A file of rows, with what is said of the encodings of its columns."""
    options = {"compression": COMPRESSION, "write_page_checksum": True, "write_batch_size": BATCH} | encodings
    pq.write_table(table, file, **options)


def texts_of(schema: pa.Schema) -> list[str]:
    """The columns of texts."""
    return [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]


def show_schema(folder: Location, schema: pa.Schema) -> None:
    """Put the schema file into a folder, unless it shows these columns already."""
    if schema_of(folder) != schema:
        types = columns_ever(folder) | {field.name: str(field.type) for field in schema}
        shown = schema.with_metadata({COLUMNS: to_line(FileKind.COLUMNS, folder.name, types)}).empty_table()
        with crash_points.durable(FileKind.COLUMNS):
            store_of(folder).put(folder / SCHEMA_FILE, parquet_bytes(shown))


def columns_ever(folder: Location) -> dict[str, str]:
    """The types of all columns that a query's files have had, by name: it may have been replaced."""
    schema = schema_of(folder)
    if schema is None:
        return {}
    noted = (schema.metadata or {}).get(COLUMNS, b"")
    return dict(from_line(noted, FileKind.COLUMNS, folder.name, None, str(folder / SCHEMA_FILE)))


def schema_of(folder: Location) -> pa.Schema | None:
    """The schema that a query's folder shows its readers, None where it shows none yet."""
    file = folder / SCHEMA_FILE
    try:
        return pq.read_schema(pa.BufferReader(store_of(file).read(file)))
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException):
        raise DamageError(f"{file} is damaged: it is not Parquet", hint=WHAT_TO_DO[FileKind.COLUMNS]) from None
