"""Changes to a running job: from a statement to a new epoch, and from the shards' reports to an answer.

A statement is taken in four steps, each durable before the next: the plan of the next epoch is written, the mailbox's
answer says `accepted`, a message in the control stream names the epoch, and once every shard has reported it, the
answer says `in force`. After a crash the next start takes up accepted changes where they stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from muntin.model import Change, JobSpec, MuntinError, Query, UsageError
from muntin.plan import Plan, covers, evolve
from muntin.plan.traffic import Knowledge
from muntin.spark import control, requests
from muntin.spark.identity import canonical, check_names
from muntin.spark.plans import Epoch, PlanLog
from muntin.spark.publish import Manifest
from muntin.spark.requests import Answer
from muntin.spark.status import event_time

KINDS = {"add": "added", "replace": "replaced", "drop": "dropped"}


class Changes:
    """The changes of one run. `spec` follows them; a lock makes one change at a time."""

    def __init__(
        self, checkpoint: Path, spec: JobSpec, log: PlanLog, sources: set[str], knowledge: Callable[[], Knowledge]
    ):
        self.checkpoint, self.spec, self.log, self._sources = checkpoint, spec, log, sources
        self._knowledge = knowledge
        self._lock = threading.Lock()
        self._answers: dict[int, Answer] = {}
        self._news = threading.Condition()

    @property
    def plan(self) -> Plan:
        """The plan of the last epoch, whether or not it is in force yet."""
        return self.log.read(self.log.latest() or 0).plan

    # -- at the start of a run ------------------------------------------------------------------------------------

    def take_up(self, last: Manifest) -> None:
        """Go on with what a run before has written and not finished."""
        sent = {m["epoch"] for m in control.messages(self.checkpoint) if m["type"] == "plan"}
        for number in range(1, (self.log.latest() or 0) + 1):
            epoch = self.log.read(number)
            if number not in sent:
                self._accept(epoch)
            elif number > last.epoch:
                self._answers[number] = _accepted(epoch)

    def compare(self, spec: JobSpec) -> list[str]:
        """Go over to the queries and chains of a job file; what is different in it, one line each."""
        with self._lock:
            told = differences(self.plan, spec)
            if not told and self.plan.strategy == "push-down":
                return []
            for query in spec.queries.values():
                self._check_sources(query)
            new = [q for name, q in spec.queries.items() if not _is(self.plan.queries.get(name), q)]
            plan = evolve(self.plan, spec, self._knowledge())
            if told or not _same(self.plan, plan):
                self._advance(plan, new, None, None, None)
            self.spec = spec
            return told

    # -- while it runs --------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take up what clients have asked for."""
        for request in requests.pending(self.checkpoint):
            try:
                self.submit(request.sql, request.id)
            except MuntinError as error:
                requests.answer(self.checkpoint, request.id, Answer.refusal(error))
                requests.finish(self.checkpoint, request.id)

    def submit(self, sql: str, request: str | None = None) -> int:
        """Accept a statement, or raise why not; the epoch that brings it."""
        from muntin.sql import parse_change

        with self._lock:
            known = self._epoch_of(request) if request is not None else None
            if (
                known is not None and known.request is not None
            ):  # the run before wrote the plan and died before it could say so
                self._tell(known, _accepted(known))
                requests.finish(self.checkpoint, known.request)
                return known.number
            change = parse_change(sql, self.spec)
            spec = self._changed(change)
            plan = evolve(self.plan, spec, self._knowledge())
            new = [change.query] if change.query else []
            number = self._advance(plan, new, change.name, KINDS[change.kind], request)
            self.spec = spec
            return number

    def migrate(self, plan: Plan) -> None:
        """Cut the states of the same queries elsewhere."""
        with self._lock:
            if set(plan.queries) == set(self.plan.queries):
                self._advance(plan, [], None, None, None)

    def _epoch_of(self, request: str) -> Epoch | None:
        latest = self.log.latest() or 0
        recent = (self.log.read(n) for n in range(latest, max(0, latest - 10), -1))
        return next((epoch for epoch in recent if epoch.request == request), None)

    def _changed(self, change: Change) -> JobSpec:
        queries = dict(self.spec.queries)
        if change.query is None:
            del queries[change.name]
            if not queries:
                raise UsageError("a job needs a query", hint="stop the job instead of dropping its last query")
        else:
            check_names([change.name])
            queries[change.name] = change.query
            self._check_sources(change.query)
        return replace(self.spec, queries=queries)

    def _check_sources(self, query: Query) -> None:
        missing = {query.left, query.right} - self._sources
        if missing:
            raise UsageError(
                f"query {query.name}: the job does not read {' and '.join(sorted(missing))}",
                hint="start another job for it: which streams a job reads is settled when it begins",
            )

    def _advance(self, plan: Plan, new: list[Query], name: str | None, kind: str | None, request: str | None) -> int:
        """Write the next epoch and send it on its way."""
        covered = {query.name: _covered(self.plan, plan, query) for query in new}
        epoch = Epoch((self.log.latest() or 0) + 1, plan, covered, name, kind, request)
        self.log.write(epoch)
        self._accept(epoch)
        return epoch.number

    def _accept(self, epoch: Epoch) -> None:
        """Send an epoch that was written on its way."""
        self._tell(epoch, _accepted(epoch))
        control.send_plan(self.checkpoint, epoch.number)
        if epoch.request is not None:
            requests.finish(self.checkpoint, epoch.request)

    def _tell(self, epoch: Epoch, answer: Answer) -> None:
        if epoch.request is not None:
            requests.answer(self.checkpoint, epoch.request, answer)
        with self._news:
            self._answers[epoch.number] = answer
            self._news.notify_all()

    def committed(self, manifest: Manifest) -> None:
        """Note which epochs all shards have reached with a micro-batch, and answer."""
        for number, answer in list(self._answers.items()):
            if answer.state == "accepted" and number <= manifest.epoch:
                self._tell(self.log.read(number), _in_force(answer, manifest.changes.get(str(number), [])))

    def wait(self, number: int, alive: Callable[[], bool]) -> Answer:
        """The answer once an epoch is in force; as it stands if the run ends before."""
        with self._news:
            while self._answers[number].state != "in force" and alive():
                self._news.wait(0.1)
            return self._answers[number]


