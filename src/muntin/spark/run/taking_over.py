"""Queries that ask for the past, on their way from the pipeline that reads it into the one whose join they then share.

    1   `take_over.json` names the queries; the other pipeline gets them, and publishes none of their rows
    2   it says from when on it has all of them
    3   the pipeline of the past has come as far as the other one: the instant after that is noted in the file
    4   rows before the instant come from the one, rows from it on from the other
    5   the pipeline of the past has passed the instant, and ends

Each step follows from what is durable, so whoever starts the job again goes on with it. The instant is settled between
two micro-batches of both pipelines: neither has published a row on the other's side of it. So no row comes twice, none
is missing, and rows of the past come before those that follow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from muntin.core.arrivals import FOREVER, is_event_time
from muntin.model import Axis, JobSpec, MuntinError, Query, Settings, base_streams, read_queries
from muntin.model.event_time import time_text
from muntin.plan import Plan
from muntin.spark.checkpoint import (
    Manifest,
    TakeOver,
    identity,
    read_manifests,
    read_take_over,
    write_take_over,
)
from muntin.spark.control import QueryRouter, is_same
from muntin.spark.sink import ALL_ROWS, NO_ROWS, OutputSpan, Spans
from muntin.spark.store import Location

if TYPE_CHECKING:
    from muntin.spark.run.pipeline import Pipeline

WAIT_S = 10.0
"""So long one pipeline waits for the other at most, where they do not meet by themselves."""


class TakeOvers:
    """Those of one job. Threads of pipelines ask for spans and report commits; `look` is called by one that may change
    queries."""

    def __init__(self, checkpoint: Location, settings: Settings, counts_in_shards: bool):
        self._checkpoint = checkpoint
        numbers = identity.pipeline_numbers(checkpoint)
        found = {n: read_take_over(identity.pipeline_folder(checkpoint, n)) for n in numbers}
        self._records: Mapping[int, TakeOver] = {n: record for n, record in found.items() if record is not None}
        self._why_not = _unfit_job(settings, counts_in_shards)
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self._gate.set()
        self._is_unsure = False
        self._looked_back: set[int] = set()
        self.pipelines: Callable[[], list[Pipeline]] = list

    # -- what is so ---------------------------------------------------------------------------------------------------

    def record(self, number: int) -> TakeOver | None:
        """What is known of the queries of a pipeline that reads the past."""
        return self._records.get(number)

    def hands_over(self, number: int) -> bool:
        """Whether another pipeline takes over the queries of this one."""
        record = self._records.get(number)
        return record is not None and record.stays is None

    def in_words(self) -> dict[str, str]:
        """How far each query has come, for people."""
        live, said = {pipeline.number for pipeline in self.pipelines()}, dict[str, str]()
        for number, record in sorted(self._records.items()):
            text = f"by itself: {record.stays}"
            if record.stays is None and record.at is None:
                text = "its past is being read, beside the shared join" if number in live else ""
            elif record.stays is None:
                text = f"shared from {time_text(record.at or 0)} on" + ", its past almost read" * (number in live)
            if text:
                said |= dict.fromkeys(record.queries, text)
        return said

    def goes_on(self, pipeline: Pipeline, old: Mapping[str, Query | None], new: Mapping[str, Query]) -> bool:
        """Whether a pipeline that starts again still has rows to publish of queries that another one has, too."""
        if not self.hands_over(pipeline.number) or self.is_over(pipeline):
            return False
        return all(name in new and is_same(old.get(name), new[name]) for name in pipeline.changes.plan.queries)

    def is_over(self, pipeline: Pipeline) -> bool:
        """Whether a pipeline has published all that it ever will."""
        record, last = self._records.get(pipeline.number), pipeline.publisher.last
        if record is None or record.at is None:
            return False
        return bool(last.reports) and min(report.release for report in last.reports.values()) >= record.at

    def spans(self, number: int, plan: Plan) -> Spans:
        """Which rows of its queries a pipeline publishes."""
        with self._lock:
            if self._is_unsure:
                raise MuntinError(
                    "it could not be noted which pipeline publishes which rows", hint="start the job again"
                )
        asked = {q.name: OutputSpan(q.since_us) for q in plan.queries.values() if q.since_us is not None}
        there = {pipeline.number for pipeline in self.pipelines()}
        for past, record in self._records.items():
            for name in record.queries:
                span = ALL_ROWS
                if past == number and record.at is not None:
                    span = OutputSpan(until=record.at)
                elif past != number and record.at is not None:
                    span = OutputSpan(record.at)
                elif past != number and past in there:
                    span = NO_ROWS
                asked[name] = asked.get(name, ALL_ROWS) & span
        return asked

    # -- in the threads of the pipelines ------------------------------------------------------------------------------

    def enter(self, pipeline: Pipeline) -> None:
        """Before a micro-batch: a pipeline waits for a while for the one that is about to reach it."""
        if any(record.to == pipeline.number for record in self._records.values()):
            self._gate.wait(WAIT_S)
            self._gate.set()

    def committed(self, pipeline: Pipeline, manifest: Manifest) -> None:
        """After a commit, between two micro-batches of its pipeline."""
        for number, record in list(self._records.items()):
            if record.stays is None and record.at is None and pipeline.number == record.to:
                self._note_complete(number, pipeline, manifest)
            elif record.stays is None and record.at is None and pipeline.number == number:
                self._meet(pipeline, record)

    def _note_complete(self, number: int, other: Pipeline, manifest: Manifest) -> None:
        """Note from when on the other pipeline has all rows, where this commit brought it the queries."""
        with self._lock:
            record = self._records[number]
            if record.complete_from is not None or not manifest.changes:
                return
            first = _first_epoch(other, record.queries)
            found = [c.complete_from for changes in manifest.changes.values() for c in changes if c.epoch >= first]
            times = [of[name] for of in found for name in record.queries if name in of]
            if {name for of in found for name in of} >= set(record.queries):
                known = [ts for ts in times if ts is not None]
                if len(known) == len(times):
                    self._write(number, replace(record, complete_from=max(known)))
                else:
                    self._write(number, replace(record, stays="nobody knows when the shared join has all its rows"))

    def _meet(self, past: Pipeline, record: TakeOver) -> None:
        """Settle the instant where the pipeline of the past, which has just committed, has come as far as the other."""
        other = next((p for p in self.pipelines() if p.number == record.to), None)
        if other is None or record.complete_from is None or not self._is_near(past, other, record):
            return
        if other.between_batches.acquire(timeout=WAIT_S):
            try:
                instant = _reached(past.publisher.last, past.changes.plan, record.queries) + 1
                if self._is_near(past, other, record) and is_event_time(instant):
                    with self._lock:
                        self._write(past.number, replace(record, at=instant))
                    self._gate.set()
                else:  # the other one has gone on meanwhile: it waits before its next micro-batch
                    self._gate.clear()
            finally:
                other.between_batches.release()

    def _is_near(self, past: Pipeline, other: Pipeline, record: TakeOver) -> bool:
        reached = _reached(past.publisher.last, past.changes.plan, record.queries)
        ahead = _reached(other.publisher.last, other.changes.plan, record.queries)
        return reached >= ahead and reached + 1 >= (record.complete_from or 0)

    # -- where queries may change -------------------------------------------------------------------------------------

    def look(self, router: QueryRouter) -> None:
        """Let the shared pipelines have what they are to take over, and end what is over."""
        for pipeline in self.pipelines():
            record = self._records.get(pipeline.number)
            if record is None and pipeline.reads_past and pipeline.publisher.last.batch >= 0:
                record = self._begin(pipeline, router)
            pipeline.changes.hands_over = self.hands_over(pipeline.number)
            if record is None:
                continue
            other = next((p for p in self.pipelines() if p.number == record.to), None)
            if other is not None:
                self._bring(pipeline, other, record, router)
            if self.is_over(pipeline):
                pipeline.changes.has_ended = True

    def _begin(self, past: Pipeline, router: QueryRouter) -> TakeOver | None:
        queries, spec = past.changes.plan.queries, router.spec
        if not queries:
            return None
        why = self._why_not or next((why for q in queries.values() if (why := _unfit(q, spec)) is not None), None)
        home = next((p for p in self.pipelines() if not p.reads_past and _fits(p, queries.values(), spec)), None)
        if home is None:
            why = why or "no other pipeline reads its streams"
        record = TakeOver(list(queries), -1 if home is None else home.number, stays=why)
        with self._lock:
            self._write(past.number, record)
        return record

    def _bring(self, past: Pipeline, other: Pipeline, record: TakeOver, router: QueryRouter) -> None:
        """Give the other pipeline the queries, or take them from it again where they stay."""
        there = [name for name in record.queries if name in other.changes.plan.queries]
        missing = {n: q for n, q in past.changes.plan.queries.items() if n in record.queries and n not in there}
        if record.stays is not None and there:
            router.share(other.changes, {}, there)
        elif record.stays is None and missing and record.at is None:
            try:
                router.share(other.changes, missing, ())
            except MuntinError as error:
                with self._lock:
                    self._write(past.number, replace(record, stays=error.message))
        elif record.stays is None and record.complete_from is None and past.number not in self._looked_back:
            self._looked_back.add(past.number)
            for manifest in read_manifests(other.folder):  # of a run that died before it could note this
                self._note_complete(past.number, other, manifest)

    def _write(self, number: int, record: TakeOver) -> None:
        """Note a step. Where that fails, nobody knows whether it was noted: then nobody publishes rows any more."""
        self._is_unsure = True
        write_take_over(identity.pipeline_folder(self._checkpoint, number), record)
        self._records = {**self._records, number: record}
        self._is_unsure = False


def _reached(manifest: Manifest, plan: Plan, names: Iterable[str]) -> int:
    """Up to where the rows of some queries have left."""
    wanted = set(names)
    joins = {join.index for join in plan.joins if wanted & {query.name for query in join.queries}}
    return max((r.release for r in manifest.reports.values() if r.join in joins), default=-FOREVER)


def _first_epoch(pipeline: Pipeline, names: Iterable[str]) -> int:
    """The epoch that brought queries which are there."""
    log, wanted = pipeline.changes.log, set(names)
    have = takewhile(lambda n: wanted <= set(log.read(n).plan.queries), reversed(log.numbers()))
    return min(have, default=0)


def _fits(pipeline: Pipeline, queries: Iterable[Query], spec: JobSpec) -> bool:
    streams = {name for query in queries for name in base_streams(query, spec.queries, spec.streams)}
    return bool(pipeline.changes.plan.queries) and streams <= pipeline.changes.sources


def _unfit(query: Query, spec: JobSpec) -> str | None:
    """Why nobody can say when another join has all rows of a query."""
    if any(read_queries(query, spec.queries, spec.streams)):
        return "it reads another query"
    if Axis.ROWS in query.window.axes:
        return "its window counts rows"
    return "its totals are of all time" if query.final else None


def _unfit_job(settings: Settings, counts_in_shards: bool) -> str | None:
    """Why rows cannot be divided between two pipelines by one instant."""
    if settings.eager:
        return "delivery is eager"
    if settings.releases_at_held_limit:
        return "results may leave before their time"
    return "rows are only counted" if counts_in_shards else None
