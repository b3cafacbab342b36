"""A pipeline: one Spark streaming query of a job, with sources, joins, plans and a checkpoint folder of its own.

A job begins with one. Another is added where a query comes over streams that no pipeline reads, since Spark settles the
sources of a query with its checkpoint. Pipelines share process, output folder and mailbox; each commits its own
micro-batches, and what they publish bears their number.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muntin.core.policy import Policy
from muntin.model import JobSpec, Lookup, MuntinError, Query, Stream
from muntin.plan import Plan
from muntin.plan.traffic import Knowledge
from muntin.spark.brokers import is_paced
from muntin.spark.checkpoint import KEPT_MANIFESTS, Epoch, Manifest, PlanLog, PowerSync, identity
from muntin.spark.control import Adapter, Admission, Changes, Pacing, Tell, Watch, control_stream, measured_by
from muntin.spark.exchange import Address, Briefing, Topology
from muntin.spark.run import dataflow
from muntin.spark.run.executors import forget_everywhere
from muntin.spark.run.failure import explain_failure
from muntin.spark.run.output_place import OutputPlace
from muntin.spark.run.quiet_moments import QuietMoments
from muntin.spark.run.removal import remove_folder, remove_state
from muntin.spark.run.start_queue import StartQueue
from muntin.spark.run.status_board import StatusBoard
from muntin.spark.run.taking_over import TakeOvers
from muntin.spark.run.vanished import vanished
from muntin.spark.run.verify import last_number
from muntin.spark.session import weigh_rows
from muntin.spark.sink import BatchWriter, EagerHub, HeldResults, Hub, HubPlace, RoutedSink
from muntin.spark.store import spark_half
from muntin.spark.tables import open_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

NOT_UP, TRIES = "waiting for the Python worker to connect back", 3
"""What Spark says when a machine is too busy to start its Python process in ten seconds, and how often it is tried."""


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What the pipelines of a run have in common, and what they call."""

    spark: SparkSession
    spec: JobSpec
    place: OutputPlace
    mode: str
    shards: int
    board: StatusBoard
    start_queue: StartQueue = field(default_factory=StartQueue)
    source: Callable[[Stream], DataFrame]
    """The rows of a stream."""
    tell: Tell
    after_batch: Callable[[], None]
    after_end: Callable[[Pipeline], None]
    take_overs: TakeOvers


