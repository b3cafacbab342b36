"""Every sink delivers as it promises, wherever a process dies; without Spark."""

from __future__ import annotations

import atexit
import csv
import json
import shutil
import socket
import tempfile
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from obstore.store import MemoryStore
from pyiceberg.catalog import load_catalog

from muntin.cli.run import Spellings
from muntin.core.results import BITS, OUTPUT_TS, PairSlices
from muntin.model import Settings, UsageError
from muntin.plan import share
from muntin.spark.brokers.nats import NatsBroker
from muntin.spark.checkpoint import (
    FileKind,
    Manifest,
    ObjectPublisher,
    commit_log,
    committed_files,
    last_manifest,
)
from muntin.spark.checkpoint import publisher as publishing
from muntin.spark.checkpoint.publisher import STAGING, Publisher
from muntin.spark.sink.callback import BATCH_BITS, CallbackSink
from muntin.spark.sink.iceberg import CATALOGS, IcebergTables
from muntin.spark.sink.kafka import batches_topic, writer_id
from muntin.spark.sink.lake import LakeSink
from muntin.spark.sink.messages import TaskMessage, outcome_of
from muntin.spark.sink.reading import read
from muntin.spark.sink.registry import SINKS, open_sink
from muntin.spark.sink.sink import OutputRequest, Sink
from muntin.spark.sink.slice_folders import keeps_slices, slice_folder
from muntin.spark.sink.sliced import SlicedParquet
from muntin.spark.store import ObjectPath, locate
from muntin.spark.store.locate import BACKENDS, bucket
from muntin.sql import parse_job
from servers import MockKafka, Nats

PLAN = share(
    parse_job(
        "CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'a');"
        "CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'b');"
        "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;"
    )
)
PARTS = 2
START_MS = 1_700_000_000_000
WAYS = [
    (kind, eager) for kind in SINKS for eager in (False, True) if (kind.takes_eager if eager else kind.takes_batches)
]
"""Each kind with each delivery that it goes with."""
every_sink = pytest.mark.parametrize(
    ("kind", "eager"), WAYS, ids=[f"{kind.name}, {'eager' if eager else 'batch'}" for kind, eager in WAYS]
)


