"""Jobs from Python: declare streams and queries, start, watch, stop."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.model import JobSpec, MuntinError, Query, Stream, UsageError
from muntin.plan import Plan, reporting
from muntin.spark.checkpoint import Answer, Epoch, PlanLog, Publisher, identity, last_manifest
from muntin.spark.control import ChangeRequest, Changes, Router, assign, differences, known, with_pending
from muntin.spark.exchange import STATE_FORMAT
from muntin.spark.ingest import sources
from muntin.spark.run import verify
from muntin.spark.run.failure import explain_failure
from muntin.spark.run.pipeline import Pipeline, RunContext, StartQueue, sweep
from muntin.spark.run.signals import StopSignals
from muntin.spark.run.status import StatusBoard, read_status
from muntin.spark.session import default_shards, java_failure, prepare_session
from muntin.spark.sink import Callback, OutputRequest, Sink, open_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Job", "Run", "read_status"]

GIVE_UP_S = 3.0
"""How long a run may take to end by itself after Java has."""
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

    def stream(
        self,
        name: str,
        frame: DataFrame,
        *,
        time: str,
        lateness: str = "0 seconds",
        idle_after: str | None = None,
        promises: str | None = None,
    ) -> Job:
        """Add a stream that comes from any streaming DataFrame.

        `promises` is what a job file says of them: `"UNIQUE (k)"`, `"PUNCTUATION WHEN closed BINDING 1 hour"`.
        """
        from muntin.sql import parse_duration_us, parse_promises

        if not frame.isStreaming:
            raise UsageError(f"stream {name}: this DataFrame is not a streaming one", hint="use spark.readStream")
        if name in self.spec.streams:
            raise UsageError(f"stream {name} is there already")
        schema = sources.schema_of(name, frame)
        column = schema.find(time)
        if column is None or column.type not in ("timestamp", "timestamp_ntz"):
            kind = f"has type {column.type}" if column else "is not a column"
            raise UsageError(f"stream {name}: {time} {kind}", hint="the event time must be a timestamp column")
        idle_us = None if idle_after is None else parse_duration_us(idle_after)
        added = Stream(name, schema, column.name, parse_duration_us(lateness), idle_us=idle_us)
        if promises is not None:
            added = parse_promises(promises, added)
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

        if checkpoint is None:
            return explain(self.spec)
        place = Path(checkpoint)
        return explain(
            self.spec, known.of_checkpoint(self.spec, place), known.begun_with(place), known.streams_per_pipeline(place)
        )

    def start(
        self,
        output: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        sink: Callback | None = None,
        mode: str = "endless",
        progress: Progress | None = None,
        truncate_output: bool = False,
    ) -> Run:
        """Start the job; what is wrong with the request is said before anything is written or run.

        `output` is spelled as `muntin run --help` says for `--output`; None counts the rows and discards them. `sink`
        gets them as Arrow tables instead.
        `truncate_output` removes from the output what is newer than the checkpoint, which was restored from a back-up.
        """
        if mode not in MODES:
            raise UsageError(f"there is no mode {mode}", hint=f"modes: {', '.join(MODES)}")
        request = OutputRequest(
            output=None if output is None else os.fspath(output),
            callback=sink,
            eager=self.spec.settings.delivery == "eager",
            aggregates=any(query.aggregation for query in self.spec.queries.values()),
        )
        place = OutputPlace.of(open_sink(request), checkpoint)
        plan = check_job(self.spec, self._frames, place.checkpoint)
        run = Run(self, plan, place, mode, progress)
        run._begin(truncate_output)
        return run

    def _frame(self, stream: Stream) -> DataFrame:
        return self._frames.get(stream.name) or sources.read_stream(self.spark, stream)


def check_job(spec: JobSpec, frames: Collection[str] = (), checkpoint: Path | None = None) -> Plan:
    """The plan of a job; refuses one that cannot run. `frames` names the streams that come from DataFrames.

    It needs no Spark, so that the command line can ask before it starts one.
    """
    if not spec.queries:
        raise UsageError("the job has no queries", hint="add CREATE QUERY name AS SELECT ...")
    identity.check_names(spec.queries)
    plan = known.plan_for(spec, checkpoint)
    check_sources(plan, frames)
    return plan


def check_sources(plan: Plan, frames: Collection[str]) -> None:
    """Refuse a plan over streams that cannot be read; `frames` names those that come from DataFrames."""
    for stream in plan.streams:
        if stream.name not in frames:
            sources.check_source(stream)


@dataclasses.dataclass(frozen=True)
class OutputPlace:
    """Where a run keeps its checkpoint, and where its rows go. A checkpoint that nobody named goes when the run ends."""

    checkpoint: Path
    sink: Sink
    temporary: bool

    @classmethod
    def of(cls, sink: Sink, checkpoint: str | os.PathLike[str] | None) -> OutputPlace:
        place = sink.default_checkpoint() if checkpoint is None else Path(checkpoint).absolute()
        if place is not None:
            return cls(place, sink, temporary=False)
        return cls(Path(tempfile.mkdtemp(prefix="muntin-")), sink, temporary=True)


class Run:
    """A running job: its pipelines, and a thread that takes up requests. This object may be used from any thread."""

    def __init__(
        self,
        job: Job,
        plan: Plan,
        place: OutputPlace,
        mode: str,
        progress: Progress | None,
    ):
        self.job, self.place, self.mode = job, place, mode
        self._strategy = plan.strategy
        self._plan, self._progress = plan, progress
        self._pipelines: list[Pipeline] = []
        self._active: set[Pipeline] = set()
        self._changing = threading.RLock()
        """Held while queries and pipelines come and go, and while the run ends."""
        self._running = False
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._error: MuntinError | None = None
        self.differences: list[str] = []
        """What the job has otherwise than the run before on this checkpoint, one line each."""
        self.warnings: list[str] = []
        """What was published and is not there any more, and what was removed from the output, one line each."""

    # -- start ----------------------------------------------------------------------------------------------------

    def _begin(self, truncate_output: bool) -> None:
        spark, spec, checkpoint = self.job.spark, self.job.spec, self.place.checkpoint
        prepare_session(spark)
        self._shards = spec.settings.shards or self._stored_shards() or default_shards(spark)
        stored = identity.stored_job(checkpoint)
        wanted = self._identity(self._plan.streams if stored is None else self._declared(stored))
        identity.check_checkpoint(checkpoint, wanted)
        self._lock = identity.Lock(checkpoint)
        try:
            checkpoint_id = identity.claim_checkpoint(checkpoint, wanted)
            verify.verify_checkpoint(checkpoint)
            if (output := self.place.sink.folder) is not None:
                identity.check_output(output, checkpoint_id)
                self._verify_output(output, truncate_output)
                identity.claim_output(output, checkpoint_id)
            for query in spec.queries.values():
                self.place.sink.check(query)
            with self._changing:  # a pipeline that is over at once waits until all have been started
                self._open()
                for pipeline in self._pipelines:
                    self._start(pipeline)
                self._running = True
        except BaseException as error:
            for pipeline in self._pipelines:
                pipeline.stop()
            self._lock.release()
            if isinstance(error, Exception) and not isinstance(error, MuntinError):
                raise explain_failure(error) from error
            raise
        threading.Thread(target=self._listen, name="muntin-requests", daemon=True).start()

    def _verify_output(self, output: Path, truncate: bool) -> None:
        """Refuse an output of another moment than the checkpoint, or make it one of the same."""
        if truncate:
            removed = verify.truncate_output(self.place.checkpoint, output)
            self.warnings += [f"removed, being newer than the checkpoint: {output / name}" for name in removed]
        self.warnings += verify.verify_output(self.place.checkpoint, output)

    def _start(self, pipeline: Pipeline) -> None:
        pipeline.start()
        self._active.add(pipeline)

    def _identity(self, streams: Iterable[Stream]) -> dict[str, Any]:
        settings, output = self.job.spec.settings, self.place.sink.description
        return identity.identity(streams, self._strategy, settings, self._shards, output, STATE_FORMAT)

    def _declared(self, stored: Mapping[str, Any]) -> list[Stream]:
        """The streams that a pipeline reads, settled when it was begun, as the job declares them now."""
        streams = self.job.spec.streams
        return [streams[name] for name in stored["streams"] if name in streams]

    def _stored_shards(self) -> int | None:
        """The number of shards a checkpoint was made with; it stays, wherever the job is run again."""
        stored = identity.stored_job(self.place.checkpoint)
        return None if stored is None else int(stored["settings"]["shards"])

    def _open(self) -> None:
        """Begin the first pipeline, or go on with those of the run before, and with the queries of the job file."""
        spec, checkpoint = self.job.spec, self.place.checkpoint
        self.board = StatusBoard(checkpoint, spec.settings, self.mode)
        self._host = RunContext(
            self.job.spark,
            spec,
            checkpoint,
            self.place.sink,
            self._shards,
            self.mode,
            self.board,
            self.job._frame,
            self._reported,
            self._over,
            StartQueue(),
        )
        self._router = Router(checkpoint, spec, self._begin_pipeline, self.place.sink.check, self._changing)
        log, stored = PlanLog(checkpoint, spec), identity.stored_job(checkpoint)
        assert stored is not None
        if log.latest() is None and not identity.is_over(stored):
            log.write(Epoch(0, self._plan))
            self._pipelines = [Pipeline(self._host, 0)]
            self._router.pipelines = [self._pipelines[0].changes]
        else:
            self._go_on()
        joins = sum(len(pipeline.changes.plan.joins) for pipeline in self._pipelines)
        for pipeline in self._pipelines:
            if not pipeline.is_built:
                pipeline.build(joins)

    def _go_on(self) -> None:
        """Open the pipelines that have queries still, and end the others; then do what waits to come into force."""
        spec, checkpoint = self.job.spec, self.place.checkpoint
        old: dict[str, Query | None] = {}
        pipelines: list[Pipeline] = []
        for number in identity.pipeline_numbers(checkpoint):
            folder = identity.pipeline_folder(checkpoint, number)
            stored, log = identity.stored_job(folder), PlanLog(folder, spec)
            if stored is None or (log.latest() is None and not identity.is_over(stored)):
                shutil.rmtree(folder, ignore_errors=True)  # its process died before it began
            elif identity.is_over(stored):
                self.board.close(last_manifest(folder))
                sweep(folder)
            elif not set(stored["streams"]) <= set(spec.streams):  # declared no more, so nobody can ask for them
                old |= dict.fromkeys(log.names())
                self._retire(folder)
            else:
                pipelines.append(Pipeline(self._host, number))
                old |= pipelines[-1].changes.plan.queries
        spec = with_pending(
            spec, [e for pipeline in pipelines for e in pipeline.changes.pending(pipeline.publisher.last)]
        )
        self.differences = differences(old, spec.queries)
        homes = assign(spec, [(pipeline.changes.sources, pipeline.changes.plan.queries) for pipeline in pipelines])
        kept = [pipeline for n, pipeline in enumerate(pipelines) if n in homes.values()]
        for pipeline in kept:
            stored = identity.stored_job(pipeline.folder) or {}
            identity.claim_checkpoint(pipeline.folder, self._identity(self._declared(stored)))
        for pipeline in pipelines:
            pipeline.publisher.recover()
            if pipeline in kept:
                pipeline.changes.take_up(pipeline.publisher.last)
            else:
                pipeline.changes.close(pipeline.publisher.last)
                self.board.close(pipeline.publisher.last)
                pipeline.retire()
        self._pipelines = kept
        self._router.pipelines = [pipeline.changes for pipeline in kept]
        self._router.compare(spec)

    def _retire(self, folder: Path) -> None:
        """End a pipeline that cannot even be opened."""
        publisher = Publisher(folder, self.place.sink.folder)
        publisher.recover()
        self.board.close(publisher.last)
        identity.retire(folder)
        sweep(folder)

    def _begin_pipeline(self, spec: JobSpec, elsewhere: Collection[str], asked: ChangeRequest) -> Changes:
        """Begin a pipeline for queries over streams that none reads; nothing of it is left where that fails."""
        with self._changing:
            if self._done.is_set() or self._stopping.is_set():
                raise UsageError("the run is over", hint="change the job and start it again")
            checkpoint = self.place.checkpoint
            plan = known.plan_for(spec, checkpoint)
            check_sources(plan, self.job._frames)
            number = max(identity.pipeline_numbers(checkpoint)) + 1
            folder = identity.pipeline_folder(checkpoint, number)
            try:
                identity.claim_checkpoint(folder, self._identity(plan.streams))
                first = Epoch(0, reporting(plan, elsewhere), {}, asked.name, asked.kind, asked.request)
                PlanLog(folder, self.job.spec).write(first)
                pipeline = Pipeline(self._host, number)
                pipeline.build(sum(len(other.changes.plan.joins) for other in (*self._pipelines, pipeline)))
                if asked.kind:
                    pipeline.changes.send(first)
                if self._running:
                    self._start(pipeline)
            except BaseException as error:
                shutil.rmtree(folder, ignore_errors=True)
                raise error if isinstance(error, MuntinError) else explain_failure(error) from error
            self._pipelines.append(pipeline)
            return pipeline.changes

    # -- while it runs --------------------------------------------------------------------------------------------

    def _reported(self) -> None:
        if self._progress:
            self._progress(self.board.snapshot())

    def _listen(self) -> None:
        """Take up the requests of other processes while the job runs, and end pipelines that have no queries any more."""
        while not self._done.wait(LISTEN_S):
            for pipeline in list(self._pipelines):
                pipeline.note_progress()
                if pipeline.changes.over:
                    pipeline.stop()
            self._router.poll()
            self._prepare_output()

    def _prepare_output(self) -> None:
        """Give each query its folder as soon as it is accepted."""
        for pipeline in list(self._pipelines):
            pipeline.prepare_output()

    def _over(self, pipeline: Pipeline) -> None:
        """A pipeline has stopped, for whatever reason. The last one takes the run along, and one that failed all others,
        unless it was just tried."""
        with self._changing:
            self._active.discard(pipeline)
            if pipeline.error is not None and pipeline.is_on_trial and self._active:
                self._remove(pipeline)
                pipeline.discard()
                pipeline.changes.refuse(pipeline.error)
            elif pipeline.error is not None:
                self._error = self._error or pipeline.error
                for other in self._active:
                    other.stop()
            elif pipeline.changes.over:  # for good: its last query has gone
                self._remove(pipeline)
                pipeline.retire()
            if not self._active:
                self._finish()

    def _remove(self, pipeline: Pipeline) -> None:
        self._router.remove(pipeline.changes)
        self._pipelines.remove(pipeline)
        self.board.close(pipeline.publisher.last, pipeline.status)

    def _finish(self) -> None:
        states = {pipeline.state for pipeline in self._pipelines}
        state = "failed" if self._error else "ended" if states == {"ended"} else "stopped"
        try:
            self.board.finished(state, self._error.message if self._error else None)
            for pipeline in self._pipelines:
                pipeline.forget()
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
        with StopSignals() as signals:
            until = None if timeout is None else time.monotonic() + timeout
            while not self._done.wait(0.1):
                if signals.caught:
                    self.stop()
                    raise KeyboardInterrupt(signals.caught)
                if (failure := java_failure()) is not None:
                    self._give_up(failure)
                if until is not None and time.monotonic() >= until:
                    return False
        if self._error is not None and not self._stopping.is_set():
            raise self._error
        return True

    def stop(self) -> None:
        """Stop after what is committed; a later run goes on from there."""
        self._stopping.set()
        with self._changing:  # a pipeline that is about to begin is there then
            pipelines = list(self._active)
        for pipeline in pipelines:
            pipeline.stop()
        while not self._done.wait(0.1):
            if (failure := java_failure()) is not None:
                self._give_up(failure)

    def _give_up(self, failure: MuntinError) -> None:
        """Java has ended: what waits for it in this process may wait for ever, so the run ends without it."""
        if self._done.wait(GIVE_UP_S):
            self._error = failure
            return
        self._error = failure
        self._finish()

    def add(self, sql: str) -> Answer:
        """Add or replace a query: `CREATE [OR REPLACE] QUERY name AS ...`; returns when it is in force."""
        return self._change(sql)

    def drop(self, name: str) -> Answer:
        """Drop a query; returns when its output has stopped."""
        return self._change(f"DROP QUERY {name}")

    def _change(self, sql: str) -> Answer:
        if self._done.is_set():
            raise UsageError("the run is over", hint="change the job and start it again")
        ticket = self._router.submit(sql)
        self._prepare_output()
        answer = ticket.pipeline.wait(ticket.epoch, lambda: not self._done.is_set())
        if answer.state == "refused":
            raise MuntinError(answer.error or "the change was refused", hint=answer.hint)
        if answer.state != "in force":
            raise MuntinError("the run ended before the change was in force", hint="it takes effect with the next run")
        return answer
