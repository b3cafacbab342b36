"""`CHECKPOINT/muntin/status.json`: what a job has done and where it stands, written after every micro-batch.

The dataclasses below are its JSON, field by field. Fields marked `LEFT_OUT` are absent where they are None.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from muntin.core.batch import Counters
from muntin.model import DimensionTable, Stream, UsageError
from muntin.model.records import LEFT_OUT, to_json
from muntin.plan.orderings import Decision
from muntin.spark.checkpoint import FOLDER, FileKind, MissingError, has_driver, read_record
from muntin.spark.control import OrderingSwitch
from muntin.spark.sink import ResponseTimes
from muntin.spark.store import Location, ObjectPath, locate
from muntin.spark.tables import TableStatus

FILE = "status.json"


@dataclass(frozen=True)
class DeclaredStream:
    """A stream of the job file, whether or not it is read: names and types of its columns, and its event time."""

    columns: list[tuple[str, str]]
    time: str

    @classmethod
    def of(cls, stream: Stream) -> DeclaredStream:
        return cls([(field.name, field.type) for field in stream.schema], stream.time)


@dataclass(frozen=True)
class DeclaredTable:
    """A table of the job file, whether or not it is looked into: names and types of its columns."""

    columns: list[tuple[str, str]]

    @classmethod
    def of(cls, table: DimensionTable) -> DeclaredTable:
        return cls([(field.name, field.type) for field in table.schema])


@dataclass
class SourceStatus:
    """Rows of a stream in the last micro-batch and in all, as the first pipeline counts them that reads it.

    A stream that is read slowly has the seconds of event time by which it is ahead of another. Files that were gone
    when their micro-batch was over are named, the last of them: their rows may be missing.
    """

    rows: int = 0
    total_rows: int = 0
    seconds_ahead: float | None = field(default=None, metadata=LEFT_OUT)
    vanished: list[str] | None = field(default=None, metadata=LEFT_OUT)


@dataclass
class QueryStatus:
    """Rows of a query in the last micro-batch and in all; the response times in this run, from arrival at the source to
    hand-over. A query that came while the job ran has the event times from which it
    applies and is complete; one that asks whether rows have a match has the rows in all that had none."""

    rows: int = 0
    total_rows: int = 0
    unmatched: int | None = field(default=None, metadata=LEFT_OUT)
    text: str | None = field(default=None, metadata=LEFT_OUT)
    applied_from: str | None = field(default=None, metadata=LEFT_OUT)
    complete_from: str | None = field(default=None, metadata=LEFT_OUT)
    response: ResponseTimes | None = field(default=None, metadata=LEFT_OUT)
    past: str | None = field(default=None, metadata=LEFT_OUT)
    """Of a query that asks for what was before it: how far it has come on its way into the shared join."""

    def with_earlier(self, rows: int, unmatched: int | None = None) -> QueryStatus:
        """The same with the rows of a pipeline that it has left, or is about to leave."""
        lonely = None if self.unmatched is None and unmatched is None else (self.unmatched or 0) + (unmatched or 0)
        return replace(self, total_rows=self.total_rows + rows, unmatched=lonely)


@dataclass(frozen=True)
class DroppedQueries:
    """How many queries have gone, and the rows that they had in all."""

    queries: int
    total_rows: int


@dataclass(frozen=True)
class Migration:
    """A change of chains while the job ran; `gain` is predicted, or measured where one was undone."""

    batch: int
    kind: str
    chain: str
    gain: float
    slices: dict[str, list[int]]
    """How many slices each side of each join has now."""
    pipeline: int


@dataclass
class SliceStatus:
    """A slice of a state: its ages, and the rows in it, measured and predicted."""

    lo: int
    hi: int
    rows: int
    predicted_rows: int | None = None


@dataclass(frozen=True)
class KeyShare:
    """The key with the most rows of a side, and its share of them."""

    rows: int
    key: dict[str, str]
    share: float


@dataclass
class OrderingStatus:
    """Which rule is in force (or that one hands over), and what Adaptive decided from which load."""

    in_force: str
    out_of_order: int
    setting: str = ""
    decision: Decision | None = None


@dataclass(frozen=True)
class Waiting:
    """The stream that holds results of a join back, since when it has not moved, and how much is held for it."""

    stream: str
    since: float
    held_rows: int
    held_pairs: int
    held_bytes: int


@dataclass(frozen=True)
class Comparisons:
    """Comparisons per second of stream time, in the last micro-batch and predicted."""

    measured: float | None = None
    predicted: float | None = None


@dataclass(frozen=True)
class OwnWindowsStatus:
    """Until when rows of a side wait, and how long they stay on average; None where they stay for the window."""

    until: list[str]
    mean_us: int | None


@dataclass(frozen=True)
class TreeStatus:
    """Of a join that lives in the shards of another one: for each side, what it is if a join there has found it, by
    which join, and whether every shard keeps all of it and counts it."""

    called: list[str | None]
    found_by: list[int | None]
    in_every_shard: list[bool]


@dataclass
class JoinStatus:
    """A shared join: the reports of its shards, added up. Lists of two have the left and the right stream."""

    join: int
    streams: list[str]
    queries: list[str]
    frontiers: list[str | None]
    slices: list[list[SliceStatus]]
    axes: list[str]
    bytes: int
    fullest_keys: list[KeyShare | None]
    held_rows: list[int]
    held_pairs: int
    idle: list[bool]
    ordering: OrderingStatus
    counters: Counters
    rebuilt: int
    left_rows: int = 0
    """Rows that later micro-batches have work to do for, where delivery is eager."""
    hot_keys: list[str] | None = field(default=None, metadata=LEFT_OUT)
    """Keys whose rows visit every shard."""
    pipeline: int = 0
    waits_for: Waiting | None = None
    predicted_bytes: int | None = None
    comparisons_per_second: Comparisons = field(default_factory=Comparisons)
    own_windows: list[OwnWindowsStatus | None] | None = field(default=None, metadata=LEFT_OUT)
    """Absent where no rows wait until times of their own."""
    tree: TreeStatus | None = field(default=None, metadata=LEFT_OUT)
    """Absent where it reads streams alone, in shards of its own."""


@dataclass(frozen=True)
class PipelineSummary:
    """One streaming query of the job; there are more than one where queries came over streams not read before."""

    pipeline: int
    queries: list[str]
    batch: int | None
    batches: int
    epoch: int
    chain: str
    sources: dict[str, SourceStatus]


@dataclass
class PipelineStatus:
    """What is known of one pipeline; the status of the job is made of these."""

    number: int
    sources: dict[str, SourceStatus]
    batch: int | None = None
    batches: int = 0
    epoch: int = 0
    strategy: str = ""
    chain: str = ""
    never: list[str] = field(default_factory=list)
    queries: dict[str, QueryStatus] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows of queries that have gone."""
    joins: list[JoinStatus] = field(default_factory=list)
    migrations: list[Migration] = field(default_factory=list)
    switches: list[OrderingSwitch] = field(default_factory=list)
    dead_letters: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, TableStatus] = field(default_factory=dict)
    progressed: float = 0.0
    """When Spark last reported a micro-batch, as a Unix time."""

    @property
    def summary(self) -> PipelineSummary:
        sources = {name: replace(source) for name, source in self.sources.items()}
        return PipelineSummary(
            self.number, list(self.queries), self.batch, self.batches, self.epoch, self.chain, sources
        )