@pytest.fixture(autouse=True)
def objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Object storage of this process."""
    monkeypatch.setitem(BACKENDS, "s3", lambda root: MemoryStore())
    bucket.cache_clear()


class Died(Exception):
    """The process ends here."""


class Reader:
    """Who reads what a sink of a kind delivers: its spelling says where, the names of files say how."""

    def __init__(self, root: Path):
        self.root = root
        self.catalog = f"test{uuid.uuid4().hex}"
        """The name of an Iceberg catalog in this folder."""
        self.calls: list[tuple[str, pa.Table, int]] = []
        self.objects = f"s3://{root.name.replace('_', '-')}/out"
        self.broker: KafkaReader | NatsReader | None = None
        self._lines: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []

    def request(self, kind: type[Sink], eager: bool) -> OutputRequest:
        port = self._server.getsockname()[1]
        output = kind.spelling.replace("s3://BUCKET/DIR", self.objects).replace("HOST:PORT", f"127.0.0.1:{port}")
        if kind is IcebergTables:
            output = f"iceberg:{self.catalog}.space"
            where = {"uri": f"sqlite:///{self.root}/catalog.db", "warehouse": f"file://{self.root}/out"}
            CATALOGS[self.catalog] = load_catalog(self.catalog, **where)
        for folder in ("DIR", "URI"):
            output = output.replace(folder, str(self.root / "out"))
        if kind.scheme in BROKERS:
            self.broker = BROKERS[kind.scheme](self.root)
            return OutputRequest(self.broker.output, eager=eager)
        if kind is CallbackSink:
            return OutputRequest(callback=lambda *call: self.calls.append(call), eager=eager)
        if kind.scheme == "tcp://":
            self._threads.append(threading.Thread(target=self._listen, daemon=True))
            self._threads[-1].start()
        return OutputRequest(output, eager=eager, layout=kind.layouts[0])

    def _listen(self) -> None:
        connection, _ = self._server.accept()
        with connection, connection.makefile("rb") as lines:
            self._lines.extend(lines)

    def keys(self) -> list[int]:
        """The rows of query q that a reader has, in any order."""
        for thread in self._threads:
            thread.join(10)
        sent = [json.loads(line) for line in self._lines]
        found = [row["k"] for row in sent if row["_query"] == "q"]
        found += [k for name, table, _ in self.calls if name == "q" for k in table["k"].to_pylist()]
        found += self.broker.keys() if self.broker is not None else []
        if (self.root / "out" / "q" / "_delta_log").exists():
            return sorted(found + DeltaTable(self.root / "out" / "q").to_pyarrow_table()["k"].to_pylist())
        if (self.root / "catalog.db").exists():
            return sorted(found + CATALOGS[self.catalog].load_table("space.q").scan().to_arrow()["k"].to_pylist())
        if keeps_slices(self.root / "out"):
            return sorted(found + read(self.root / "out", "q").to_table()["k"].to_pylist())
        for file in sorted((self.root / "out" / "q").glob("*b*")):
            found += READERS[file.suffix](file)
        place = locate(self.objects)
        assert isinstance(place, ObjectPath)
        for name in committed_files(place, "q"):
            found += pq.read_table(pa.BufferReader(place.store.read(place / name)))["k"].to_pylist()
        return sorted(found)


def _json_keys(file: Path) -> list[int]:
    return [json.loads(line)["k"] for line in file.read_text().splitlines()]


def _csv_keys(file: Path) -> list[int]:
    with file.open(newline="") as opened:
        return [int(row["k"]) for row in csv.DictReader(opened)]


READERS: dict[str, Callable[[Path], list[int]]] = {
    ".parquet": lambda file: pq.read_table(file, partitioning=None)["k"].to_pylist(),
    ".jsonl": _json_keys,
    ".csv": _csv_keys,
}


SLICES = PairSlices(PLAN.joins[0])


def rows_of(batch: int, part: int) -> list[int]:
    return [100 * batch + 10 * part + n for n in range(3)]


def table(batch: int, part: int) -> pa.Table:
    keys = rows_of(batch, part)
    times = pa.array([1000 * (START_MS + k) for k in keys], OUTPUT_TS.type)
    return pa.table({"k": pa.array(keys, pa.int64()), OUTPUT_TS.name: times})


def staged(kind: type[Sink], rows: pa.Table) -> tuple[str, pa.Table]:
    """Where rows of query q are staged, and as what."""
    if not issubclass(kind, SlicedParquet):
        return "q", rows
    bits = pa.array([SLICES.layout.queries["q"].bit] * rows.num_rows)
    return slice_folder(SLICES.layout, 0), rows.add_column(1, BITS, bits)


@cache
def kafka() -> MockKafka:
    return MockKafka()


@cache
def nats() -> Nats:
    server = Nats(Path(tempfile.mkdtemp(prefix="muntin-nats-")))
    atexit.register(shutil.rmtree, server.folder, ignore_errors=True)
    atexit.register(server.stop)
    return server


class KafkaReader:
    """Reads the committed messages of a query's topic with kafka-python: keys are the join key, times are `_ts`."""

    def __init__(self, root: Path):
        self.prefix = f"{root.name}."
        self.output = f"kafka:{kafka().address}/{self.prefix}"
        folders = [Publisher(root / f"ckpt{pipeline}", None).log.folder for pipeline in (0, 1)]
        marks = [batches_topic(self.prefix, writer_id(None, folder), n) for n, folder in enumerate(folders)]
        kafka().make(f"{self.prefix}q", f"{self.prefix}_dead_letters", *marks)

    def keys(self) -> list[int]:
        messages = kafka().read(f"{self.prefix}q")
        rows = [json.loads(message.value) for message in messages]
        assert [int(message.key) for message in messages] == [row["k"] for row in rows]
        assert [message.timestamp for message in messages] == [START_MS + row["k"] for row in rows]
        return [row["k"] for row in rows]


class NatsReader:
    """Reads the messages of a query's subject."""

    def __init__(self, root: Path):
        self.stream = root.name.replace(".", "-")
        address = nats().address.removeprefix("nats://")
        self.output = f"nats:{address}/{self.stream}.?stream={self.stream}"

    def keys(self) -> list[int]:
        options = {"nats.servers": nats().address, "stream": self.stream, "subject": f"{self.stream}.q"}
        with NatsBroker(options) as broker:
            ((log, extent),) = broker.bounds().items()
            found = [value for rows in broker.read(log, *extent, ["value"]) for value in rows["value"]]
        return [json.loads(value)["k"] for value in found]


BROKERS: dict[str, Any] = {"kafka:": KafkaReader, "nats:": NatsReader}


