"""A stand-in for a Spark session: the few calls that Muntin makes, in one thread and without Java.

It runs the streaming query that ships: sources, tasks, exchanges, state and the sink. It plays what Spark promises and
no more. Files become micro-batches, whose contents are settled before they run. An exchange delivers in any order. A
task that fails is tried again with the state that was there before. A micro-batch that was not committed runs again,
with the same input and the same state. What lies in `Checkpoint` is durable: it outlives every run.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from muntin.spark.ingest.arrival import ARRIVED
from muntin.spark.store import crash_points
from whole_way.tasks import (
    Exchanged,
    Faults,
    Files,
    Folder,
    Lines,
    Mapped,
    MicroBatch,
    State,
    Stateful,
    Tables,
    Union,
    Work,
)

ONE_TASK = threading.Lock()
"""A Python process of Spark's runs one task at a time: kernels use memory of the process again and again."""


@dataclass
class Checkpoint:
    """What Spark keeps of one streaming query."""

    offsets: list[MicroBatch] = field(default_factory=list)
    committed: int = -1
    state: State = field(default_factory=dict)

    states: dict[int, State] = field(default_factory=dict)
    """The state after each micro-batch: after a power cut Spark goes back to that of the last commit that is there."""

    def follow(self, folder: Path) -> None:
        """Go by the logs that are on the disk."""
        planned, done = (
            max((int(f.name) for f in (folder / log).glob("[0-9]*")), default=-1) for log in ("offsets", "commits")
        )
        self.offsets = self.offsets[: planned + 1]
        if done < self.committed:
            self.committed, self.state = done, self.states.get(done, {})

    def taken(self, source: str) -> int:
        """How many files of a source have gone into micro-batches."""
        return sum(len(batch.files.get(source, ())) for batch in self.offsets)


class Session:
    """Stands in for `SparkSession`; `files` are those that have come so far, by source."""

    def __init__(self, seed: int = 0):
        self.dice = random.Random(seed)
        self.faults = Faults(self.dice)
        self.settings: dict[str, str] = {}
        self.defaultParallelism = 2
        self.files: dict[str, list[pa.Table]] = defaultdict(list)
        self.checkpoints: dict[str, Checkpoint] = defaultdict(Checkpoint)
        self.found: dict[str, list[Path]] = defaultdict(list)
        """The Parquet files that were seen so far, by folder."""
        self.texts: dict[str, dict[str, str]] = defaultdict(dict)
        """The text files that have come so far, by folder and name."""
        self.queries: list[StreamingQuery] = []
        """All that were ever started."""
        self.properties: dict[str, str] = {}
        """What the driver tells its tasks."""

    @property
    def conf(self) -> Session:
        return self

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self.settings)

    @property
    def partitions(self) -> int:
        return int(self.settings["spark.sql.shuffle.partitions"])

    @property
    def sparkContext(self) -> Session:
        return self

    def setLocalProperty(self, name: str, value: str) -> None:
        self.properties[name] = value

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "127.0.0.1"}

    @property
    def _jvm(self) -> Any:
        """Java's own classes: the one process there is stands in for its process."""
        process = SimpleNamespace(current=lambda: SimpleNamespace(pid=os.getpid))
        return SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(ProcessHandle=process)))

    @property
    def readStream(self) -> Reader:
        return Reader(self)

    @property
    def read(self) -> TableReader:
        return TableReader()


class Reader:
    """`spark.readStream.format(...).options(...).schema(...).load(...)`."""

    def __init__(self, session: Session):
        self._session, self._options, self._format = session, dict[str, str](), ""

    def format(self, name: str) -> Reader:
        self._format = name
        return self

    def options(self, **options: str) -> Reader:
        self._options |= options
        return self

    def option(self, name: str, value: str) -> Reader:
        return self.options(**{name: value})

    def schema(self, _: str) -> Reader:
        return self

    def load(self, folder: str = "") -> DataFrame:
        if self._format == "text":
            return DataFrame(self._session, Lines(self._session, Path(folder)))
        most = int(self._options.get("maxFilesPerTrigger", 1000))
        if self._format == "parquet" and "path" in self._options:
            return DataFrame(self._session, Folder(self._session, Path(self._options["path"]), most))
        if self._format == "parquet":
            return DataFrame(self._session, Tables(Path(folder)))
        return DataFrame(self._session, Files(self._session, self._options["name"], most))


class TableReader:
    """`spark.read.format("parquet").options(path=...).load()`, and the few calls on what it gives."""

    def format(self, name: str) -> TableReader:
        assert name == "parquet", name
        return self

    def options(self, path: str) -> TableReader:
        self._rows = pq.read_table(path, partitioning=None)
        return self

    def load(self) -> TableReader:
        return self

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(self._rows.schema)

    def select(self, *columns: str) -> TableReader:
        self._rows = self._rows.select([name.strip("`") for name in columns])
        return self

    def toArrow(self) -> pa.Table:
        return self._rows


