"""The shared plan of a job as it is in force, and what a change would make of it, from the checkpoint alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from muntin.model import NO_CHAIN, Axis, Change, JobSpec, MuntinError, Query, Side, UsageError
from muntin.plan import Plan, covers, evolve, make_plan
from muntin.plan.choose import predict_in_force
from muntin.plan.explain import PlanDescription, describe_in_force, to_json
from muntin.plan.joins import signature
from muntin.plan.traffic import Knowledge
from muntin.spark.checkpoint import FileKind, PlanLog, pipeline_folder, read_record, stored_job
from muntin.spark.control import knowledge_of, streams_per_pipeline
from muntin.spark.run.client import LATER
from muntin.spark.run.status import JobStatus, status_file
from muntin.spark.run.stored import allowed_change, spec_of
from muntin.spark.store import Location


@dataclass(frozen=True)
class WorkForecast:
    """What a plan is predicted to keep and do; rates are per second of event time."""

    joins: int
    slices: int
    rows: float
    bytes: float
    comparisons_per_second: float
    cpu_ms_per_second: float


@dataclass(frozen=True)
class ChangePreview:
    """What a statement would do to a job, before anybody asks for it."""

    kind: str
    name: str
    before: WorkForecast
    after: WorkForecast
    new_cuts: dict[str, list[int]]
    """For the state of each stream, the ages at which it would be cut and is not now; `gone_cuts` the other way."""
    gone_cuts: dict[str, list[int]]
    complete: str
    """From when on the answer would be complete."""
    plan: PlanDescription
    """The plan as it would be."""


class StoredPicture:
    """The plans of a job at one moment, with all that its checkpoint has measured."""

    def __init__(self, checkpoint: Location):
        status = read_record(status_file(checkpoint), FileKind.STATUS, JobStatus)
        found, stored = spec_of(checkpoint), stored_job(checkpoint)
        if stored is None or not found.streams:
            raise UsageError(f"{checkpoint} has no plan so far", hint="it is there once the job has begun")
        self._checkpoint = checkpoint
        self._status = status
        chain = found.settings.chain if status.chain in (None, NO_CHAIN) else str(status.chain)
        settings = replace(found.settings, strategy=stored.settings.strategy, chain=chain)
        self.spec: JobSpec = replace(found, settings=settings)
        self.plans = self._in_force()
        self.knowledge: Knowledge = knowledge_of(self.spec, checkpoint)
        self.pipelines = streams_per_pipeline(checkpoint)

    def _in_force(self) -> dict[int, Plan]:
        """The plan of each pipeline that the status speaks of."""
        found = {}
        for summary in self._status.pipelines:
            log = PlanLog(pipeline_folder(self._checkpoint, summary.pipeline), self.spec)
            found[summary.pipeline] = log.read(summary.epoch).plan
        return found

    def describe(self) -> list[dict[str, Any]]:
        """The plan of each pipeline as EXPLAIN has it in JSON."""
        found = {number: self._described(plan) for number, plan in self.plans.items() if plan.joins}
        return [{"pipeline": number, **to_json(plan)} for number, plan in found.items()]

    def _described(self, plan: Plan) -> PlanDescription:
        spec = replace(self.spec, queries=plan.queries)
        return describe_in_force(spec, plan, self.knowledge, self.pipelines)

    # -- what would be ------------------------------------------------------------------------------------------

    def check(self, sql: str) -> Change:
        """The change that a statement asks for; refuses what the job would refuse."""
        return allowed_change(self._checkpoint, self.spec, sql)

    def preview(self, sql: str) -> ChangePreview:
        """What a statement would do; refuses what the job would refuse."""
        change = self.check(sql)
        number = self._home(change)
        before = self.plans.get(number)
        after = self._changed(change, before)
        return ChangePreview(
            kind=change.kind,
            name=change.name,
            before=self._forecast(before),
            after=self._forecast(after),
            new_cuts=_cuts_only_in(after, before),
            gone_cuts=_cuts_only_in(before, after),
            complete="" if change.query is None else self._complete(change.query, before),
            plan=self._described(after),
        )

    def only_for(self, name: str) -> WorkForecast:
        """What would go with a query: the state and the work that only it needs."""
        number, plan = next((n, plan) for n, plan in self.plans.items() if name in plan.queries)
        with_it = self._forecast(plan)
        if len(plan.queries) == 1:
            return with_it
        without = self._forecast(self._changed(Change("drop", name), self.plans[number]))
        return WorkForecast(
            joins=with_it.joins - without.joins,
            slices=with_it.slices - without.slices,
            rows=max(0.0, with_it.rows - without.rows),
            bytes=max(0.0, with_it.bytes - without.bytes),
            comparisons_per_second=max(0.0, with_it.comparisons_per_second - without.comparisons_per_second),
            cpu_ms_per_second=max(0.0, with_it.cpu_ms_per_second - without.cpu_ms_per_second),
        )

    def _home(self, change: Change) -> int:
        """The pipeline that a change is for; one more where its streams are not read."""
        for number, plan in self.plans.items():
            if change.name in plan.queries:
                return number
        read = {change.query.left, change.query.right} if change.query else set()
        fitting = (n for n, plan in self.plans.items() if read <= {stream.name for stream in plan.streams})
        return next(fitting, max(self.plans, default=-1) + 1)

    def _changed(self, change: Change, plan: Plan | None) -> Plan:
        queries = dict(plan.queries) if plan is not None else {}
        if change.query is None:
            del queries[change.name]
        else:
            queries[change.name] = change.query
        spec = replace(self.spec, queries=queries)
        return make_plan(spec, self.knowledge) if plan is None else evolve(plan, spec, self.knowledge)

    def _forecast(self, plan: Plan | None) -> WorkForecast:
        if plan is None:
            return WorkForecast(0, 0, 0.0, 0.0, 0.0, 0.0)
        spec = replace(self.spec, queries=plan.queries)
        found = predict_in_force(spec, plan, self.knowledge)
        slices = sum(len(cuts) for join in plan.joins for cuts in join.cuts)
        return WorkForecast(len(plan.joins), slices, found.rows, found.bytes, found.comparisons, found.cpu_ns / 1e6)

    def _complete(self, query: Query, plan: Plan | None) -> str:
        """From when on a new query would have all its rows, as far as that is known before."""
        joins = [join for join in plan.joins if signature(join.queries[0]) == signature(query)] if plan else []
        if query.final and plan:
            return "adds up what comes from then on"
        if any(covers(join, query) for join in joins):
            return "complete at once: the job keeps all that it needs"
        if Axis.ROWS in query.window.axes:
            return f"complete {LATER}"
        reach = timedelta(microseconds=max(query.window.side(side) for side in Side))
        since = self._frontier(query)
        if since is None:
            return f"complete {LATER}, {reach} of event time after the change applies"
        return f"complete from about {(since + reach).isoformat()}, {LATER}"

    def _frontier(self, query: Query) -> datetime | None:
        """How far the streams of a query have come."""
        streams, found = {query.left, query.right}, list[str]()
        for join in self._status.joins:
            shown = zip(join.streams, join.frontiers, strict=True)
            found += [at for name, at in shown if name in streams and at and at != "ended"]
        return max(map(datetime.fromisoformat, found), default=None)


def plans_in_force(checkpoint: Location) -> list[dict[str, Any]]:
    """The plan of each pipeline; none where the job has not begun, or cannot be read."""
    try:
        return StoredPicture(checkpoint).describe()
    except (MuntinError, OSError):
        return []


def _cuts_only_in(plan: Plan | None, other: Plan | None) -> dict[str, list[int]]:
    """The ages at which one plan cuts the state of each stream and another does not."""
    mine, others = _cuts(plan), _cuts(other)
    found = {stream: sorted(cuts - others.get(stream, set())) for stream, cuts in mine.items()}
    return {stream: cuts for stream, cuts in found.items() if cuts}


def _cuts(plan: Plan | None) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for join in plan.joins if plan else ():
        for side in Side:
            found.setdefault(join.streams[side].name, set()).update(join.cuts[side])
    return found