class Process:
    """A run: it opens the sink, recovers, and does micro-batches as the driver and its tasks do."""

    def __init__(self, reader: Reader, kind: type[Sink], eager: bool, pipeline: int = 0):
        opened = open_sink(reader.request(kind, eager))
        assert type(opened) is kind
        self.eager = eager
        prefix = f"p{pipeline:03d}-" if pipeline else ""
        self.sink = opened.attached(pipeline, opened.open_publisher(reader.root / f"ckpt{pipeline}", prefix))
        self.sink.recover()
        self.sink.prepare(PLAN, Settings())

    def stage(self, batch: int) -> list[TaskMessage]:
        """What the tasks do. With eager delivery rows go out on the way, those of a committed micro-batch do not."""
        stager, messages = self.sink.stager(batch), []
        for part in range(PARTS):
            rows = table(batch, part)
            messages.append(TaskMessage(arrivals={"q": [(7, rows.num_rows)]}))
            if self.eager and not self.sink.publisher.is_committed(batch):
                self.sink.deliver("q", rows, batch)
            elif not self.eager and stager.takes_tables:
                where, stored = staged(type(self.sink), rows)
                messages.append(TaskMessage(staged=stager.stage(where, part, stored)))
        return [TaskMessage.from_row(*message.to_row()) for message in messages]

    def run(self, batch: int) -> Manifest:
        return self.sink.commit(outcome_of(batch, self.stage(batch)))


def check(reader: Reader, sink: Sink, batches: int) -> None:
    """All rows are there, once or at least once as the sink says, and the manifests count them once."""
    wanted = sorted(k for batch in range(batches) for part in range(PARTS) for k in rows_of(batch, part))
    assert last_manifest(sink.publisher.log.folder.parent.parent).total_rows == {"q": len(wanted)}
    sink.close()
    got = reader.keys()
    if not sink.stager(99).takes_tables and sink.takes_batches:
        assert got == [], "rows are only counted"
    elif sink.exactly_once:
        assert got == wanted
    else:
        assert sorted(set(got)) == wanted
    for name, rows, number in reader.calls:
        assert name == "q" and number == rows["k"][0].as_py() // 100, "a micro-batch comes again with its number"


@every_sink
def test_rows_of_micro_batches_are_delivered(tmp_path: Path, kind: type[Sink], eager: bool):
    reader = Reader(tmp_path)
    process = Process(reader, kind, eager)
    for batch in range(3):
        process.run(batch)
    check(reader, process.sink, 3)


def die_before_the_manifest(patch: pytest.MonkeyPatch) -> None:
    write = commit_log.write_json

    def dies(file: Path, kind: Any, *rest: Any) -> None:
        if kind is FileKind.MANIFEST:
            raise Died
        write(file, kind, *rest)

    patch.setattr(commit_log, "write_json", dies)


def die_between_manifest_and_renames(patch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any) -> None:
        raise Died

    for kind in (publishing.Publisher, ObjectPublisher):
        patch.setattr(kind, "_complete", dies)


def die_between_two_renames(patch: pytest.MonkeyPatch) -> None:
    replace, done = publishing.os.replace, Counter[str]()

    def dies(source: Path, target: Path) -> None:
        if Path(target).parent.name in ("q", "000") and Path(target).name.startswith("b"):
            if done["renames"]:
                raise Died
            done["renames"] += 1
        replace(source, target)

    patch.setattr(publishing.os, "replace", dies)


def die_before_a_table_commit(patch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any) -> None:
        raise Died

    patch.setattr(LakeSink, "_adopt", dies)


def die_after_a_table_commit(patch: pytest.MonkeyPatch) -> None:
    adopt = LakeSink._adopt

    def dies(*of: Any) -> None:
        adopt(*of)
        raise Died

    patch.setattr(LakeSink, "_adopt", dies)


