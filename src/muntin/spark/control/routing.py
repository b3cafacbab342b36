"""Which pipeline of a job a query belongs to, and how statements reach it.

A pipeline is one Spark streaming query. The streams that it reads are settled when it begins, since Spark's offsets are
per source. So a query goes to the first pipeline that reads both of its streams; where there is none, a new one begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from muntin.model import Change, JobSpec, MuntinError, Query, UsageError, base_streams, read_queries
from muntin.plan.traffic import NOTHING, Knowledge
from muntin.spark.checkpoint import Answer, Epoch, check_names, requests
from muntin.spark.control.changes import ChangeRequest, Changes, Tell, is_same
from muntin.spark.store import Location, store_of

Begin = Callable[[JobSpec, Collection[str], ChangeRequest], Changes]
"""Starts a pipeline for the queries of a spec, given the streams whose late rows others report, and the request."""


@dataclass(frozen=True)
class AcceptedChange:
    """A change that was accepted: by which pipeline, and the epoch that brings it."""

    pipeline: Changes
    epoch: int


class QueryRouter:
    """The queries of a job over its pipelines. `spec` follows the changes; `lock` makes one at a time."""

    def __init__(
        self,
        checkpoint: Location,
        spec: JobSpec,
        begin: Begin,
        check: Callable[[Query], None],
        lock: threading.RLock,
        tell: Tell = lambda answer: None,
    ):
        self.checkpoint = checkpoint
        self.spec = spec
        self._check = check
        self.pipelines: list[Changes] = []
        """The live ones, in the order in which they began."""
        self._begin = begin
        self._lock = lock
        self._tell = tell
        self._polled = 0.0

    # -- at the start of a run ------------------------------------------------------------------------------------

    def follow_job_file(self, spec: JobSpec) -> None:
        """Go over to the queries of a job file; every pipeline has some of them, since those without have ended."""
        with self._lock:
            homes = assign_queries(spec, [(pipeline.sources, pipeline.plan.queries) for pipeline in self.pipelines])
            for number, pipeline in enumerate(self.pipelines):
                mine = _only(spec, homes, number)
                if pipeline.hands_over:
                    there = pipeline.plan.queries
                    mine = replace(spec, queries={n: q for n, q in spec.queries.items() if n in there})
                pipeline.follow_job_file(mine, self._reported_before(number))
            fresh = _only(spec, homes, None)
            if fresh.queries:
                self.pipelines.append(self._begin(fresh, self._reported_before(len(self.pipelines)), ChangeRequest()))
            self.spec = spec

    # -- while it runs --------------------------------------------------------------------------------------------

    def poll_in_time(self) -> None:
        """Carry them out, unless the storage was asked for them just now."""
        if time.monotonic() - self._polled >= store_of(self.checkpoint).patience_s:
            self.poll()

    def poll(self) -> None:
        """Carry out the requests in the mailbox."""
        self._polled = time.monotonic()
        for request in requests.pending(self.checkpoint):
            try:
                self.submit(request.sql, request.id)
            except MuntinError as error:
                refusal = Answer.refusal(error)
                requests.answer(self.checkpoint, request.id, refusal)
                requests.finish(self.checkpoint, request.id)
                self._tell(refusal)

    def submit(self, sql: str, request_id: str | None = None) -> AcceptedChange:
        """Accept a statement, or raise why not."""
        from muntin.sql import parse_change

        with self._lock:
            before = self._accepted_before(request_id)
            if before is not None:
                pipeline, epoch = before
                pipeline.accepted(epoch)
                return AcceptedChange(pipeline, epoch.number)
            try:
                change = parse_change(sql, self.spec, knowledge=self._knowledge())
            except MuntinError:
                raise
            except Exception as error:  # others must not be able to end a run by what they ask
                raise MuntinError(f"this statement cannot be read: {type(error).__name__}: {error}") from error
            if change.query is not None:
                self._check(change.query)
            spec = apply_change(self.spec, change)
            accepted = self._route(spec, change, ChangeRequest.of(change, request_id))
            self.spec = spec
            self._divide_reports()
            return accepted

    def _knowledge(self) -> Knowledge:
        """What all pipelines have measured."""
        known = [pipeline.knowledge() for pipeline in self.pipelines]
        measured = {name: traffic for each in known for name, traffic in each.measured.items()}
        return replace(known[0], measured=measured) if known else NOTHING

    def share(self, pipeline: Changes, more: Mapping[str, Query], less: Collection[str]) -> None:
        """Let a pipeline have queries of another one too, or no more."""
        with self._lock:
            queries = {n: q for n, q in {**pipeline.plan.queries, **more}.items() if n not in less}
            mine = replace(self.spec, queries=queries)
            elsewhere = self._reported_before(self.pipelines.index(pipeline))
            pipeline.change(mine, list(more.values()), ChangeRequest(), elsewhere)

    def remove(self, pipeline: Changes) -> None:
        """Go on without a pipeline that has ended, or could not begin."""
        with self._lock:
            self.pipelines.remove(pipeline)
            gone = set(pipeline.plan.queries) - {name for other in self.pipelines for name in other.plan.queries}
            self.spec = replace(self.spec, queries={n: q for n, q in self.spec.queries.items() if n not in gone})
            self._divide_reports()

    def _divide_reports(self) -> None:
        """Let the late rows of each stream be reported by one pipeline."""
        for number, pipeline in enumerate(self.pipelines):
            pipeline.report_late_rows(self._reported_before(number))

    def _accepted_before(self, request_id: str | None) -> tuple[Changes, Epoch] | None:
        """The epoch that a run before has made of a request and could not answer any more."""
        if request_id is None:
            return None
        found = ((pipeline, pipeline.epoch_of(request_id)) for pipeline in self.pipelines)
        return next(((pipeline, epoch) for pipeline, epoch in found if epoch is not None), None)

    def _route(self, spec: JobSpec, change: Change, request: ChangeRequest) -> AcceptedChange:
        number = self._home(change)
        self._drop_the_past(change)
        if number is None:
            assert change.query is not None
            fresh = replace(spec, queries={change.name: change.query})
            pipeline = self._begin(fresh, self._reported_before(len(self.pipelines)), request)
            self.pipelines.append(pipeline)
            return AcceptedChange(pipeline, 0)
        pipeline, names = self.pipelines[number], {change.name, *self.pipelines[number].plan.queries}
        mine = replace(spec, queries={n: q for n, q in spec.queries.items() if n in names})
        new = [change.query] if change.query else []
        return AcceptedChange(pipeline, pipeline.change(mine, new, request, self._reported_before(number)))

    def _drop_the_past(self, change: Change) -> None:
        """Drop a query first where it is only until another pipeline has taken it over."""
        for pipeline in [p for p in self.pipelines if p.hands_over and change.name in p.plan.queries]:
            others = sum(change.name in other.plan.queries for other in self.pipelines) > 1
            if others and change.query is not None:
                raise UsageError(
                    f"query {change.name} is still on its way from the past into the shared join",
                    hint="wait until `muntin status` does not say so any more, or DROP QUERY first",
                )
            if others:
                self.share(pipeline, {}, [change.name])

    def _home(self, change: Change) -> int | None:
        """The pipeline that a change is for; None where one has to begin."""
        has = next((n for n, pipeline in enumerate(self.pipelines) if change.name in pipeline.plan.queries), None)
        if change.query is None:
            return has
        reads = [
            n
            for n, pipeline in enumerate(self.pipelines)
            if pipeline.plan.queries and _fits(change.query, self.spec, pipeline.sources, pipeline.plan.queries)
        ]
        read = list(read_queries(change.query, self.spec.queries, self.spec.streams))
        if read and not reads:
            raise UsageError(
                f"query {change.name} reads {' and '.join(read)}, and no running pipeline has all of its streams",
                hint="put it into the job file, and start the job anew with an empty checkpoint",
            )
        if has is not None and has not in reads:
            streams = " and ".join(sorted(_streams(change.query, self.spec)))
            raise UsageError(
                f"query {change.name} cannot go over to {streams} in one step: "
                "they are read beside the streams that it has now",
                hint=f"DROP QUERY {change.name} first, then create it",
            )
        if has is not None:
            refuse_history(change.name, self.pipelines[has].plan.queries[change.name], change.query)
            return has
        return None if change.query.from_beginning else next(iter(reads), None)

    def _reported_before(self, number: int) -> frozenset[str]:
        """The streams whose late rows a pipeline before this one reports."""
        return frozenset(stream.name for pipeline in self.pipelines[:number] for stream in pipeline.plan.streams)


def refuse_history(name: str, old: Query | None, new: Query) -> None:
    """Refuse a query from the beginning in the place of another one: its rows would come after those of the other."""
    if old is not None and new.from_beginning and not is_same(old, new):
        raise UsageError(
            f"query {name} is there already, and its rows of before are in the output",
            hint=f"give the query that is to begin with the streams another name, or DROP QUERY {name} and its output",
        )


def with_pending_changes(spec: JobSpec, pending: list[Epoch]) -> JobSpec:
    """A job file with the changes that are not in force yet: they apply after the file."""
    queries = dict(spec.queries)
    for epoch in pending:
        if epoch.name in epoch.plan.queries:
            queries[epoch.name] = epoch.plan.queries[epoch.name]
        elif epoch.name in queries and len(queries) > 1:
            del queries[epoch.name]
    return replace(spec, queries=queries)


def assign_queries(spec: JobSpec, pipelines: list[tuple[Collection[str], Collection[str]]]) -> dict[str, int | None]:
    """The pipeline of each query, None for a new one. A pipeline is given by the streams that it reads and the queries
    that it has, which stay where they are as long as they can. One that begins with its streams has a pipeline that
    reads them from there."""
    homes: dict[str, int | None] = {}
    for name, query in spec.queries.items():
        read = set(read_queries(query, spec.queries, spec.streams))
        fit = [n for n, (sources, _) in enumerate(pipelines) if _streams(query, spec) <= set(sources)]
        fit = [n for n in fit if all(homes.get(other) == n for other in read)]
        if read and not fit and any(homes.get(other) is not None for other in read):
            raise UsageError(
                f"query {name} reads {' and '.join(read)}, and the running job does not read all of its streams there",
                hint="start the job anew with an empty checkpoint",
            )
        stays = [n for n in fit if name in pipelines[n][1]]
        homes[name] = next(iter(stays or ([] if query.from_beginning else fit)), None)
    return homes


def query_differences(old: Mapping[str, Query | None], new: Mapping[str, Query]) -> list[str]:
    """What a job file has that the queries before had not, and the other way round, one line each.

    None for a query over streams that are no more.
    """
    lines = [f"query {name}: new" for name in new if name not in old]
    lines += [f"query {name}: gone" for name in old if name not in new]
    return lines + [f"query {name}: changed" for name in new if name in old and not is_same(old[name], new[name])]


def _only(spec: JobSpec, homes: Mapping[str, int | None], home: int | None) -> JobSpec:
    return replace(spec, queries={name: q for name, q in spec.queries.items() if homes[name] == home})


def apply_change(spec: JobSpec, change: Change) -> JobSpec:
    """A job with one change of its queries; refuses to drop the last one."""
    queries = dict(spec.queries)
    if change.query is None:
        del queries[change.name]
        if not queries:
            raise UsageError("a job needs a query", hint="stop the job instead of dropping its last query")
    else:
        check_names([change.name])
        queries[change.name] = change.query
    return replace(spec, queries=queries)


def _fits(query: Query, spec: JobSpec, sources: Collection[str], queries: Collection[str]) -> bool:
    """Whether a pipeline has the streams and the queries that a query reads."""
    read = read_queries(query, spec.queries, spec.streams)
    return _streams(query, spec) <= set(sources) and all(name in queries for name in read)


def _streams(query: Query, spec: JobSpec) -> set[str]:
    """The streams that a query's rows come from, also through queries that it reads."""
    return base_streams(query, spec.queries, spec.streams)
