"""A stand-in for a Spark session: the few calls that Muntin makes, in one thread and without Java.

It runs the streaming query that ships: sources, tasks, exchanges, state and the sink. It plays what Spark promises and
no more. Files become micro-batches, whose contents are settled before they run. An exchange delivers in any order. A
task that fails is tried again with the state that was there before. A micro-batch that was not committed runs again,
with the same input and the same state. What lies in `Checkpoint` is durable: it outlives every run.
"""

from __future__ import annotations

import json
import pickle
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from muntin.spark.shards import partition_of

ATTEMPTS = 4
Records = list[pa.RecordBatch]
"""What one partition holds."""
State = dict[int, tuple[dict[Any, Any], Any]]
"""Of each group, the entries of its map state and the value of its value state."""


class Killed(RuntimeError):
    """The process dies here."""


@dataclass(frozen=True)
class MicroBatch:
    """The input of one micro-batch: of each source, the files; and how Spark puts them into partitions."""

    number: int
    files: dict[str, list[int]]
    seed: int


@dataclass
class Checkpoint:
    """What Spark keeps of one streaming query."""

    offsets: list[MicroBatch] = field(default_factory=list)
    committed: int = -1
    state: State = field(default_factory=dict)

    def taken(self, source: str) -> int:
        """How many files of a source have gone into micro-batches."""
        return sum(len(batch.files.get(source, ())) for batch in self.offsets)


class Faults:
    """What goes wrong: tasks that fail now and then, and a point at which the process dies."""

    def __init__(self, dice: random.Random, rate: float = 0.0):
        self.dice, self.rate = dice, rate
        self.kill: str | None = None
        """Where the next micro-batch dies: "task", "publish", "rename" or "commit"."""

    def reach(self, point: str) -> None:
        if self.kill == point:
            self.kill = None
            raise Killed(f"killed at {point}")

    def fails(self, attempt: int) -> bool:
        return attempt < ATTEMPTS and self.dice.random() < self.rate


class Session:
    """Stands in for `SparkSession`; `files` are those that have come so far, by source."""

    def __init__(self, seed: int = 0):
        self.dice = random.Random(seed)
        self.faults = Faults(self.dice)
        self.settings: dict[str, str] = {}
        self.files: dict[str, list[pa.Table]] = defaultdict(list)
        self.checkpoints: dict[str, Checkpoint] = defaultdict(Checkpoint)
        self.queries: list[StreamingQuery] = []
        """All that were ever started."""

    @property
    def conf(self) -> Session:
        return self

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    @property
    def partitions(self) -> int:
        return int(self.settings["spark.sql.shuffle.partitions"])

    @property
    def sparkContext(self) -> Session:
        return self

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "127.0.0.1"}

    @property
    def readStream(self) -> Reader:
        return Reader(self)

    def tick(self) -> None:
        """Let every query without end run a micro-batch, if there is anything for it."""
        for query in self.queries:
            if query.isActive and not query.available_now:
                query.step()


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

    def schema(self, _: str) -> Reader:
        return self

    def load(self, folder: str = "") -> DataFrame:
        if self._format == "text":
            return DataFrame(self._session, Lines(self._session, Path(folder)))
        most = int(self._options.get("maxFilesPerTrigger", 1000))
        return DataFrame(self._session, Files(self._session, self._options["name"], most))


# -- what is computed -------------------------------------------------------------------------------------------------


class Files:
    """A source of files in the order in which they came."""

    def __init__(self, session: Session, name: str, most: int):
        self._session, self.name, self.most = session, name, most

    def count(self) -> int:
        return len(self._session.files[self.name])

    def sources(self) -> list[Any]:
        return [self]

    def run(self, work: Work, first: int) -> list[Records]:
        """Small files of a micro-batch may share a partition, as with Spark."""
        parts: list[Records] = []
        dice = random.Random(f"{work.batch.seed} {self.name}")
        for number in work.batch.files.get(self.name, ()):
            if not parts or dice.random() < 0.5:
                parts.append([])
            parts[-1] += self._session.files[self.name][number].to_batches()
        return parts