@dataclass
class JobStatus:
    """The whole file. `state` is "running", "stopped", "failed" or "ended"; times are Unix times."""

    mode: str
    state: str
    pid: int
    started: float
    updated: float = 0.0
    batch: int | None = None
    """The last committed micro-batch of the first pipeline."""
    batches: int = 0
    """How many micro-batches this run has done."""
    epoch: int | None = None
    strategy: str | None = None
    chain: str | None = None
    sources: dict[str, SourceStatus] = field(default_factory=dict)
    queries: dict[str, QueryStatus] = field(default_factory=dict)
    dropped: DroppedQueries = DroppedQueries(0, 0)
    never: list[str] = field(default_factory=list)
    """Queries that can have no rows, planned away."""
    joins: list[JoinStatus] = field(default_factory=list)
    migrations: list[Migration] = field(default_factory=list)
    switches: list[OrderingSwitch] = field(default_factory=list)
    dead_letters: dict[str, int] = field(default_factory=dict)
    """Rows per class of reason, in all."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of the last micro-batch: whole, and Spark's phases."""
    pipelines: list[PipelineSummary] = field(default_factory=list)
    error: str | None = field(default=None, metadata=LEFT_OUT)
    streams: dict[str, DeclaredStream] = field(default_factory=dict)
    """All streams of the job file."""
    tables: dict[str, DeclaredTable] = field(default_factory=dict)
    """All tables of the job file."""
    versions: dict[str, TableStatus] = field(default_factory=dict)
    """Of each table that rows look into, what the last micro-batch went by."""
    delivery: str = "batch"

    @property
    def rows_in(self) -> int:
        """Rows read from the streams in all."""
        return sum(source.total_rows for source in self.streams_read.values())

    @property
    def rows_out(self) -> int:
        """Rows delivered in all, those of queries that have gone since included."""
        return self.dropped.total_rows + sum(query.total_rows for query in self.queries.values())

    @property
    def streams_read(self) -> dict[str, SourceStatus]:
        """The sources of rows; what steers the job (`_control`) is no stream."""
        return {name: source for name, source in self.sources.items() if not name.startswith("_")}


def status_file(checkpoint: Location) -> Location:
    return checkpoint / FOLDER / FILE


def read_status(checkpoint: str | os.PathLike[str] | Location) -> dict[str, Any]:
    """The status of a job, running or not, from its checkpoint, as JSON has it."""
    return dict(to_json(status_now(checkpoint)))


def status_now(checkpoint: str | os.PathLike[str] | Location) -> JobStatus:
    """The same as a record. A job whose process is gone has failed, whatever it wrote last."""
    try:
        place = checkpoint if isinstance(checkpoint, ObjectPath) else locate(checkpoint)
        found = read_record(status_file(place), FileKind.STATUS, JobStatus)
    except MissingError:
        raise UsageError(
            f"{checkpoint} is not the checkpoint of a job that has run", hint="name the `checkpoint=` of a run"
        ) from None
    if found.state == "running" and not is_driven(place, found.pid):
        found = replace(found, state="failed", error="its process is gone; run it again to go on")
    return found


def is_driven(checkpoint: Location, pid: int) -> bool:
    """Whether the driver of a running job is there still; `pid` is its number where that is on this machine."""
    return is_alive(pid) if isinstance(checkpoint, Path) else has_driver(checkpoint)


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
