"""Jobs from Python: declare streams and queries, start, watch, stop."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.core.policy import Policy
from muntin.model import JobSpec, MuntinError, Stream, UsageError
from muntin.plan import Plan
from muntin.plan.adapt import Adaptation
from muntin.spark import control, identity, known, pipeline, sink, source
from muntin.spark.changes import Changes
from muntin.spark.failure import explain_failure
from muntin.spark.hot import forget_hot
from muntin.spark.plans import Epoch, PlanLog
from muntin.spark.publish import Manifest, Publisher
from muntin.spark.requests import Answer
from muntin.spark.session import default_shards, prepare_session, weigh_rows
from muntin.spark.status import StatusBoard, read_status
from muntin.spark.topology import STATE_FORMAT, Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Job", "Run", "read_status"]

LOOK_EVERY = 2
"""Micro-batches between two looks at whether other chains would be cheaper."""
LISTEN_S = 0.1
"""How often a run looks for requests."""
MODES = ("endless", "available-now", "bounded")
Progress = Callable[[dict[str, Any]], None]
"""Called with the status after every micro-batch."""


class Job:
    """Streams and the queries over them, to be run as one Spark job."""

    def __init__(self, spark: SparkSession, spec: JobSpec | None = None):
        self.spark = spark
        self.spec = spec or JobSpec()
        self._frames: dict[str, DataFrame] = {}

    @classmethod
    def from_file(cls, spark: SparkSession, path: str | os.PathLike[str]) -> Job:
        from muntin.sql import parse_job

        return cls(spark, parse_job(Path(path).read_text(), source=str(path)))

    def stream(self, name: str, frame: DataFrame, *, time: str, lateness: str = "0 seconds") -> Job:
        """Add a stream that comes from any streaming DataFrame."""
        from muntin.sql import parse_duration_us

        if not frame.isStreaming:
            raise UsageError(f"stream {name}: this DataFrame is not a streaming one", hint="use spark.readStream")
        if name in self.spec.streams:
            raise UsageError(f"stream {name} is there already")
        schema = source.schema_of(name, frame)
        column = schema.find(time)
        if column is None or column.type not in ("timestamp", "timestamp_ntz"):
            kind = f"has type {column.type}" if column else "is not a column"
            raise UsageError(f"stream {name}: {time} {kind}", hint="the event time must be a timestamp column")
        added = Stream(name, schema, column.name, parse_duration_us(lateness))
        self._frames[name] = frame
        self.spec = dataclasses.replace(self.spec, streams={**self.spec.streams, name: added})
        return self

    def query(self, name: str, sql: str) -> Job:
        """Add a query: the text after `CREATE QUERY name AS`."""
        from muntin.sql import parse_query

        if name in self.spec.queries:
            raise UsageError(f"query {name} is there already")
        added = parse_query(sql, self.spec, name=name)
        self.spec = dataclasses.replace(self.spec, queries={**self.spec.queries, name: added})
        return self

    def explain(self, checkpoint: str | os.PathLike[str] | None = None) -> str:
        """The shared plan; with a checkpoint, predicted from what its joins have met."""
        from muntin.plan.explain import explain

        return explain(self.spec, known.of_checkpoint(self.spec, Path(checkpoint)) if checkpoint else None)

    def start(
        self,
        output: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        sink: sink.Callback | None = None,
        mode: str = "endless",
        progress: Progress | None = None,
    ) -> Run:
        """Start the job; what is wrong with the request is said before anything is written or run.

        `output` None or "none" counts the rows and discards them; `sink` gets them as Arrow tables instead.
        """
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode}", hint=f"modes: {', '.join(MODES)}")
        place = Place.of(output, checkpoint, sink is not None)
        plan = check_job(self.spec, self._frames, place.checkpoint)
        run = Run(self, plan, place, sink, mode, progress)
        run._begin()
        return run

    def _frame(self, stream: Stream) -> DataFrame:
        return self._frames.get(stream.name) or source.read_stream(self.spark, stream)


def check_job(spec: JobSpec, frames: Collection[str] = (), checkpoint: Path | None = None) -> Plan:
    """The plan of a job; refuses one that cannot run. `frames` names the streams that come from DataFrames.

    It needs no Spark, so that the command line can ask before it starts one.
    """
    if not spec.queries:
        raise UsageError("the job has no queries", hint="add CREATE QUERY name AS SELECT ...")
    identity.check_names(spec.queries)
    plan = known.plan_for(spec, checkpoint)
    for stream in plan.streams:
        if stream.name not in frames:
            source.check_source(stream)
    return plan


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a run keeps its checkpoint and its output; a checkpoint that nobody asked for goes when the run ends."""

    checkpoint: Path
    output: Path | None
    temporary: bool

    @classmethod
    def of(
        cls, output: str | os.PathLike[str] | None, checkpoint: str | os.PathLike[str] | None, has_sink: bool
    ) -> Place:
        folder = None if output is None or os.fspath(output) == "none" else Path(output).absolute()
        if has_sink and folder:
            raise UsageError("rows go either to an output folder or to a sink, not to both")
        if checkpoint is not None:
            return cls(Path(checkpoint).absolute(), folder, False)
        if folder:
            return cls(folder / "_checkpoint", folder, False)
        if has_sink:
            raise UsageError("a run with a sink needs a checkpoint", hint="start(sink=..., checkpoint='...')")
        return cls(Path(tempfile.mkdtemp(prefix="muntin-")), None, True)