class Lines:
    """A source of text files: those of a folder, by name. A file that goes later is still one that came."""

    def __init__(self, session: Session, folder: Path):
        self._session, self._folder, self.name, self.most = session, folder, f"lines of {folder}", 1000
        self._texts = session.__dict__.setdefault("texts", {}).setdefault(str(folder), {})

    def _look(self) -> list[str]:
        for file in sorted(self._folder.glob("[!._]*")):
            self._texts.setdefault(file.name, file.read_text())
        return list(self._texts.values())

    def count(self) -> int:
        return len(self._look())

    def sources(self) -> list[Any]:
        return [self]

    def run(self, work: Work, first: int) -> list[Records]:
        texts, numbers = self._look(), work.batch.files.get(self.name, ())
        lines = [line for number in numbers for line in texts[number].splitlines()]
        return [[pa.record_batch([pa.array(lines, pa.string())], names=["value"])]] if lines else []


@dataclass
class Mapped:
    """`mapInArrow`: one task for each partition."""

    below: Any
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def sources(self) -> list[Any]:
        return self.below.sources()

    def run(self, work: Work, first: int) -> list[Records]:
        parts = self.below.run(work, first)
        function = pickle.loads(pickle.dumps(self.function))
        return [work.attempt(first + n, lambda part=part: list(function(iter(part)))) for n, part in enumerate(parts)]


@dataclass
class Union:
    left: Any
    right: Any

    def sources(self) -> list[Any]:
        return self.left.sources() + self.right.sources()

    def run(self, work: Work, first: int) -> list[Records]:
        parts = self.left.run(work, first)
        return parts + self.right.run(work, first + len(parts))


@dataclass
class Exchanged:
    """`repartition(n, column)`: rows go where Spark's hash of an int sends them, in any order."""

    below: Any
    partitions: int
    column: str

    def sources(self) -> list[Any]:
        return self.below.sources()

    def run(self, work: Work, first: int) -> list[Records]:
        rows = [row for part in self.below.run(work, 0) for batch in part for row in batch.to_pylist()]
        work.dice.shuffle(rows)
        parts: list[Records] = [[] for _ in range(self.partitions)]
        for row in rows:
            parts[partition_of(row[self.column], self.partitions)].append(pa.RecordBatch.from_pylist([row], FRAMES))
        return parts


FRAMES = pa.schema([("part", pa.int32()), ("frame", pa.binary())])


@dataclass
class Stateful:
    """`groupBy(key).transformWithState(...)`: one task for each partition, one call for each group with rows."""

    below: Any
    key: str
    processor: Any

    def sources(self) -> list[Any]:
        return self.below.sources()

    def run(self, work: Work, first: int) -> list[Records]:
        count = work.session.partitions
        groups: list[dict[int, list[Any]]] = [defaultdict(list) for _ in range(count)]
        for part in self.below.run(work, 0):
            for row in (row for batch in part for row in batch.to_pylist()):
                groups[partition_of(row[self.key], count)][row[self.key]].append(row)
        return [work.attempt(n, lambda n=n: self._task(work, groups[n])) for n in range(count)]

    def _task(self, work: Work, groups: dict[int, list[Any]]) -> Records:
        """Work on a copy of the state, which counts when the task is over."""
        handle, out = Handle(work.before), []
        processor = pickle.loads(pickle.dumps(self.processor))
        processor.init(handle)
        for group in work.shuffled(groups):
            handle.begin(group)
            rows = processor.handleInputRows((group,), iter(work.shuffled(groups[group])), None)
            found = [row.asDict() for row in rows]
            if found:
                out.append(pa.RecordBatch.from_pylist(found, FRAMES))
        processor.close()
        work.session.faults.reach("task")
        work.after |= handle.written
        return out