class DataFrame:
    """A plan, bound to a micro-batch where it is handed to `foreachBatch`. Its rows have come when they are read."""

    columns = (ARRIVED,)

    def __init__(self, session: Session, plan: Any, work: Work | None = None):
        self.session, self.plan, self.work = session, plan, work

    def _with(self, plan: Any) -> DataFrame:
        return DataFrame(self.session, plan, self.work)

    def mapInArrow(self, function: Any, _: str) -> DataFrame:
        return self._with(Mapped(self.plan, function))

    def metadataColumn(self, _: str) -> DataFrame:
        return self

    getField = metadataColumn

    def withColumn(self, *_: Any) -> DataFrame:
        return self

    def union(self, other: DataFrame) -> DataFrame:
        return self._with(Union(self.plan, other.plan))

    def groupBy(self, key: str) -> DataFrame:
        self._key = key
        return self

    def transformWithState(self, processor: Any, *_: str) -> DataFrame:
        return self._with(Stateful(self.plan, self._key, processor))

    def repartition(self, partitions: int, column: str) -> DataFrame:
        return self._with(Exchanged(self.plan, partitions, column))

    def collect(self) -> list[dict[str, Any]]:
        assert self.work is not None
        return [row for part in self.plan.run(self.work, 0) for batch in part for row in batch.to_pylist()]

    @property
    def writeStream(self) -> Writer:
        return Writer(self)


# -- the streaming query ----------------------------------------------------------------------------------------------


class Writer:
    def __init__(self, frame: DataFrame):
        self._frame, self._folder, self._now = frame, "", False

    def foreachBatch(self, write: Callable[[Any, int], None]) -> Writer:
        self._write = write
        return self

    def outputMode(self, _: str) -> Writer:
        return self

    queryName = outputMode

    def option(self, _: str, folder: str) -> Writer:
        self._folder = folder
        return self

    def trigger(self, availableNow: bool = False, processingTime: str = "") -> Writer:
        self._now = availableNow
        return self

    def start(self) -> StreamingQuery:
        session = self._frame.session
        checkpoint = session.checkpoints[self._folder]
        checkpoint.follow(Path(self._folder))
        query = StreamingQuery(self._frame, self._write, checkpoint, Path(self._folder), self._now)
        session.queries.append(query)
        return query


class Progress(dict[str, Any]):
    @property
    def json(self) -> str:
        return json.dumps(self)


class StreamingQuery:
    """Runs what is there and ends, or a micro-batch whenever it is told to (`step`)."""

    def __init__(
        self, frame: DataFrame, write: Callable[[Any, int], None], checkpoint: Checkpoint, folder: Path, now: bool
    ):
        self._frame, self._write, self._checkpoint, self.available_now = frame, write, checkpoint, now
        self._folder = folder
        self.isActive, self.lastProgress = True, None
        self.status = {"message": "Waiting for data to arrive"}
        self._error: Exception | None = None
        self._over = threading.Event()
        self._id = f"{id(self):x}"

    lastProgress: Progress | None

    @property
    def recentProgress(self) -> list[Progress]:
        return [self.lastProgress] if self.lastProgress else []

    def stop(self) -> None:
        self.isActive = False
        self._over.set()

    def awaitTermination(self) -> None:
        while self.available_now and self.isActive:
            if not self.step():
                self.stop()
        self._over.wait()
        if self._error is not None:
            raise self._error

    def step(self) -> bool:
        """Run the next micro-batch; False where there is nothing for one, or it failed."""
        session, checkpoint = self._frame.session, self._checkpoint
        try:
            batch = self._next()
            if batch is None:
                return False
            work = Work(session, batch, checkpoint.state)
            with ONE_TASK:
                self._write(DataFrame(session, self._frame.plan, work), batch.number)
            with crash_points.durable("commit"):
                checkpoint.state = {**checkpoint.state, **work.after}
                checkpoint.committed = batch.number
                checkpoint.states[batch.number] = checkpoint.state
                self._log("commits", batch.number)
        except Exception as error:
            self._error = error
            self.stop()
            return False
        rows = [source.rows(batch.files.get(source.name, [])) for source in self._frame.plan.sources()]
        sources = [{"numInputRows": count} for count in rows]
        done = {"runId": self._id, "batchId": batch.number, "durationMs": {"addBatch": 1}, "sources": sources}
        self.lastProgress = Progress(done)
        return True

    def _next(self) -> MicroBatch | None:
        """The micro-batch that was begun and not committed, or one of what has come since."""
        log = self._checkpoint
        if log.offsets and log.offsets[-1].number > log.committed:
            return log.offsets[-1]
        files = {}
        for source in self._frame.plan.sources():
            first = log.taken(source.name)
            files[source.name] = list(range(first, min(source.count(), first + source.most)))
        if not any(files.values()):
            return None
        with crash_points.durable("offset"):
            log.offsets.append(MicroBatch(len(log.offsets), files, self._frame.session.dice.randrange(1 << 30)))
            self._log("offsets", log.offsets[-1].number)
        return log.offsets[-1]

    def _log(self, name: str, number: int) -> None:
        """An entry of one of Spark's logs, by which a start sees how far Spark has come."""
        place = self._folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / str(number)).write_text("v1\n{}\n")
