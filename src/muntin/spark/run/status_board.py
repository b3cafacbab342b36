"""The status of a running job: each pipeline notes what happens to it, and every change soon reaches the file."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muntin.core.arrivals import is_event_time
from muntin.model import JobSpec, Settings, Side
from muntin.plan import Plan, SharedJoin
from muntin.plan.adapt import Move
from muntin.plan.cost import DEFAULT
from muntin.plan.orderings import Decision
from muntin.spark.checkpoint import DamageError, FileKind, Manifest, read_record, write_record
from muntin.spark.control import Orderings, Reports, expected_load, load_constants, reports_of
from muntin.spark.ingest import event_time
from muntin.spark.run.join_status import describe, frontier, waiting
from muntin.spark.run.status import (
    Comparisons,
    DeclaredStream,
    DeclaredTable,
    DroppedQueries,
    JobStatus,
    JoinStatus,
    Migration,
    PipelineStatus,
    QueryStatus,
    SourceStatus,
    status_file,
)
from muntin.spark.run.status_writer import StatusWriter
from muntin.spark.sink import Latency
from muntin.spark.store import Location
from muntin.spark.tables import TableStatus

PlanOf = Callable[[int], Plan]
"""The plan of an epoch."""

MIGRATIONS = 20
"""How many are remembered."""
VANISHED = 10
"""So many files of a stream are named that were gone."""
SECOND_US = 1_000_000
NO_JOB = JobSpec()
NO_VERSIONS: Mapping[str, TableStatus] = {}
NO_FILES: Mapping[int, Sequence[str]] = {}


class StatusBoard:
    """The status of a running job, made of that of its pipelines."""

    def __init__(self, checkpoint: Location, settings: Settings, mode: str, spec: JobSpec = NO_JOB):
        self.file = status_file(checkpoint)
        self.invalidation = settings.invalidation
        self.ordering = settings.ordering
        self.constants = load_constants(checkpoint) or DEFAULT
        self.lock = threading.Lock()
        self._writing = threading.Lock()
        """Taken before the other: the file is of the last moment at which somebody had it."""
        self.writer = StatusWriter(self._write)
        self.before = _read_before(self.file)
        """The status of the run before."""
        self.past: Callable[[], Mapping[str, str]] = dict
        """Of queries that ask for what was before them, where they are on their way into the shared join."""
        self._pipelines: list[PipelineBoard] = []
        self._ended: list[Manifest] = []
        self._batches_of_ended = 0
        self._head = JobStatus(
            mode,
            "running",
            os.getpid(),
            time.time(),
            streams={stream.name: DeclaredStream.of(stream) for stream in spec.streams.values()},
            tables={table.name: DeclaredTable.of(table) for table in spec.tables.values()},
            delivery=settings.delivery,
        )

    def add(self, number: int, plan_of: PlanOf, names: list[str], last: Manifest) -> PipelineBoard:
        """Show one more pipeline; `names` are its sources as Spark numbers them."""
        with self.lock:
            added = PipelineBoard(self, number, plan_of, names, last)
            self._pipelines = sorted([*self._pipelines, added], key=lambda board: board.status.number)
        self._write()
        return added

    def close(self, last: Manifest, pipeline: PipelineBoard | None = None) -> None:
        """Show a pipeline that has ended no more; what it has delivered still counts."""
        with self.lock:
            self._ended.append(last)
            if pipeline is not None:
                self._batches_of_ended += pipeline.status.batches
                self._pipelines.remove(pipeline)
        if pipeline is not None:
            self._write()

    def finish(self, state: str, error: str | None = None) -> None:
        with self.lock:
            self._head = replace(self._head, state=state, error=error or None)
        self.writer.settle()
        self._write()

    def status(self) -> JobStatus:
        """The status as it is now; what comes later does not change it."""
        with self.lock:
            return self._whole()

    def _write(self) -> None:
        with self._writing:
            write_record(self.file, FileKind.STATUS, self.status())

    def _whole(self) -> JobStatus:
        pipelines = [board.status for board in self._pipelines]
        summaries = [p.summary for p in pipelines]
        first = pipelines[0] if pipelines else None
        dead_letters = [*(p.dead_letters for p in pipelines), *(last.total_dead_letters for last in self._ended)]
        queries = self._queries(pipelines)
        gone = [{n: rows for n, rows in last.total_rows.items() if n not in queries} for last in self._ended]
        dropped = [*(p.dropped for p in pipelines), *gone]
        latest = max(pipelines, key=lambda p: p.progressed, default=None)
        return replace(
            self._head,
            updated=time.time(),
            batch=None if first is None else first.batch,
            batches=sum(p.batches for p in pipelines) + self._batches_of_ended,
            epoch=None if first is None else first.epoch,
            strategy=None if first is None else first.strategy,
            chain=None if first is None else first.chain,
            sources={name: source for s in reversed(summaries) for name, source in s.sources.items()},
            queries=queries,
            dropped=DroppedQueries(sum(map(len, dropped)), sum(sum(d.values()) for d in dropped)),
            never=[name for p in pipelines for name in p.never],
            joins=[join for p in pipelines for join in p.joins],
            migrations=[migration for p in pipelines for migration in p.migrations],
            switches=[switch for p in pipelines for switch in p.switches],
            dead_letters=dict(sum((Counter(found) for found in dead_letters), Counter())),
            seconds=latest.seconds if latest else {},
            pipelines=summaries,
            versions={name: version for p in reversed(pipelines) for name, version in p.versions.items()},
        )

    def _queries(self, pipelines: Sequence[PipelineStatus]) -> dict[str, QueryStatus]:
        """The queries of all pipelines; one that goes over from one to another is shown once."""
        found: dict[str, QueryStatus] = {}
        for name, query in ((name, query) for p in pipelines for name, query in p.queries.items()):
            before = found.get(name)
            found[name] = query if before is None else query.with_earlier(before.total_rows, before.unmatched)
        past = self.past()
        for name in past.keys() & found.keys():
            query = replace(found[name], applied_from=None, complete_from=None, past=past[name])
            for last in (last for last in self._ended if name in last.total_rows):
                query = query.with_earlier(last.total_rows[name], last.total_unmatched.get(name))
            found[name] = query
        return found


def _read_before(file: Location) -> JobStatus | None:
    """The status of the run before. It is a report: where it is damaged, nothing is known of that run."""
    try:
        return read_record(file, FileKind.STATUS, JobStatus)
    except DamageError:
        return None


class PipelineBoard:
    """What the board shows of one pipeline."""

    def __init__(self, board: StatusBoard, number: int, plan_of: PlanOf, names: list[str], last: Manifest):
        self._board = board
        self._plan_of = plan_of
        self._names = names
        self._compared: dict[int, tuple[int, int]] = {}
        """For each join, its comparisons and its release time after the micro-batch before."""
        self._decisions: dict[int, Decision] = {}
        self._frontiers: dict[str, str | None] = {}
        self._moved: dict[str, float] = {}
        """When the frontier of each stream last moved, as a Unix time."""
        self._seen_progress: set[tuple[str, int]] = set()
        self.status = PipelineStatus(number, {name: SourceStatus() for name in names})
        self._follow(0)
        if board.before is not None:
            self._carry_on(board.before)
        self._take(last)

    def _carry_on(self, before: JobStatus) -> None:
        """Sources are counted by Spark per run: go on from the sums of the run before."""
        mine = next((p for p in before.pipelines if p.pipeline == self.status.number), None)
        if mine is None:
            return
        for name, source in self.status.sources.items():
            if name in mine.sources:
                source.total_rows, source.vanished = mine.sources[name].total_rows, mine.sources[name].vanished
        self.status.queries |= {name: before.queries[name] for name in mine.queries if name in before.queries}

    def _follow(self, epoch: int) -> None:
        """Show the queries of an epoch that is in force; those that have gone are shown no more."""
        plan, shown = self._plan_of(epoch), self.status.queries
        self.status.queries = {n: replace(shown.get(n) or QueryStatus(), text=q.text) for n, q in plan.queries.items()}
        self.status.epoch = epoch
        self.status.strategy = plan.strategy
        self.status.chain = plan.chain
        self.status.never = [query.name for query in plan.never]

    def _note_changes(self, manifest: Manifest) -> None:
        """From when on new queries have rows, and all of them."""
        for change in (c for changes in manifest.changes.values() for c in changes):
            for name, complete in change.complete_from.items():
                if name in self.status.queries:
                    self.status.queries[name].applied_from = event_time(change.applied_from)
                    self.status.queries[name].complete_from = event_time(complete)

    def committed(
        self,
        manifest: Manifest,
        latency: Mapping[str, Latency],
        versions: Mapping[str, TableStatus] = NO_VERSIONS,
        vanished: Mapping[int, Sequence[str]] = NO_FILES,
    ) -> None:
        with self._board.lock:
            for source, files in vanished.items():
                shown = self.status.sources[self._names[source]]
                shown.vanished = [*(shown.vanished or []), *files][-VANISHED:]
            self.status.batches += 1
            self.status.versions = dict(versions)
            self._take(manifest)
            for name, query in self.status.queries.items():
                query.response = latency.get(name, Latency()).summary
            self._board.writer.soon()

    def migrated(self, batch: int, move: Move) -> None:
        """Note that the states are cut at other places from now on, or again as before."""
        with self._board.lock:
            slices = {str(j.index): [len(cuts) for cuts in j.cuts] for j in move.plan.joins}
            entry = Migration(batch, move.kind, move.plan.chain, move.gain, slices, self.status.number)
            self.status.migrations = [*self.status.migrations, entry][-MIGRATIONS:]
            self._board.writer.soon()

    def ordered(self, orderings: Orderings) -> None:
        """Note what Adaptive decides."""
        with self._board.lock:
            self._decisions = dict(orderings.decisions)
            self.status.switches = orderings.switches
            self.status.joins = [
                replace(join, ordering=replace(join.ordering, decision=self._decisions.get(join.join - 1)))
                for join in self.status.joins
            ]
            self._board.writer.soon()

    def slowed(self, streams: Mapping[str, float]) -> None:
        """Note which streams are read slowly, and by how many seconds of event time they are ahead."""
        with self._board.lock:
            for name, source in self.status.sources.items():
                source.seconds_ahead = round(streams[name], 3) if name in streams else None

    def rows_read(self) -> dict[str, int]:
        with self._board.lock:
            return {name: source.total_rows for name, source in self.status.sources.items()}

    def progressed(self, progress: dict[str, Any]) -> bool:
        """Take in one of Spark's progress reports; each counts once. True where it was new and ran a micro-batch."""
        with self._board.lock:
            key = (progress["runId"], progress["batchId"])
            if key in self._seen_progress or "addBatch" not in progress.get("durationMs", {}):
                return False
            self._seen_progress.add(key)
            for name, source in zip(self._names, progress["sources"], strict=False):
                self.status.sources[name].rows = source["numInputRows"]
                self.status.sources[name].total_rows += source["numInputRows"]
            self.status.seconds = {k: v / 1000 for k, v in progress["durationMs"].items()}
            self.status.progressed = time.time()
            self._board.writer.soon()
            return True

    def _take(self, manifest: Manifest) -> None:
        if manifest.batch < 0:
            return
        self.status.batch = manifest.batch
        self._follow(manifest.epoch)
        self._note_changes(manifest)
        plan = self._plan_of(manifest.epoch)
        for name, query in self.status.queries.items():
            query.rows = manifest.rows.get(name, 0)
            query.total_rows = manifest.total_rows.get(name, 0)
            asked = plan.queries[name]
            tells_rows = not asked.is_inner and asked.aggregation is None
            query.unmatched = manifest.total_unmatched.get(name, 0) if tells_rows else None
        self.status.dropped = {n: rows for n, rows in manifest.total_rows.items() if n not in self.status.queries}
        self.status.dead_letters = dict(manifest.total_dead_letters)
        self.status.joins = [self._join(join, manifest) for join in plan.joins]

    def _join(self, join: SharedJoin, manifest: Manifest) -> JoinStatus:
        reports = reports_of(join, manifest)
        expected = expected_load(join, reports, self._board.constants, self._board.invalidation)
        self._note_frontiers(join, reports)
        status = describe(join, reports)
        status.pipeline = self.status.number
        status.ordering.setting = self._board.ordering
        status.ordering.decision = self._decisions.get(join.index)
        status.waits_for = waiting(join, reports, self._moved)
        rate = self._rate(join, reports)
        if expected is None:
            status.comparisons_per_second = Comparisons(rate)
            return status
        status.comparisons_per_second = Comparisons(rate, round(expected.comparisons, 1))
        status.predicted_bytes = round(expected.bytes)
        for side in Side:
            for piece, rows in zip(status.slices[side], expected.states[side].rows, strict=True):
                piece.predicted_rows = round(float(rows))
        return status

    def _note_frontiers(self, join: SharedJoin, reports: Reports) -> None:
        for side in Side:
            name, now = join.streams[side].name, frontier(reports, side)
            if name not in self._frontiers or self._frontiers[name] != now:
                self._frontiers[name] = now
                self._moved[name] = time.time()

    def _rate(self, join: SharedJoin, reports: Reports) -> float | None:
        """Comparisons since the micro-batch before, per second of event time; None where time has not passed."""
        now = sum(r.counters.comparisons for r in reports), min((r.release for r in reports), default=0)
        before = self._compared.get(join.index)
        self._compared[join.index] = now
        if before is None or not (is_event_time(before[1]) and is_event_time(now[1])) or now[1] <= before[1]:
            return None
        return round((now[0] - before[0]) / ((now[1] - before[1]) / SECOND_US), 1)