class Handle:
    """`StatefulProcessorHandle`, and both states of the group at hand."""

    def __init__(self, before: State):
        self._before, self.written = before, dict[int, tuple[dict[Any, Any], Any]]()

    def begin(self, group: int) -> None:
        self._group = group
        entries, value = self._before.get(group, ({}, None))
        self.written[group] = dict(entries), value

    def getMapState(self, *_: str) -> Handle:
        return self

    getValueState = getMapState

    def getValue(self, key: Any) -> Any:
        return self.written[self._group][0].get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.written[self._group][0][key] = value

    def removeKey(self, key: Any) -> None:
        del self.written[self._group][0][key]

    def get(self) -> Any:
        return self.written[self._group][1]

    def update(self, value: Any) -> None:
        self.written[self._group] = self.written[self._group][0], value


@dataclass
class Work:
    """One attempt at one micro-batch: its input, the state before it, and what its tasks have made of that."""

    session: Session
    batch: MicroBatch
    before: State
    after: State = field(default_factory=dict)

    @property
    def dice(self) -> random.Random:
        return self.session.dice

    def shuffled(self, items: Any) -> list[Any]:
        return self.dice.sample(list(items), len(items))

    def attempt(self, partition: int, task: Callable[[], Records]) -> Records:
        """A task, perhaps after attempts whose outcome was lost."""
        for number in range(1, ATTEMPTS + 1):
            context = TaskContext._getOrCreate()
            context._partitionId, context._taskAttemptId = partition, self.dice.randrange(1 << 40)
            context._localProperties = {"streaming.sql.batchId": str(self.batch.number)}
            kept = dict(self.after)
            done = task()
            if not self.session.faults.fails(number):
                return done
            self.after = kept
        raise AssertionError("the last attempt succeeds")


class DataFrame:
    """A plan, bound to a micro-batch where it is handed to `foreachBatch`."""

    def __init__(self, session: Session, plan: Any, work: Work | None = None):
        self.session, self.plan, self.work = session, plan, work

    def _with(self, plan: Any) -> DataFrame:
        return DataFrame(self.session, plan, self.work)

    def mapInArrow(self, function: Any, _: str) -> DataFrame:
        return self._with(Mapped(self.plan, function))

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
        query = StreamingQuery(self._frame, self._write, session.checkpoints[self._folder], self._now)
        session.queries.append(query)
        return query


class Progress(dict[str, Any]):
    @property
    def json(self) -> str:
        return json.dumps(self)


class StreamingQuery:
    """Runs what is there and ends, or a micro-batch whenever it is told to (`step`)."""

    def __init__(self, frame: DataFrame, write: Callable[[Any, int], None], checkpoint: Checkpoint, now: bool):
        self._frame, self._write, self._checkpoint, self.available_now = frame, write, checkpoint, now
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
        batch = self._next()
        if batch is None:
            return False
        session, checkpoint = self._frame.session, self._checkpoint
        work = Work(session, batch, checkpoint.state)
        try:
            self._write(DataFrame(session, self._frame.plan, work), batch.number)
            session.faults.reach("commit")
        except Exception as error:
            self._error = error
            self.stop()
            return False
        checkpoint.state = {**checkpoint.state, **work.after}
        checkpoint.committed = batch.number
        rows = [self._rows(source, batch) for source in self._frame.plan.sources()]
        sources = [{"numInputRows": count} for count in rows]
        done = {"runId": self._id, "batchId": batch.number, "durationMs": {"addBatch": 1}, "sources": sources}
        self.lastProgress = Progress(done)
        return True

    def _rows(self, source: Any, batch: MicroBatch) -> int:
        numbers = batch.files.get(source.name, ())
        return sum(self._frame.session.files[source.name][n].num_rows for n in numbers) if source.most < 1000 else 0

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
        log.offsets.append(MicroBatch(len(log.offsets), files, self._frame.session.dice.randrange(1 << 30)))
        return log.offsets[-1]
