"""What a stand-in for Spark computes: sources, tasks, exchanges and state, for one micro-batch at a time.

An exchange delivers in any order. A task that fails is tried again with the state that was there before it.
"""

from __future__ import annotations

import os
import pickle
import random
import re
import shutil
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from muntin.spark.exchange.partitions import partition_of
from muntin.spark.shard.hot_state import local_folder
from muntin.spark.store import crash_points

if TYPE_CHECKING:
    from whole_way.stand_in import Session

ATTEMPTS = 4
Records = list[pa.RecordBatch]
"""What one partition holds."""
State = dict[int, tuple[dict[Any, Any], Any]]
"""Of each group, the entries of its map state and the value of its value state."""


OURS = re.compile(r"/muntin/(commits|plans|tables|requests|answers|job|status|history|lock)\b|/(control|offsets)/")
"""What lies there in a checkpoint is the driver's alone: a task may run where it cannot be reached."""
_task = threading.local()


def _forbid(event: str, args: tuple[Any, ...]) -> None:
    """Fail a task that opens or lists one of our files."""
    if getattr(_task, "runs", False) and event in ("open", "os.listdir", "os.scandir"):
        assert OURS.search(f"{args[0]}/") is None, f"a task reads {args[0]}"


sys.addaudithook(_forbid)


DEATHS = [
    *("before offset", "after offset", "before state", "after hand-over", "before manifest", "after manifest"),
    *("before last published", "after last published", "after rename", "before commit", "after commit"),
]
"""The crash points of one micro-batch, in order. Here a death is an exception: what is raised ends the run."""


STARTS = ["before plan", "after plan", "before control message", "after control message", "after columns of a query"]
"""Those of a start with other queries, or of another job file."""


class Killed(RuntimeError):
    """The process dies here."""


class TaskDied(Exception):
    """The task ends here, in the middle of its work, and is tried again."""


@dataclass(frozen=True)
class MicroBatch:
    """The input of one micro-batch: of each source, the files; and how Spark puts them into partitions."""

    number: int
    files: dict[str, list[int]]
    seed: int


class Faults:
    """What goes wrong: tasks that fail now and then, and a point at which the process dies."""

    def __init__(self, dice: random.Random, rate: float = 0.0):
        self.dice, self.rate = dice, rate
        self.hot_loss = 0.0
        """How often the hot states of this machine are gone when a task begins."""
        self.kill = None

    @property
    def kill(self) -> str | None:
        """The crash point at which the process dies next, one of `DEATHS`; None once it has."""
        return self._kill

    @kill.setter
    def kill(self, point: str | None) -> None:
        self._kill = point
        crash_points.arm(point, self._die)

    def _die(self, point: str) -> None:
        self.kill = None
        raise Killed(f"killed {point}")

    def lose_hot(self) -> None:
        """A temporary folder that somebody has emptied."""
        if self.hot_loss and self.dice.random() < self.hot_loss:
            shutil.rmtree(local_folder() / f"muntin-{os.getuid()}", ignore_errors=True)

    def fails(self, attempt: int) -> bool:
        return attempt < ATTEMPTS and self.dice.random() < self.rate


class Files:
    """A source of files in the order in which they came."""

    def __init__(self, session: Session, name: str, most: int):
        self._session, self.name, self.most = session, name, most

    def count(self) -> int:
        return len(self._session.files[self.name])

    def sources(self) -> list[Any]:
        return [self]

    def rows(self, numbers: list[int]) -> int:
        return sum(self._session.files[self.name][n].num_rows for n in numbers)

    def run(self, work: Work, first: int) -> list[Records]:
        """Small files of a micro-batch may share a partition, as with Spark."""
        parts: list[Records] = []
        dice = random.Random(f"{work.batch.seed} {self.name}")
        for number in work.batch.files.get(self.name, ()):
            if not parts or dice.random() < 0.5:
                parts.append([])
            parts[-1] += self._session.files[self.name][number].to_batches()
        return parts


class Folder:
    """A source of Parquet files in the order in which they came, which their times tell."""

    def __init__(self, session: Session, folder: Path, most: int):
        self._folder, self.name, self.most = folder, f"files of {folder}", most
        self._found = session.found[str(folder)]

    def count(self) -> int:
        new = set(self._folder.glob("[!._]*.parquet")) - set(self._found)
        self._found += sorted(new, key=lambda file: (file.stat().st_mtime_ns, file.name))
        return len(self._found)

    def sources(self) -> list[Any]:
        return [self]

    def rows(self, numbers: list[int]) -> int:
        return sum(pq.read_metadata(self._found[n]).num_rows for n in numbers)

    def run(self, work: Work, first: int) -> list[Records]:
        return [pq.read_table(self._found[n]).to_batches() for n in work.batch.files.get(self.name, ())]


class Lines:
    """A source of text files: those of a folder, by name. A file that goes later is still one that came."""

    def __init__(self, session: Session, folder: Path):
        self._session, self._folder, self.name, self.most = session, folder, f"lines of {folder}", 1000
        self._texts = session.texts[str(folder)]

    def _look(self) -> list[str]:
        for file in sorted(self._folder.glob("[!._]*")):
            self._texts.setdefault(file.name, file.read_text())
        return list(self._texts.values())

    def count(self) -> int:
        return len(self._look())

    def sources(self) -> list[Any]:
        return [self]

    def rows(self, numbers: list[int]) -> int:
        texts = self._look()
        return sum(len(texts[n].splitlines()) for n in numbers)

    def run(self, work: Work, first: int) -> list[Records]:
        texts, numbers = self._look(), work.batch.files.get(self.name, ())
        lines = [line for number in numbers for line in texts[number].splitlines()]
        return [[pa.record_batch([pa.array(lines, pa.string())], names=["value"])]] if lines else []


class Tables:
    """A source of Parquet files below a folder, all of which are there from the start."""

    def __init__(self, folder: Path):
        self._files, self.name, self.most = sorted(folder.rglob("*.parquet")), f"tables of {folder}", 1000

    def count(self) -> int:
        return len(self._files)

    def sources(self) -> list[Any]:
        return [self]

    def rows(self, numbers: list[int]) -> int:
        return sum(pq.read_metadata(self._files[n]).num_rows for n in numbers)

    def run(self, work: Work, first: int) -> list[Records]:
        return [pq.read_table(self._files[n]).to_batches() for n in work.batch.files.get(self.name, ())]


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
        work.session.faults.lose_hot()
        processor = pickle.loads(pickle.dumps(self.processor))
        processor.init(handle)
        for group in work.shuffled(groups):
            handle.begin(group)
            rows = processor.handleInputRows((group,), iter(work.shuffled(groups[group])), None)
            found = [row.asDict() for row in rows]
            if found:
                out.append(pa.RecordBatch.from_pylist(found, FRAMES))
        processor.close()
        crash_points.before("state")
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
            context._partitionId = partition
            context._taskAttemptId = number << 40 | self.dice.randrange(1 << 40)  # ascending, as those of Spark
            context._localProperties = {"streaming.sql.batchId": str(self.batch.number), **self.session.properties}
            kept, done = dict(self.after), None
            _task.runs = True
            try:
                done = task()
            except TaskDied:
                assert number < ATTEMPTS
            finally:
                _task.runs = False
                TaskContext._taskContext = None  # this process is a driver again
            if done is not None and not self.session.faults.fails(number):
                return done
            self.after = kept
        raise AssertionError("the last attempt succeeds")