class Run:
    """A running job. One thread of its own drives it through its phases; this object may be used from any other."""

    def __init__(
        self, job: Job, plan: Plan, place: Place, callback: sink.Callback | None, mode: str, progress: Progress | None
    ):
        self.job, self.plan, self.place, self.mode = job, plan, place, mode
        self._progress, self._callback = progress, callback
        self._query: StreamingQuery | None = None
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._writing = threading.Lock()
        self._error: MuntinError | None = None
        self._adaptation, self._arrived = Adaptation(), 0
        self.differences: list[str] = []
        """What the job has otherwise than the run before on this checkpoint, one line each."""

    # -- start ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        spark, spec, checkpoint = self.job.spark, self.job.spec, self.place.checkpoint
        prepare_session(spark)
        shards = spec.settings.shards or self._stored_shards() or default_shards(spark)
        described = self._described_output()
        reads = self._reads()
        wanted = identity.identity(reads, self.plan.strategy, spec.settings, shards, described, STATE_FORMAT)
        identity.check_checkpoint(checkpoint, wanted)
        self._lock = identity.Lock(checkpoint)
        try:
            self._checkpoint_id = checkpoint_id = identity.claim_checkpoint(checkpoint, wanted)
            if self.place.output:
                identity.claim_output(self.place.output, checkpoint_id)
            publisher = Publisher(checkpoint, self.place.output)
            publisher.recover()
            first = self._take_up(publisher)
            spark.conf.set("spark.sql.shuffle.partitions", str(shards))
            weigh_rows(spark, reads)
            policy = Policy.of(spec.settings, shards * max(1, len(self.plan.joins)))
            in_order = spec.settings.order == "global"
            counting = self.place.output is None and self._callback is None
            topology = Topology(first, shards, in_order, checkpoint_id, policy, str(checkpoint), spec, counting)
            self._sink = sink.Sink(topology, publisher, self._callback)
            names = [*(s.name for s in first.streams), control.NAME]
            self.board = StatusBoard(checkpoint, topology, spec.settings, names, self.mode, publisher.last)
            frames = {s.name: self.job._frame(s) for s in first.streams}
            self._frame = pipeline.build(spark, topology, frames, checkpoint)
            self._was_ended = control.is_ended(checkpoint)
            self._launch()
        except BaseException as error:
            self._lock.release()
            if isinstance(error, Exception) and not isinstance(error, MuntinError):
                raise explain_failure(error) from error
            raise
        threading.Thread(target=self._drive, name="muntin-run", daemon=True).start()
        threading.Thread(target=self._listen, name="muntin-requests", daemon=True).start()

    def _reads(self) -> list[Stream]:
        """The streams that a checkpoint reads, settled when it was begun, as the job declares them now."""
        stored = identity.stored_job(self.place.checkpoint)
        streams = self.job.spec.streams
        if stored is None:
            return list(self.plan.streams)
        return [streams[name] for name in stored["streams"] if name in streams]

    def _take_up(self, publisher: Publisher) -> Plan:
        """Begin the log of plans, or go on with it: the plan of epoch 0."""
        spec, checkpoint = self.job.spec, self.place.checkpoint
        log = PlanLog(checkpoint, spec)
        begun = log.latest() is not None
        if not begun:
            log.write(Epoch(0, self.plan))
        first = log.read(0).plan
        sources = {stream.name for stream in first.streams}
        self._changes = Changes(
            checkpoint, spec, log, sources, lambda: known.of_checkpoint(self._changes.spec, checkpoint, log)
        )
        if begun:
            self._changes.take_up(publisher.last)
            self.differences = self._changes.compare(spec)
        self._prepare_output()
        return first

    def _prepare_output(self) -> None:
        self.plan = self._changes.plan
        if self.place.output:
            sink.prepare_output(self.place.output, self.plan)

    def _stored_shards(self) -> int | None:
        """The number of shards a checkpoint was made with; it stays, wherever the job is run again."""
        stored = identity.stored_job(self.place.checkpoint)
        return None if stored is None else int(stored["settings"]["shards"])

    def _described_output(self) -> str:
        return "a sink" if self._callback else str(self.place.output) if self.place.output else "none"

    def _launch(self) -> None:
        name = f"muntin-{self.place.checkpoint.name}"
        available_now = self.mode != "endless"
        self._query = pipeline.start(self._frame, self._write, self.place.checkpoint, name, available_now)

    # -- while it runs --------------------------------------------------------------------------------------------

    def _write(self, frame: DataFrame, batch: int) -> None:
        """Called by Spark for every micro-batch."""
        with self._writing:
            try:
                self._note_progress()
                manifest = self._sink.write(frame, batch)
                self.board.committed(manifest)
                self._changes.committed(manifest)
                self._adapt(manifest)
            except BaseException as error:
                self._error = self._error or explain_failure(error)
                raise

    def _note_progress(self) -> None:
        """Take in Spark's report of the micro-batch before; called once per micro-batch and at the end.

        The last report is usually it; all that Spark remembers are fetched only where it was about an idle moment.
        """
        if self._query is None or (last := self._query.lastProgress) is None:
            return
        reports = [last] if "addBatch" in last["durationMs"] else self._query.recentProgress
        if any([self.board.progressed(json.loads(report.json)) for report in reports]) and self._progress:
            self._progress(self.board.snapshot())

    def _drive(self) -> None:
        state, error = "stopped", None
        try:
            self._wait()
            if self.mode == "bounded" and not self._stopping.is_set():
                if not self._was_ended:
                    control.send_end(self.place.checkpoint, [s.name for s in self.plan.streams])
                    self._launch()
                    self._wait()
                state = "stopped" if self._stopping.is_set() else "ended"
        except Exception as failure:
            if not self._stopping.is_set():
                self._error = self._error or explain_failure(failure)
                state, error = "failed", self._error.message
        finally:
            self._finish(state, error)

    def _adapt(self, manifest: Manifest) -> None:
        """Look now and then whether other chains would be cheaper for what comes, and go over to them."""
        settings, plan = self.job.spec.settings, self._changes.plan
        epoch = self._changes.log.latest() or 0
        settled = all(report["epoch"] == epoch for report in manifest.operators.values())
        if settings.adapt == "off" or settings.chain == "mem-opt" or plan.strategy != "state-slice" or not settled:
            return
        rows = sum(sum(report["counters"]["arrived"]) for report in manifest.operators.values())
        if rows > self._arrived:
            self._adaptation.note(sum(r["seconds"] for r in manifest.operators.values()) / (rows - self._arrived))
        self._arrived = rows
        if manifest.batch % LOOK_EVERY:
            return
        better, gain = known.better(self._changes.spec, plan, self.place.checkpoint, self._changes.log)
        move = self._adaptation.look(plan, better, gain)
        if move is not None:
            self._changes.migrate(move.plan)
            self.board.migrated(manifest.batch, move)

    def _listen(self) -> None:
        """Take up the requests of other processes while the job runs."""
        while not self._done.wait(LISTEN_S):
            if self._writing.acquire(blocking=False):  # a micro-batch that is over is reported, also if none follows
                try:
                    self._note_progress()
                finally:
                    self._writing.release()
            before = self._changes.log.latest()
            self._changes.poll()
            if self._changes.log.latest() != before:
                self._prepare_output()

    def _wait(self) -> None:
        assert self._query is not None
        try:
            self._query.awaitTermination()
        finally:
            with self._writing:
                self._note_progress()

    def _finish(self, state: str, error: str | None) -> None:
        try:
            self.board.finished(state, error)
            forget_hot(self._checkpoint_id)
        finally:
            self._lock.release()
            if self.place.temporary:
                shutil.rmtree(self.place.checkpoint, ignore_errors=True)
            self._done.set()

    # -- for users ------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        return self.board.snapshot()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the run is over (False: not yet, after `timeout` seconds); a failed run raises its reason.

        Ctrl-C and SIGTERM stop the run cleanly and then raise KeyboardInterrupt.
        """
        with _Signals() as signals:
            waited = 0.0
            while not self._done.wait(0.1):
                waited += 0.1
                if signals.caught:
                    self.stop()
                    raise KeyboardInterrupt
                if timeout is not None and waited >= timeout:
                    return False
        if self._error is not None and not self._stopping.is_set():
            raise self._error
        return True

    def stop(self) -> None:
        """Stop after what is committed; a later run goes on from there."""
        self._stopping.set()
        if self._query is not None and self._query.isActive:
            try:
                self._query.stop()
            except Exception as error:
                raise explain_failure(error) from error
        self._done.wait()

    def add(self, sql: str) -> Answer:
        """Add or replace a query: `CREATE [OR REPLACE] QUERY name AS ...`; returns when it is in force."""
        return self._change(sql)

    def drop(self, name: str) -> Answer:
        """Drop a query; returns when its output has stopped."""
        return self._change(f"DROP QUERY {name}")

    def _change(self, sql: str) -> Answer:
        if self._done.is_set():
            raise UsageError("the run is over", hint="change the job and start it again")
        epoch = self._changes.submit(sql)
        self._prepare_output()
        answer = self._changes.wait(epoch, lambda: not self._done.is_set())
        if answer.state != "in force":
            raise MuntinError("the run ended before the change was in force", hint="it takes effect with the next run")
        return answer


class _Signals:
    """SIGINT and SIGTERM as a flag, while somebody waits in the main thread (PySpark's own handler cancels jobs)."""

    def __enter__(self) -> _Signals:
        self.caught = False
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._catch)
        return self

    def _catch(self, *_: Any) -> None:
        self.caught = True

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