class Pipeline:
    """One streaming query. A thread of its own drives it through its phases; its first epoch is written already."""

    def __init__(self, context: RunContext, number: int):
        checkpoint, spec = context.place.checkpoint, context.spec
        self._context = context
        self.number = number
        self.folder = identity.pipeline_folder(checkpoint, number)
        self.id = identity.checkpoint_id(self.folder)
        stored = identity.stored_job(self.folder)
        self.reads_past = stored is not None and stored.reads_past
        self.publisher = context.place.sink.open_publisher(self.folder, identity.pipeline_prefix(checkpoint, number))
        if spec.settings.survives_power_cuts:
            self.publisher.power = PowerSync(self.folder)
        self._sink = context.place.sink.attached(number, self.publisher)
        self.changes = Changes(self.folder, checkpoint, spec, PlanLog(self.folder, spec), self._knowledge, context.tell)
        self.state = "stopped"
        self.error = None
        self._frame: DataFrame | None = None
        self._query: StreamingQuery | None = None
        self._stopping = threading.Event()
        self._begun = threading.Event()
        self._restarts = threading.Event()
        """Spark must start the query again: sources are to be read at another speed."""
        self.between_batches = threading.Lock()
        """Held while a micro-batch is written."""
        self._failure: MuntinError | None = None
        self._writer: BatchWriter | None = None
        self._preparing = threading.Lock()
        self._prepared = self.publisher.last.epoch - 1
        """The last epoch whose places are there."""
        self._replayable: tuple[int, int, int] | None = None
        """The epoch of a commit, the last message before it, and its micro-batch."""

    state: str
    """"stopped", "ended" or "failed", once it is over."""
    error: MuntinError | None

    def _knowledge(self) -> Knowledge:
        measured = measured_by(self.changes.log, self.publisher.last)
        return Knowledge(measured=measured, constants=self._context.board.constants)

    # -- start ----------------------------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        return self._frame is not None

    def build(self, joins: int) -> None:
        """Put the streaming query together, without starting it; `joins` is how many the whole job has."""
        context, first = self._context, self.changes.log.read(0).plan
        settings = context.spec.settings
        policy = Policy.of(settings, context.shards * max(1, joins), context.board.constants)
        in_order, ahead_us = settings.in_global_order, None
        if context.mode == "endless":  # there the clock is what rows must not be ahead of, not each other
            ahead_us, policy = policy.max_ahead_us, dataclasses.replace(policy, max_ahead_us=None)
        topology = Topology(
            plan=first,
            shards=context.shards,
            global_order=in_order,
            checkpoint_id=self.id,
            policy=policy,
            epochs=self._epochs_from(self.publisher.before(self.publisher.last.batch)),
            counting=self._sink.counts_in_shards,
            ahead_of_clock_us=ahead_us,
            tables_at=self._open_tables(),
            began_us=time.time_ns() // 1000,
        )
        for number in self.changes.log.numbers():
            self._sink.know(self.changes.log.read(number).plan)
        self._sink.recover()
        hub = Hub()
        if policy.eager:
            hub = eager = self._open_hub(topology)
            topology = dataclasses.replace(topology, hub=eager.address)
        self._writer = BatchWriter(topology, self._sink, hub)
        self._topology = topology
        self._streams = [context.spec.streams[stream.name] for stream in first.streams]
        paced = [stream.name for stream in self._streams if is_paced(context.spark, stream)]
        self._admission = Admission(self._streams, paced)
        self._frame = self._read()
        names = [*(s.name for s in self._streams), control_stream.NAME]
        self.status = context.board.add(self.number, self._plan_of, names, self.publisher.last)
        self._adapter = Adapter(settings, self.changes, self._knowledge, self.status.migrated)
        endless = context.mode == "endless"
        self._watch = Watch(self.folder, self._streams, settings, endless, self.publisher.last)
        self.changes.fits = self._watch.hot_keys.fits
        self._pacing = Pacing(self.folder, settings, context.board.constants, endless)
        self._pacing.begin(self.publisher.last)
        self._quiet = QuietMoments(self._sink, self.publisher, settings)
        self._was_ended = control_stream.is_ended(self.folder)
        self.prepare_output()

    def _read(self) -> DataFrame:
        """The streaming query over its sources, as fast as they are to be read."""
        context = self._context
        read = [(stream, context.source(self._admission.source(stream))) for stream in self._streams]
        context.spark.conf.set("spark.sql.shuffle.partitions", str(context.shards))
        return dataflow.build(context.spark, self._topology, read, self.folder)

    def _plan_of(self, epoch: int) -> Plan:
        return self.changes.log.read(epoch).plan

    def _epochs_from(self, reached: Manifest) -> tuple[Epoch, ...]:
        """The plans that tasks need after a commit, but for the first: what shards are at, and all that come. A message
        goes to the joins of the last plan and of the one before."""
        log = self.changes.log
        return tuple(log.read(number) for number in log.numbers() if number and number >= reached.epoch - 1)

    def _brief(self, batch: int) -> None:
        """Tell the tasks of a micro-batch the plans that came after the streaming query began."""
        before, known = self.publisher.before(batch), {epoch.number for epoch in self._topology.epochs}
        epochs = self._epochs_from(before)
        changing = bool(epochs) and epochs[-1].number > before.epoch
        reached = control_stream.streams_reached(before) if changing else ()
        new = tuple(epoch for epoch in epochs if epoch.number not in known)
        versions, hot = self.tables.at(batch, self._lookups), self._watch.hot_keys.keys(before)
        Briefing(new, reached, versions, hot).give(self._context.spark)

    def _open_tables(self) -> Address | None:
        """Read the tables that rows look into; where tasks ask for them."""
        tried = last_number(spark_half(self.folder) / "offsets")
        self.tables = open_tables(self._context.spark, self.folder, self._context.spec.tables, tried)
        self.tables.forget(self.publisher.last.batch)
        self.tables.begin(self._lookups)
        return self.tables.address

    @property
    def _lookups(self) -> list[Lookup]:
        return [lookup for stream in self.changes.plan.streams for lookup in stream.lookups]

    def _open_hub(self, topology: Topology) -> EagerHub:
        """Listen for results that shards deliver while they are at work."""
        return EagerHub(
            HubPlace.of(self._context.spark.sparkContext.getConf()),
            in_order=topology.global_order,
            shards=topology.shards,
            deliver=self._sink.deliver,
            plan_of=self._plan_of,
            kept=HeldResults(self.folder),
        )

    def prepare_output(self) -> None:
        """Give each query its folder or table, once for each epoch."""
        with self._preparing:
            for number in (n for n in self.changes.log.numbers() if n > self._prepared):
                self._sink.prepare(self.changes.log.read(number).plan, self._context.spec.settings)
                self._prepared = number

    def start(self) -> None:
        self._launch()
        threading.Thread(target=self._drive, name=f"muntin-pipeline-{self.number}", daemon=True).start()

    def _launch(self) -> None:
        assert self._frame is not None
        name = f"muntin-{self._context.place.checkpoint.name}" + (f"-{self.number}" if self.number else "")
        frame, available_now = self._frame, self._context.mode != "endless"

        def launch() -> None:
            self._begun.clear()
            weigh_rows(self._context.spark, self._streams)
            self._query = dataflow.start(frame, self._write, self.folder, name, available_now)

        self._context.start_queue.start(launch, self._has_begun)

    def _has_begun(self) -> bool:
        """Whether it runs a micro-batch, waits for one, or is over."""
        query = self._query
        return self._begun.is_set() or query is None or not query.isActive or "Waiting" in query.status["message"]

    # -- while it runs --------------------------------------------------------------------------------------------

    def _write(self, frame: DataFrame, batch: int) -> None:
        """Called by Spark for every micro-batch."""
        self._begun.set()
        self._context.take_overs.enter(self)
        with self.between_batches:
            began = time.monotonic()
            try:
                self._note_progress()
                self.prepare_output()
                assert self._writer is not None
                self._brief(batch)
                spans = self._context.take_overs.spans(self.number, self.changes.plan)
                manifest = self._writer.write(frame, batch, spans)
                seen = self.tables.status(batch), vanished(self.folder, batch)
                self.status.committed(manifest, self._writer.latency, *seen)
                self.changes.committed(manifest)
                self._context.take_overs.committed(self, manifest)
                if batch % KEPT_MANIFESTS == 0:
                    self._forget(manifest)
                self._adapter.committed(manifest)
                plan = self.changes.log.read(manifest.epoch).plan
                if self._context.mode == "endless" and self._admission.look(plan, manifest):
                    self._restarts.set()
                self.status.slowed(self._admission.slowed)
                self._pacing.committed(manifest)
                if self._watch.committed(plan, manifest):
                    self.status.ordered(self._watch.orderings)
                self._quiet.committed(plan.queries)
                self._watch.exclude(time.monotonic() - began)
            except BaseException as error:
                self._failure = self._failure or explain_failure(error)
                if isinstance(error, Exception):
                    raise
                raise self._failure from error  # Spark hears of ordinary exceptions only, and waits for others

    def _forget(self, manifest: Manifest) -> None:
        """Remove what no replay can need any more: what was there one look ago. No clock says when that was."""
        if self._replayable is not None:
            epoch, message, batch = self._replayable
            self.changes.forget(epoch, message)
            self.tables.forget(batch)
        self._replayable = manifest.epoch, control_stream.last_number(self.folder), manifest.batch

    def note_progress(self) -> None:
        """Report a micro-batch that is over also if none follows."""
        if self.between_batches.acquire(blocking=False):
            try:
                self._note_progress()
                self._watch.report_idle(self.status.rows_read())
                self._quiet.look(self.changes.plan.queries)
            finally:
                self.between_batches.release()
            if self._restarts.is_set() and self._query is not None and self._query.isActive:
                self._query.stop()

    def _note_progress(self) -> None:
        """Take in Spark's report of the micro-batch before: the last, or all where that was about an idle moment."""
        if self._query is None or (last := self._query.lastProgress) is None:
            return
        reports = [last] if "addBatch" in last["durationMs"] else self._query.recentProgress
        if any([self.status.progressed(json.loads(report.json)) for report in reports]):
            self._context.after_batch()

    def _drive(self) -> None:
        try:
            self._wait()
            while self._restarts.is_set() and not self._stopping.is_set():
                self._restarts.clear()
                self._failure, self._frame = None, self._read()
                self._launch()
                if self._stopping.is_set() and self._query is not None:  # stop() came while there was none to stop
                    self._query.stop()
                self._wait()
            if self._context.mode == "bounded" and not self._stopping.is_set():
                if not self._was_ended:
                    names = [stream.name for stream in self.changes.plan.streams]
                    control_stream.send(self.folder, control_stream.EndMessage(names))
                    self._launch()
                    self._wait()
                self.state = "stopped" if self._stopping.is_set() else "ended"
        except Exception as failure:
            if not self._stopping.is_set():
                self.state, self.error = "failed", self._failure or explain_failure(failure)
        finally:
            self._context.after_end(self)

    def _wait(self, tries: int = TRIES) -> None:
        """Wait for the end; where Spark's Python process did not come up in time, start once more."""
        assert self._query is not None
        try:
            self._query.awaitTermination()
        except Exception as failure:
            if self._restarts.is_set() and not self._stopping.is_set():
                return  # what was interrupted is done again by the next start
            reason = (self._failure or explain_failure(failure)).message
            if tries <= 1 or self._stopping.is_set() or NOT_UP not in reason:
                raise
            self._failure = None
            self._launch()
            self._wait(tries - 1)
        finally:
            with self.between_batches:
                self._note_progress()

    @property
    def is_on_trial(self) -> bool:
        """Whether a change of the running job began it, and it has committed nothing: others can do without it."""
        return self.changes.log.read(0).kind is not None and self.publisher.last.batch < 0

    # -- the end --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop after what is committed; a later run goes on from there."""
        self._stopping.set()
        if self._query is not None and self._query.isActive:
            try:
                self._query.stop()
            except Exception as error:
                raise explain_failure(error) from error

    def remove_local_files(self) -> None:
        """Remove what lies on single machines only."""
        if self._writer is not None:
            self._writer.close()
            self._admission.close()
            self.tables.close()
        forget_everywhere(self._context.spark, self.id)

    def discard(self) -> None:
        """Leave no trace: it has published nothing."""
        self.remove_local_files()
        self.publisher.recover()
        remove_folder(self.folder)

    def retire(self) -> None:
        """End for good: mark the folder, and remove all but the mark and the totals."""
        identity.retire(self.folder)
        self.remove_local_files()
        remove_state(self.folder)


def check_query(query: Query, sink: RoutedSink, pipelines: Sequence[Pipeline]) -> None:
    """Refuse a new query that the output, or the tables that it looks into, cannot do."""
    sink.check(query)
    for pipeline in pipelines:
        if {query.left, query.right} <= pipeline.changes.sources:
            pipeline.tables.check(query.lookups)
