"""What a sink is: where the rows of queries go, and how a micro-batch gets there whole.

    prepare     the driver, once for each plan: folders and tables that readers can open from the start
    stage       tasks: a table of one query becomes a file that nobody sees, or bytes for the driver
    commit      the driver: `hand_over` what is to be there before the manifest, write the manifest, give staged files
                their names, and `complete` what follows from the manifest
    recover     the driver, at a start: complete the last commit, take away what belongs to none, and `begin`

With eager delivery `deliver` takes rows while the micro-batch is still at work. Each kind is a file of this package
and a line of `SINKS` (`registry.py`), which `--output`, the help, the documentation and the tests read.
"""

from __future__ import annotations

import copy
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import pyarrow as pa

from muntin.core.storage import table_bytes
from muntin.model import Destination, Query, Settings, UsageError
from muntin.plan import Plan
from muntin.spark.checkpoint import BatchOutcome, Manifest, Publisher, Staged
from muntin.spark.sink.compaction import Compacted
from muntin.spark.store import Location, ObjectPath, crash_points

Callback = Callable[[str, pa.Table, int], None]
"""`sink(query_name, table, batch_id)`; a batch comes again after a crash in the middle of it, with the same id.

Punctuations of a query's output come as `<query>/_punctuations`.
"""


@dataclass(frozen=True)
class OutputRequest:
    """What a user asks for: the text of `--output` (or `output=`), or a callable, and what the job says."""

    output: str | None = None
    callback: Callback | None = None
    eager: bool = False
    layout: str = "queries"
    makes_rows: bool = False
    """Whether tasks make rows of a query of the job file: it has aggregates, a place of its own, or asks for the
    past."""
    into: Destination | None = None
    """The place of one query, in place of the text."""


class Stager:
    """The part of a sink that goes to the tasks. This one discards tables: rows are counted and go no further."""

    takes_tables: ClassVar[bool] = False
    takes_pairs: ClassVar[bool] = False
    """Whether pairs are staged once, by slices, and not once for each query."""

    def into(self, place: Destination | None) -> Stager:
        """What stages rows that go to a place, None for the output of the job."""
        return self

    def stage(self, name: str, part: int, table: pa.Table) -> Staged | None:
        """Keep a table until the commit; None where nobody wants it."""
        return None

    def clear(self) -> None:
        """Remove what is left after the commit."""


class SendTables(Stager):
    """Tables go to the driver."""

    takes_tables = True

    def stage(self, name: str, part: int, table: pa.Table) -> Staged | None:
        return Staged(name, part, table.num_rows, table=table_bytes(table).to_pybytes())


