"""The sink: tasks merge the shards' runs, route them to the queries and write; the driver publishes.

One Spark action per micro-batch: `mapInArrow(task).collect()` brings back small JSON messages, and the tables
themselves only where the rows go to a callable of the user's. Each task handles one part: a time range of all shards
where the order is global, one shard where it is per key.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.core.aggregates import GroupValues, finish
from muntin.core.punctuations import in_order, punctuation_schema
from muntin.core.results import OutputColumns, ResultBatch, output_schema, routed, unite
from muntin.core.storage import read_table, table_bytes
from muntin.model import Query, UsageError
from muntin.plan import Plan
from muntin.plan.families import distinct_values_sent
from muntin.plan.punctuation_modes import are_used
from muntin.spark.checkpoint import WHAT_TO_DO, DamageError, FileKind, Manifest, Publisher, Staged, from_line, to_line
from muntin.spark.exchange import Frame, FrameKind, Topology, decode
from muntin.spark.ingest import dead_letters
from muntin.spark.sink.eager_hub import EagerHub
from muntin.spark.sink.response_times import Latency
from muntin.spark.sink.targets import Target
from muntin.spark.worker import set_aside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = pa.schema([pa.field("message", pa.string()), pa.field("table", pa.binary())])
DDL = "message string, table binary"
SCHEMA_FILE = "00-schema.parquet"
COLUMNS = b"muntin.columns"
"""Key of the schema file's metadata under which stand all columns that the folder's files have had."""
COMPRESSION = "snappy"

Callback = Callable[[str, pa.Table, int], None]
"""`sink(query_name, table, batch_id)`; a batch comes again after a crash in the middle of it, with the same id.

Punctuations of a query's output come as `<query>/_punctuations`.
"""
Message = tuple[dict[str, Any], bytes | None]


@dataclass(frozen=True)
class SinkTask:
    """The task function of the sink. Where the operators count the results, none arrive here."""

    topology: Topology
    staging: str | None
    hand_over: bool

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frames = [decode(value, "a frame for the sink") for batch in batches for value in batch["frame"].to_pylist()]
        for message, table in self.messages(frames):
            yield pa.record_batch([pa.array([json.dumps(message)]), pa.array([table], pa.binary())], schema=SCHEMA)
        set_aside()

    def messages(self, frames: list[Frame]) -> Iterator[Message]:
        """What the driver must know of this task's frames; files are written on the way."""
        for frame in frames:
            if frame.kind == FrameKind.COUNTERS:
                report = dict(frame.header)
                yield {"type": "operator", "came": report.pop("came", {}), "operator": report}, None
        sent = [frame for frame in frames if frame.kind == FrameKind.LETTERS]
        if self.topology.counting:
            yield from (({"type": "letters", "letters": frame.header["classes"]}, None) for frame in sent)
            return
        turned_away = [(frame.header["part"], frame.table()) for frame in sent]
        yield from self._punctuations([frame for frame in frames if frame.kind == FrameKind.PUNCTUATIONS])
        yield from self._results([frame for frame in frames if frame.kind == FrameKind.RUN])
        yield from self._aggregates([frame for frame in frames if frame.kind == FrameKind.VALUES], turned_away)
        if turned_away:
            table = pa.concat_tables([table for _, table in turned_away])
            yield {"type": "letters", "letters": dead_letters.by_class(table)}, None
            yield from self._deliver(dead_letters.NAME, turned_away[0][0], table)

    def _punctuations(self, frames: list[Frame]) -> Iterator[Message]:
        """What the shards of this part say of the queries' outputs, in order of event time."""
        told: dict[str, list[Frame]] = defaultdict(list)
        for frame in sorted(frames, key=lambda f: f.header["part"]):
            told[frame.header["query"]].append(frame)
        for name, pieces in sorted(told.items()):
            table = in_order([piece.table() for piece in pieces])
            yield from self._deliver(punctuations_of(name), pieces[0].header["part"], table)

    def _results(self, frames: list[Frame]) -> Iterator[Message]:
        runs: dict[tuple[int, int], list[Frame]] = defaultdict(list)
        for frame in sorted(frames, key=lambda f: f.header["shard"]):
            runs[frame.header["join"], frame.header["part"]].append(frame)
        plan = self.topology.epoch(frames[0].header["epoch"]).plan if frames else self.topology.plan
        feeds = Counter(query.name for join in plan.joins for query in join.queries)
        divided: dict[tuple[str, int], list[pa.Table]] = defaultdict(list)
        for (index, part), pieces in sorted(runs.items()):
            join = plan.join(index)
            assert join is not None
            run = ResultBatch.merge([ResultBatch.from_bytes(join, bytes(piece.payload)) for piece in pieces])
            columns, discards = OutputColumns(run), self.staging is None and not self.hand_over
            for query, places in routed(join, run):
                yield {"type": "rows", "came": {query.name: run.arrivals(places)}}, None
                if discards:
                    continue
                table = columns.output(query, places)
                if feeds[query.name] > 1:
                    divided[query.name, part].append(table)
                else:
                    yield from self._deliver(query.name, part, table)
        for (name, part), tables in divided.items():
            yield from self._deliver(name, part, unite(plan.queries[name], tables))

    def _aggregates(self, frames: list[Frame], turned_away: list[tuple[int, pa.Table]]) -> Iterator[Message]:
        """The rows of queries with aggregates, from what all shards told of them; dead letters are added."""
        told: dict[tuple[str, int], list[Frame]] = defaultdict(list)
        for frame in sorted(frames, key=lambda f: (f.header["join"], f.header["shard"])):
            told[frame.header["query"], frame.header["part"]].append(frame)
        for (name, part), pieces in sorted(told.items()):
            plan = self.topology.epoch(pieces[0].header["epoch"]).plan
            join, query = plan.join(pieces[0].header["join"]), plan.queries[name]
            assert join is not None
            values = [GroupValues.read(piece.header, bytes(piece.payload)) for piece in pieces]
            table, faults = finish(query, values, distinct_values_sent(join, query))
            if faults.num_rows:
                turned_away.append((part, dead_letters.overflows(query, faults)))
            if table.num_rows:
                yield {"type": "rows", "rows": {name: table.num_rows}}, None
                yield from self._deliver(name, part, table)

    def _deliver(self, name: str, part: int, table: pa.Table) -> Iterator[Message]:
        """Stage a table as a file, or hand it to the driver."""
        if self.staging is not None:
            os.makedirs(self.staging, exist_ok=True)
            file = Path(self.staging) / f"{uuid.uuid4().hex}.parquet"
            write_parquet(table, file)
            path = f"{file.parent.parent.name}/{file.parent.name}/{file.name}"
            yield {"type": "file", "file": asdict(Staged(path, name, part, table.num_rows))}, None
        elif self.hand_over:
            yield {"type": "table", "name": name, "part": part}, table_bytes(table).to_pybytes()