def die_after_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Spark has not noted the micro-batch yet, and runs it again."""

    def dies(*_: Any) -> None:
        raise Died

    patch.setattr(commit_log.CommitLog, "forget", dies)


CRASHES = [
    die_before_the_manifest,
    die_between_manifest_and_renames,
    die_between_two_renames,
    die_before_a_table_commit,
    die_after_a_table_commit,
    die_after_the_commit,
]
OF_SOME = (die_between_two_renames, die_before_a_table_commit, die_after_a_table_commit)


@every_sink
@pytest.mark.parametrize("crash", CRASHES, ids=lambda crash: crash.__name__)
def test_a_micro_batch_in_which_a_process_died_is_delivered_as_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Sink], eager: bool, crash: Any
):
    reader = Reader(tmp_path)
    process = Process(reader, kind, eager)
    process.run(0)
    messages = process.stage(1)
    with monkeypatch.context() as patch:
        crash(patch)
        try:
            process.sink.commit(outcome_of(1, messages))
        except Died:
            pass
        else:
            assert crash in OF_SOME, "a sink without renames or tables does not get there"
    process.sink.close()
    again = Process(reader, kind, eager)
    for batch in (1, 2):
        again.run(batch)
    check(reader, again.sink, 3)


@every_sink
def test_a_process_that_dies_while_tasks_stage_leaves_nothing_behind(tmp_path: Path, kind: type[Sink], eager: bool):
    reader = Reader(tmp_path)
    first = Process(reader, kind, eager)
    first.run(0)
    first.stage(1)
    first.sink.close()
    again = Process(reader, kind, eager)
    assert not list(tmp_path.glob(f"out/{STAGING}/*")), "recovery sweeps it away"
    if again.sink.objects is not None:
        files = again.sink.objects.store.files(again.sink.objects / "q")
        assert [file.name[:11] for file in files if "b0" in file.name] == ["b0000000000"] * PARTS
    assert not list(tmp_path.glob("out/**/b*/b0000000001-*")), "also from the place of a table"
    again.run(1)
    check(reader, again.sink, 2)


@every_sink
def test_a_replayed_micro_batch_changes_nothing(tmp_path: Path, kind: type[Sink], eager: bool):
    reader = Reader(tmp_path)
    process = Process(reader, kind, eager)
    before = process.run(0)
    process.sink.close()
    calls = len(reader.calls)
    again = Process(reader, kind, eager)
    assert again.run(0) == before
    again.sink.close()
    assert len(reader.calls) == calls, "what is committed is not handed over again"
    wanted = sorted(rows_of(0, 0) + rows_of(0, 1))
    assert reader.keys() in (wanted, []), kind.name


@every_sink
def test_two_pipelines_deliver_into_one_output(tmp_path: Path, kind: type[Sink], eager: bool):
    reader = Reader(tmp_path)
    for number in (0, 1):
        process = Process(reader, kind, eager, number)
        process.run(0)
        process.sink.close()
    got = Counter(reader.keys())
    assert set(got.values()) <= {2}, "neither writes over what the other wrote"
    assert {number >> BATCH_BITS for _, _, number in reader.calls} <= {0, 1}
    Process(reader, kind, eager, 1)
    assert Counter(reader.keys()) == got, "nor does one that recovers take away what is another's"


def test_each_output_finds_its_sink_and_the_help_names_all(tmp_path: Path):
    found: dict[str, set[bool]] = defaultdict(set)
    for kind, eager in WAYS:
        found[kind.name].add(eager)
        assert (f"{kind.spelling}: {kind.summary}" in str(Spellings())) == kind.on_command_line
    assert len(found) == len(SINKS) == len({kind.name for kind in SINKS})
    assert open_sink(OutputRequest()).name == "counting"
    for output, eager, message in [
        ("tcp://localhost:1", False, "to a socket only as they come"),
        ("csv:out", True, "to CSV files only with their micro-batch"),
    ]:
        with pytest.raises(UsageError, match=message):
            open_sink(OutputRequest(output, eager=eager))
    with pytest.raises(UsageError, match="not to both"):
        open_sink(OutputRequest("out", callback=print))
    for request in (OutputRequest(callback=print), OutputRequest("tcp://h:1", eager=True)):
        with pytest.raises(UsageError, match="needs a checkpoint"):
            open_sink(request).default_checkpoint()
    for output, message in [("tcp://nowhere", "is not an address"), ("tcp://127.0.0.1:1", "nobody listens")]:
        lost = open_sink(OutputRequest(output, eager=True)).attached(0, Publisher(tmp_path / "c", None))
        with pytest.raises(UsageError, match=message):
            lost.recover()


@pytest.mark.parametrize("kind", SINKS, ids=lambda kind: kind.name)
def test_the_documentation_says_what_a_sink_promises(kind: type[Sink]):
    deliveries = ", ".join(["batch"] * kind.takes_batches + ["eager"] * kind.takes_eager)
    promise = "exactly once" if kind.exactly_once else "at least once"
    outputs = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    assert f"| `{kind.spelling}` | {deliveries} | {promise} | {kind.summary} |\n" in outputs