@dataclass(frozen=True)
class StageFiles(Stager):
    """Tables become files in a folder that readers pass over."""

    folder: str
    suffix: str
    write: Callable[[pa.Table, Path], None]
    takes_tables: ClassVar[bool] = True

    def stage(self, name: str, part: int, table: pa.Table) -> Staged | None:
        os.makedirs(self.folder, exist_ok=True)
        file = Path(self.folder) / f"{uuid.uuid4().hex}{self.suffix}"
        self.write(table, file)
        return Staged(name, part, table.num_rows, f"{file.parent.parent.name}/{file.parent.name}/{file.name}")

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Sink:
    """One kind of sink. The run opens it and asks it `check`; each pipeline works with one that is attached to it."""

    name: ClassVar[str]
    spelling: ClassVar[str]
    """How `--output` names it."""
    into_word: ClassVar[str] = ""
    """The word after INTO with which a query names a place of this kind; empty where none can."""
    scheme: ClassVar[str] = ""
    """How such a text begins."""
    noun: ClassVar[str]
    """Where rows go, in a sentence."""
    summary: ClassVar[str]
    exactly_once: ClassVar[bool]
    """Otherwise a micro-batch that was not committed comes again, with the same number."""
    on_command_line: ClassVar[bool] = True
    takes_batches: ClassVar[bool] = True
    takes_eager: ClassVar[bool] = True
    layouts: ClassVar[tuple[str, ...]] = ("queries",)
    """The values of `output_layout` that it goes with."""

    folder: Path | None = None
    """Where it publishes files by renaming them."""
    objects: ObjectPath | None = None
    """Where it publishes them by a log."""
    counts_in_shards = False
    """Whether results are counted where they are found and go no further."""
    pipeline = 0
    job: str | None = None
    """The id of the job's checkpoint, once that is claimed."""
    _publisher: Publisher | None = None

    def __init__(self, request: OutputRequest):
        self.request = request

    @classmethod
    def takes(cls, request: OutputRequest) -> bool:
        """Whether an output is spelled as one of this kind."""
        return request.output is not None and request.output.startswith(cls.scheme)

    @property
    def description(self) -> str:
        """What the identity of a checkpoint says of the output."""
        return self.request.output or self.spelling

    def default_checkpoint(self) -> str | Path | None:
        """Where the checkpoint is if nobody says; None for a temporary one."""
        return None

    def check(self, query: Query) -> None:
        """Refuse a query whose rows cannot go here."""

    def check_settings(self, settings: Settings) -> None:
        """Refuse settings that cannot be followed here."""

    def open_publisher(self, checkpoint: Location, prefix: str = "") -> Publisher:
        """What commits the micro-batches of a checkpoint with this output."""
        return Publisher(checkpoint, self.folder, prefix)

    def attached(self, pipeline: int, publisher: Publisher) -> Self:
        """The sink of one pipeline, which commits with its publisher."""
        mine = copy.copy(self)
        mine.pipeline = pipeline
        mine._publisher = publisher
        return mine

    @property
    def publisher(self) -> Publisher:
        assert self._publisher is not None, "not attached to a pipeline"
        return self._publisher

    def prepare(self, plan: Plan, settings: Settings) -> None:
        """Make the places of a plan's queries."""

    def stager(self, batch: int) -> Stager:
        """What one attempt at a micro-batch gives to its tasks."""
        return Stager()

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        """Rows of a query in timestamp order, after those that came before; only with eager delivery."""
        raise NotImplementedError(f"{self.name} takes rows with their micro-batch")

    def commit(self, done: BatchOutcome) -> Manifest:
        """Make a micro-batch durable and visible; one that is committed already stays as it is."""
        if self.publisher.is_committed(done.batch):
            self.discard(done)
        else:
            with crash_points.durable("hand-over"):
                self.hand_over(done)
        manifest = self.publisher.publish(done)
        self.complete(manifest)
        return manifest

    def hand_over(self, done: BatchOutcome) -> None:
        """Before the manifest: deliver what does not follow from it, and turn what was staged into what it names."""

    def discard(self, done: BatchOutcome) -> None:
        """Take away what was staged once more for a micro-batch that is committed."""

    def complete(self, manifest: Manifest) -> None:
        """After the manifest, and at a start: do what follows from it, unless it is done."""

    def recover(self) -> None:
        """Complete the last commit, take away what belongs to none, and begin."""
        self.publisher.recover()
        self.complete(self.publisher.last)
        self.begin()

    def begin(self) -> None:
        """Get ready for the first micro-batch: connect, take away what was written for one that was not committed."""

    def compact(self, queries: Sequence[str], least: int, checkpoint: Path | None) -> list[Compacted]:
        """Merge files that are smaller than `least` bytes; without queries, of all."""
        raise UsageError(f"there is nothing to compact in {self.noun}", hint="name a folder, delta:URI or iceberg:NAME")

    def compact_query(self, query: Query, kept: Collection[str], least: int) -> None:
        """Merge small files of one query while the job runs; `kept` are files of the output that stay. Does nothing
        where there are no files of ours."""

    def close(self) -> None:
        """The run is over."""