def _accepted(epoch: Epoch) -> Answer:
    return Answer("accepted", name=epoch.name, kind=epoch.kind, epoch=epoch.number)  # type: ignore[arg-type]


def _in_force(answer: Answer, made: list[dict[str, Any]]) -> Answer:
    """The answer with what the change did in all shards."""
    mine = [c for c in made if answer.name in c["complete_from"]]
    applied = max((c["applied_from"] for c in mine or made), default=None)
    complete = max((c["complete_from"][answer.name] for c in mine if c["complete_from"][answer.name]), default=None)
    return replace(
        answer,
        state="in force",
        applied_from=event_time(applied),
        complete_from=event_time(complete),
        freed_rows=sum(c["freed_rows"] for c in made),
        freed_bytes=sum(c["freed_bytes"] for c in made),
    )


def _same(before: Plan, plan: Plan) -> bool:
    """Whether two plans have the same queries, cut in the same places."""
    old, new = ({j.index: (j.cuts, [canonical(q) for q in j.queries]) for j in p.joins} for p in (before, plan))
    return old == new


def _covered(before: Plan, plan: Plan, query: Query) -> bool:
    """Whether the join that a query goes to has kept what it wants."""
    join = next((j for j in plan.joins if query.name in {q.name for q in j.queries}), None)
    old = before.join(join.index) if join else None
    return old is not None and covers(old, query)


def differences(before: Plan, spec: JobSpec) -> list[str]:
    """What a job file has that the plan has not, and the other way round, one line each."""
    old, new = before.queries, spec.queries
    lines = [f"query {name}: new" for name in new if name not in old]
    lines += [f"query {name}: gone" for name in old if name not in new]
    return lines + [f"query {name}: changed" for name in new if name in old and not _is(old[name], new[name])]


def _is(old: Query | None, new: Query) -> bool:
    """Whether two queries mean the same, however they were typed."""
    return old is not None and canonical(old) == canonical(new)
