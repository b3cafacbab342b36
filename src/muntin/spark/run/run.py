"""A running job: its pipelines, the requests that change it, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from muntin.model import JobSpec, MuntinError, Query, Stream, UsageError
from muntin.plan import Plan, reporting
from muntin.spark.checkpoint import Answer, Epoch, PlanLog, identity, stored_job, take_checkpoint
from muntin.spark.control import (
    ChangeRequest,
    Changes,
    QueryRouter,
    Tell,
    advice,
    assign_queries,
    plan_for,
    query_differences,
    refuse_history,
    with_pending_changes,
)
from muntin.spark.ingest import sources
from muntin.spark.run.claim import CheckpointClaim, check_history, check_sources, refuse_redivision
from muntin.spark.run.doors import expect_text
from muntin.spark.run.ended import refuse_ended
from muntin.spark.run.failure import explain_failure
from muntin.spark.run.history_keeper import HistoryKeeper
from muntin.spark.run.output_place import OutputPlace
from muntin.spark.run.pipeline import Pipeline, RunContext, check_query
from muntin.spark.run.removal import remove_folder
from muntin.spark.run.reopening import reopen
from muntin.spark.run.rescaling import finish_rescale, follow_cores
from muntin.spark.run.status_board import StatusBoard
from muntin.spark.run.status_report import StatusReport
from muntin.spark.run.taking_over import TakeOvers
from muntin.spark.session import AFTER_ERROR_S, default_shards, java_failure, java_process, prepare_session
from muntin.spark.signals import StopSignals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GIVE_UP_S = 3.0
"""How long a run may take to end by itself after Java has."""
LISTEN_S = 0.1
"""How often a run looks for requests."""
Progress = Callable[[StatusReport], None]
"""Called with the status after every micro-batch."""


class Run:
    """A running job: its pipelines, and a thread that carries out requests. Any thread may use this object."""

    def __init__(
        self,
        spark: SparkSession,
        spec: JobSpec,
        plan: Plan,
        place: OutputPlace,
        mode: str,
        progress: Progress | None,
        frames: Mapping[str, DataFrame],
        on_change: Tell | None = None,
    ):
        self.place, self.mode = place, mode
        self._spark, self._spec, self._plan = spark, spec, plan
        self._progress = progress
        self._frames = frames
        self._tell = on_change or (lambda answer: None)
        self._pipelines: list[Pipeline] = []
        self._active: set[Pipeline] = set()
        self._changing = threading.RLock()
        """Held while queries and pipelines come and go, and while the run ends."""
        self._running = False
        self._stopping = threading.Event()
        self._done = threading.Event()
        self._error: MuntinError | None = None
        self.differences: list[str] = []
        """What the job has otherwise than the run before, one line each."""
        self.warnings: list[str] = advice(spec)
        """What the job may not mean, what was published and is gone, and what was taken from the output."""

    # -- start ----------------------------------------------------------------------------------------------------

    def _begin(self, truncate_output: bool) -> None:
        spec, checkpoint = self._spec, self.place.checkpoint
        prepare_session(self._spark, checkpoint)
        finish_rescale(checkpoint)
        for stream in self._plan.streams:
            self._source(stream)  # what Spark cannot read is refused before the checkpoint is this job's
        self._claim = CheckpointClaim(self.place, spec.streams, self._plan.strategy, spec.settings, self._shards())
        wanted = self._claim.check(self._plan.streams)
        if spec.settings.follows_cores:
            self.warnings += follow_cores(self._spark, checkpoint)
            self._claim = self._claim.renewed()
            wanted = self._claim.check(self._plan.streams)
        self._lock = take_checkpoint(checkpoint, java_process(self._spark))
        try:
            self.warnings += self._claim.take(wanted, truncate_output)
            refuse_ended(checkpoint, self.mode)
            for query in spec.queries.values():
                self.place.sink.check(query)
            with self._changing:  # a pipeline that is over at once waits until all have been started
                self._open()
                self._router.poll()
                self._take_overs.look(self._router)
                self._prepare_output()
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

    def _shards(self) -> int:
        """As many as the checkpoint was made with, wherever the job is run again."""
        stored = stored_job(self.place.checkpoint)
        return self._spec.settings.fixed_shards or (stored.settings.shards if stored else default_shards(self._spark))

    def _start(self, pipeline: Pipeline) -> None:
        pipeline.start()
        self._active.add(pipeline)

    def _check(self, query: Query) -> None:
        check_query(query, self.place.sink, self._pipelines)

    def _source(self, stream: Stream) -> DataFrame:
        return self._frames.get(stream.name) or sources.read_stream(self._spark, stream)

    def _open(self) -> None:
        """Begin the first pipeline, or go on with those of the run before, and with the queries of the job file."""
        spec, checkpoint = self._spec, self.place.checkpoint
        self.board = StatusBoard(checkpoint, spec.settings, self.mode, spec)
        self._history = HistoryKeeper(checkpoint, self.board.before)
        self._take_overs = TakeOvers(checkpoint, spec.settings, self.place.sink.counts_in_shards)
        self._take_overs.pipelines = lambda: list(self._pipelines)
        self.board.past = self._take_overs.in_words
        self._context = RunContext(
            spark=self._spark,
            spec=spec,
            place=self.place,
            mode=self.mode,
            shards=self._claim.shards,
            board=self.board,
            source=self._source,
            tell=self._tell,
            after_batch=self._report_progress,
            after_end=self._pipeline_ended,
            take_overs=self._take_overs,
        )
        self._router = QueryRouter(checkpoint, spec, self._begin_pipeline, self._check, self._changing, self._tell)
        log, stored = PlanLog(checkpoint, spec), stored_job(checkpoint)
        assert stored is not None
        if log.latest() is None and not stored.is_over:
            log.write(Epoch(0, self._plan))
            self._pipelines = [Pipeline(self._context, 0)]
            self._router.pipelines = [self._pipelines[0].changes]
        else:
            self._resume()
        joins = sum(len(pipeline.changes.plan.joins) for pipeline in self._pipelines)
        for pipeline in self._pipelines:
            if not pipeline.is_built:
                pipeline.build(joins)

    def _resume(self) -> None:
        """Open the pipelines that have queries still, and end the others; then do what waits to come into force."""
        pipelines, old = reopen(self._context)
        pending = [epoch for p in pipelines for epoch in p.changes.pending(p.publisher.last)]
        spec = with_pending_changes(self._spec, pending)
        for name, query in spec.queries.items():
            refuse_history(name, old.get(name), query)
        self.differences = query_differences(old, spec.queries)
        homes = assign_queries(spec, [(p.changes.sources, p.changes.plan.queries) for p in pipelines])
        kept = [
            pipeline
            for n, pipeline in enumerate(pipelines)
            if n in homes.values() or self._take_overs.goes_on(pipeline, old, spec.queries)
        ]
        for pipeline in kept:
            refuse_redivision(pipeline.changes.plan, self._spec, pipeline.publisher.last)
        self.differences += dict.fromkeys(line for p in kept for line in self._claim.go_on(p.folder))  # each once
        for pipeline in pipelines:
            pipeline.publisher.recover()
            if pipeline in kept:
                pipeline.changes.resume(pipeline.publisher.last)
            else:
                pipeline.changes.close(pipeline.publisher.last)
                self.board.close(pipeline.publisher.last)
                pipeline.retire()
        self._pipelines = kept
        self._router.pipelines = [pipeline.changes for pipeline in kept]
        for pipeline in kept:
            pipeline.changes.hands_over = self._take_overs.hands_over(pipeline.number)
        self._router.follow_job_file(spec)

    def _begin_pipeline(self, spec: JobSpec, reported_elsewhere: Collection[str], request: ChangeRequest) -> Changes:
        """Begin a pipeline for queries over streams that none reads; nothing of it is left where that fails."""
        with self._changing:
            if self._done.is_set() or self._stopping.is_set():
                raise UsageError("the run is over", hint="change the job and start it again")
            checkpoint, plan = self.place.checkpoint, plan_for(spec, self.place.checkpoint)
            check_sources(plan, self._frames)
            check_history(plan, self._frames)
            folder = identity.pipeline_folder(checkpoint, number := max(identity.pipeline_numbers(checkpoint)) + 1)
            try:
                past = any(query.from_beginning for query in plan.queries.values()) and bool(self._pipelines)
                identity.claim_checkpoint(folder, replace(self._claim.identity_of(plan.streams), reads_past=past))
                plan = reporting(plan, reported_elsewhere)
                first = Epoch(0, plan, {}, request.name, request.kind, request.request_id)
                PlanLog(folder, self._spec).write(first)
                pipeline = Pipeline(self._context, number)
                pipeline.build(sum(len(other.changes.plan.joins) for other in (*self._pipelines, pipeline)))
                if request.kind:
                    pipeline.changes.send(first)
                if self._running:
                    self._start(pipeline)
            except BaseException as error:
                remove_folder(folder)
                raise explain_failure(error) from error
            self._pipelines.append(pipeline)
            return pipeline.changes

    # -- while it runs --------------------------------------------------------------------------------------------

    def _report_progress(self) -> None:
        if self._progress:
            self._progress(self.status())

    def _listen(self) -> None:
        """Carry out the requests of other processes while the job runs; `await_termination` notices Java's end."""
        while not self._done.wait(LISTEN_S):
            try:
                self._listen_once()
            except BaseException as error:  # `SystemExit` of a callable, too, would end this thread alone
                if java_failure(AFTER_ERROR_S) is None:
                    self._fail(error)
                return

    def _fail(self, error: BaseException) -> None:
        with self._changing:
            self._error = self._error or explain_failure(error)
            for pipeline in self._active:
                pipeline.stop()

    def _listen_once(self) -> None:
        """Look after each pipeline, end those that have no queries any more, and take up what is asked."""
        for pipeline in list(self._pipelines):
            pipeline.note_progress()
            if pipeline.changes.has_ended:
                pipeline.stop()
        self._router.poll_in_time()
        with self._changing:
            self._take_overs.look(self._router)
        self._prepare_output()
        self._history.look(self.board.status, self._router.spec)

    def _prepare_output(self) -> None:
        """Give each query its folder as soon as it is accepted."""
        for pipeline in list(self._pipelines):
            pipeline.prepare_output()

    def _pipeline_ended(self, pipeline: Pipeline) -> None:
        """A pipeline has stopped, for whatever reason. The last one takes the run along, and one that failed all
        others, unless it was just tried."""
        with self._changing:
            self._active.discard(pipeline)
            if pipeline.error is not None and pipeline.is_on_trial and self._active:
                self._remove(pipeline)
                pipeline.discard()
                pipeline.changes.refuse(pipeline.error)
            elif pipeline.error is not None:
                self._fail(pipeline.error)
            elif pipeline.changes.has_ended:  # for good: its last query has gone
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
            self.board.finish(state, self._error.message if self._error else None)
            self._history.close(self.board.status(), self._router.spec)
            for pipeline in self._pipelines:
                pipeline.remove_local_files()
        except (OSError, MuntinError) as error:  # the disk that failed the run may be full still
            self._error = self._error or explain_failure(error)
        finally:
            self._lock.release()
            if self.place.temporary:
                remove_folder(self.place.checkpoint)
            self._done.set()

    # -- for users ------------------------------------------------------------------------------------------------

    def status(self) -> StatusReport:
        """What `muntin status --json` shows; a notebook shows it as a picture."""
        return StatusReport(self.board.status(), self.place.checkpoint)

    def __repr__(self) -> str:
        return self.status().text

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

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
        over = self._done.wait(GIVE_UP_S)
        self._error = failure
        if not over:
            self._finish()

    def add(self, sql: str) -> Answer:
        """Add or replace a query: `CREATE [OR REPLACE] QUERY name AS ...`; returns when it is in force."""
        expect_text("the statement", sql)
        return self._change(sql)

    def drop(self, name: str) -> Answer:
        """Drop a query; returns when its output has stopped."""
        expect_text("the name of a query", name)
        return self._change(f"DROP QUERY {name}")

    def _change(self, sql: str) -> Answer:
        if self._done.is_set():
            raise UsageError("the run is over", hint="change the job and start it again")
        change = self._router.submit(sql)
        self._prepare_output()
        answer = change.pipeline.wait(change.epoch, lambda: not self._done.is_set())
        if answer.state == "refused":
            raise MuntinError(answer.error or "the change was refused", hint=answer.hint)
        if answer.state != "in force":
            raise MuntinError("the run ended before the change was in force", hint="it takes effect with the next run")
        return answer