def write_parquet(table: pa.Table, file: Path) -> None:
    """Dictionaries for texts only: for numbers they took six times as long to write and more room. Pages have
    checksums, so that readers can tell a damaged one."""
    texts = [f.name for f in table.schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    pq.write_table(table, file, compression=COMPRESSION, use_dictionary=texts or False, write_page_checksum=True)


@dataclass(frozen=True)
class Eager:
    """Results that are handed over while the tasks run."""

    hub: EagerHub
    target: Target

    def complete(self, reports: list[dict[str, Any]]) -> list[str]:
        """The tasks are done: all that they found has been handed over; the files that this made."""
        self.hub.finish((r["join"], r["shard"]) for r in reports if not r.get("gone"))
        return self.target.commit()

    def close(self) -> None:
        self.hub.close()
        self.target.close()


class Sink:
    """The driver's half, called by Spark once per micro-batch."""

    def __init__(
        self, topology: Topology, publisher: Publisher, callback: Callback | None = None, eager: Eager | None = None
    ):
        self.topology = topology
        self.publisher = publisher
        self.callback = callback
        self._eager = eager
        self.latency: dict[str, Latency] = eager.hub.latency if eager else {}
        """How long the rows of each query have taken, in this run."""

    def write(self, frame: DataFrame, batch: int) -> Manifest:
        """Run the micro-batch, also one that is committed already: Spark must commit its state.

        After a failure what was staged stays: if the manifest was written, the files are still to be renamed.
        """
        staging = self.publisher.stage(batch)
        task = SinkTask(self.topology, str(staging) if staging else None, self.callback is not None)
        new = not self.publisher.is_committed(batch)
        if self._eager:
            self._eager.hub.begin(batch, muted=not new)
        try:
            messages = self._run(frame, task)
        except BaseException:
            if self._eager and (failure := self._eager.hub.failed()) is not None:
                raise failure from None
            raise
        written: list[str] = []
        if self._eager:
            written = self._eager.complete(
                [message["operator"] for message, _ in messages if message["type"] == "operator"]
            )
        if new:
            self._hand_over(messages, batch)
        manifest = self._publish([message for message, _ in messages], batch, written)
        if new:
            self._note([message for message, _ in messages], time.time_ns() // 1000)
        if staging:
            shutil.rmtree(staging, ignore_errors=True)
        return manifest

    def _run(self, frame: DataFrame, task: SinkTask) -> list[Message]:
        """The one action. What was only counted is so little that the driver reads it itself."""
        if self.topology.counting:
            return list(task.messages([decode(row["frame"], "a frame for the sink") for row in frame.collect()]))
        return [(json.loads(row["message"]), row["table"]) for row in frame.mapInArrow(task.run, DDL).collect()]

    def _hand_over(self, messages: list[Message], batch: int) -> None:
        if self.callback is None:
            return
        tables = [(m["name"], m["part"], data) for m, data in messages if m["type"] == "table"]
        for name, _, data in sorted(tables, key=lambda t: t[:2]):
            self.callback(name, read_table(bytes(data or b"")), batch)

    def _note(self, messages: list[dict[str, Any]], now: int) -> None:
        """Rows count as handed over with the commit of their micro-batch."""
        for message in messages:
            for name, came in message.get("came", {}).items():
                moments = {int(moment): rows for moment, rows in came.items()}
                self.latency.setdefault(name, Latency()).add_since(moments, now)

    def _publish(self, messages: list[dict[str, Any]], batch: int, written: list[str]) -> Manifest:
        rows: Counter[str] = Counter(self._eager.hub.rows if self._eager else {})
        turned_away: Counter[str] = Counter()
        for message in messages:
            rows.update({name: sum(came.values()) for name, came in message.get("came", {}).items()})
            rows.update(message.get("rows", {}))  # of groups, which complete with time and not with a row
            turned_away.update(message.get("letters", {}))
        reports = [m["operator"] for m in messages if m["type"] == "operator"]
        return self.publisher.publish(
            batch,
            [Staged(**m["file"]) for m in messages if m["type"] == "file"],
            rows,
            turned_away,
            {f"{r['join']}/{r['shard']}": r for r in reports},
            written,
        )


def punctuations_of(query: str) -> str:
    """Where the punctuations of a query's output go; readers of the query's own folder pass it over."""
    return f"{query}/_punctuations"


def prepare_output(output: Path, plan: Plan, punctuations: str, eager: bool = False) -> None:
    """Give each query's folder a file with the schema and no rows, so that any reader can open it from the start.

    Lines of JSON have no schema: with eager delivery the rows of queries are not Parquet.
    """
    schemas = {} if eager else {name: output_schema(query) for name, query in plan.queries.items()}
    for join in plan.joins:
        if are_used(join, punctuations):
            schemas |= {punctuations_of(query.name): punctuation_schema(join) for query in join.queries}
    for name, schema in {**schemas, dead_letters.NAME: dead_letters.SCHEMA}.items():
        folder = output / name
        folder.mkdir(parents=True, exist_ok=True)
        if _schema_of(folder) != schema:
            types = columns_ever(folder) | {field.name: str(field.type) for field in schema}
            aside = folder / f".{uuid.uuid4().hex}.tmp"
            noted = to_line(FileKind.COLUMNS, folder.name, types)
            pq.write_table(schema.with_metadata({COLUMNS: noted}).empty_table(), aside)
            os.replace(aside, folder / SCHEMA_FILE)


def columns_ever(folder: Path) -> dict[str, str]:
    """The types of all columns that a query's files have had, by name: it may have been replaced."""
    schema = _schema_of(folder)
    if schema is None:
        return {}
    noted = (schema.metadata or {}).get(COLUMNS, b"")
    return dict(from_line(noted, FileKind.COLUMNS, folder.name, None, str(folder / SCHEMA_FILE)))


def _schema_of(folder: Path) -> pa.Schema | None:
    """The schema that a query's folder shows its readers, None where it shows none yet."""
    file = folder / SCHEMA_FILE
    try:
        return pq.read_schema(file)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException):
        raise DamageError(f"{file} is damaged: it is not Parquet", hint=WHAT_TO_DO[FileKind.COLUMNS]) from None


def check_columns(output: Path, query: Query) -> None:
    """Refuse a query with a column of another type than in files that lie in its folder already: no reader could take
    them together. Columns may come and go: files are read by the names of columns, and what one lacks is NULL."""
    before = columns_ever(output / query.name)
    for field in output_schema(query):
        if before.get(field.name, str(field.type)) != str(field.type):
            raise UsageError(
                f"query {query.name}: column {field.name} is {field.type}, but {before[field.name]} in the files that "
                f"{output / query.name} has already",
                hint="give the column another name, or the query",
            )
