"""Changes to a running pipeline: from a plan to a new epoch, and from the shards' reports to an answer.

A change has four steps, each durable before the next. The driver writes the plan of the next epoch. It answers
`accepted` in the mailbox. It sends a message in the control stream that names the epoch. Once every shard has reported
the epoch, it answers `in force`. After a crash the next start goes on with accepted changes where they stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from muntin.core.arrivals import is_event_time
from muntin.model import Change, JobSpec, MuntinError, Query
from muntin.model.event_time import EPOCH
from muntin.plan import Plan, SharedJoin, covers, evolve, reporting, settled_orders
from muntin.plan.joins import meaning
from muntin.plan.traffic import Knowledge
from muntin.spark.checkpoint import Answer, DamageError, Epoch, Manifest, PlanLog, ShardChange, requests
from muntin.spark.control import control_stream
from muntin.spark.control.advice import advice_about
from muntin.spark.store import Location

KINDS = {"add": "added", "replace": "replaced", "drop": "dropped"}
KEEP = "the next start goes by the job file: put the query into it too"
REMOVE = "the next start goes by the job file: remove the query from it too"

Tell = Callable[[Answer], None]
"""Hears what has become of each change so far."""


@dataclass(frozen=True)
class ChangeRequest:
    """Which query a change is about, what happens to it, and the id of its request; all None for a job file."""

    name: str | None = None
    kind: str | None = None
    request_id: str | None = None

    @classmethod
    def of(cls, change: Change, request_id: str | None) -> ChangeRequest:
        return cls(change.name, KINDS[change.kind], request_id)


class Changes:
    """The changes of one pipeline, whose control stream and plans are in `folder`; answers go to `mailbox`.

    `spec` follows them: the streams of the job, the queries of the pipeline. A lock makes one change at a time.
    `elsewhere` are the streams whose late rows other pipelines report.
    """

    def __init__(
        self,
        folder: Location,
        mailbox: Location,
        spec: JobSpec,
        log: PlanLog,
        knowledge: Callable[[], Knowledge],
        tell: Tell = lambda answer: None,
    ):
        self.folder = folder
        self.mailbox = mailbox
        self.log = log
        self.spec = replace(spec, queries=self.plan.queries)
        self.has_ended = False
        """Whether the last query has gone, and the shards know it."""
        self.hands_over = False
        """Whether another pipeline takes its queries over: it has them too."""
        self.knowledge = knowledge
        self._tell = tell
        self._lock = threading.Lock()
        self.fits: Callable[[Plan], None] = lambda plan: None
        """Raises where the state cannot go over to a plan."""
        self._answers: dict[int, Answer] = {}
        self._answered = threading.Condition()

    @property
    def plan(self) -> Plan:
        """The plan of the last epoch, whether or not it is in force yet."""
        return self.log.read(self.log.latest() or 0).plan

    @property
    def sources(self) -> frozenset[str]:
        """The streams that the pipeline reads: those that it began with."""
        return frozenset(stream.name for stream in self.log.read(0).plan.streams)

    # -- at the start of a run ------------------------------------------------------------------------------------

    def pending(self, last: Manifest) -> list[Epoch]:
        """The changes that were written and are not in force after the last commit."""
        reached = last.epoch if last.batch >= 0 else -1
        epochs = [self.log.read(n) for n in range(reached + 1, (self.log.latest() or 0) + 1)]
        return [epoch for epoch in epochs if epoch.number or epoch.kind]

    def resume(self, last: Manifest) -> None:
        """Go on with changes that a run before has written and not finished, or not answered."""
        for number in sorted(map(int, last.changes)):
            epoch = self.log.read(number)
            if epoch.request is not None and self._lacks_answer(epoch.request):
                self._answers[number] = _accepted(epoch)
        sent = control_stream.sent_epochs(self.folder)
        for epoch in self.pending(last):
            if epoch.number in sent:
                self._answers[epoch.number] = _accepted(epoch)
            else:
                self.send(epoch)
        self.committed(last)

    def _lacks_answer(self, request: str) -> bool:
        """Whether a request has no last answer yet; a damaged one is written anew."""
        try:
            answer = requests.read_answer(self.mailbox, request)
        except DamageError:
            return True
        return answer is not None and answer.state == "accepted"

    def close(self, last: Manifest) -> None:
        """Answer the last changes of a pipeline that has no queries any more: no shard will report them."""
        for epoch in self.pending(last):
            self._answer(epoch, _in_force(_accepted(epoch), []))
            if epoch.request is not None:
                requests.finish(self.mailbox, epoch.request)

    def refuse(self, error: MuntinError) -> None:
        """Answer all accepted changes with the reason why the pipeline could not begin."""
        for number, answer in list(self._answers.items()):
            if answer.state == "accepted":
                self._answer(self.log.read(number), Answer.refusal(error, answer.name))

    def follow_job_file(self, spec: JobSpec, elsewhere: Collection[str]) -> None:
        """Go over to the queries of a job file that are this pipeline's, and to the chains that suit them now."""
        with self._lock:
            spec = settled_orders(self.plan, spec)
            new = [q for name, q in spec.queries.items() if not is_same(self.plan.queries.get(name), q)]
            plan = evolve(self.plan, spec, self.knowledge(), elsewhere)
            if new or not _same(self.plan, plan):
                self._advance(plan, new, ChangeRequest())
            self.spec = spec

    # -- while it runs --------------------------------------------------------------------------------------------

    def change(self, spec: JobSpec, new: list[Query], request: ChangeRequest, elsewhere: Collection[str]) -> int:
        """Go over to other queries; the epoch that brings them."""
        with self._lock:
            spec = settled_orders(self.plan, spec)
            number = self._advance(evolve(self.plan, spec, self.knowledge(), elsewhere), new, request)
            self.spec = spec
            return number

    def migrate(self, plan: Plan) -> None:
        """Cut the states of the same queries at other places."""
        with self._lock:
            if set(plan.queries) == set(self.plan.queries):
                self._advance(plan, [], ChangeRequest())

    def report_late_rows(self, elsewhere: Collection[str]) -> None:
        """Report the late rows of the streams that no other pipeline reports, and no others."""
        with self._lock:
            plan = reporting(self.plan, elsewhere)
            if plan != self.plan:
                self._advance(plan, [], ChangeRequest())

    def epoch_of(self, request: str) -> Epoch | None:
        """The epoch that a run before made of a request, if it died before it could answer."""
        latest = self.log.latest() or 0
        recent = (self.log.read(n) for n in self.log.numbers() if n > latest - 10)
        return next((epoch for epoch in recent if epoch.request == request), None)

    def accepted(self, epoch: Epoch) -> None:
        """Answer that a request is accepted, and remove it."""
        self._answer(epoch, _accepted(epoch))
        if epoch.request is not None:
            requests.finish(self.mailbox, epoch.request)

    def _advance(self, plan: Plan, new: list[Query], request: ChangeRequest) -> int:
        """Write the next epoch and send its message."""
        self.fits(plan)
        before = self.plan.hidden
        hidden = [name for name, query in plan.hidden.items() if not is_same(before.get(name), query)]
        covered = {name: _covered(self.plan, plan, plan.parts[name]) for name in [*(q.name for q in new), *hidden]}
        epoch = Epoch((self.log.latest() or 0) + 1, plan, covered, request.name, request.kind, request.request_id)
        self.log.write(epoch)
        self.has_ended = False
        self.send(epoch)
        return epoch.number

    def send(self, epoch: Epoch) -> None:
        """Send the message of an epoch that was written."""
        self._answer(epoch, _accepted(epoch))
        control_stream.send(self.folder, control_stream.PlanMessage(epoch.number))
        if epoch.request is not None:
            requests.finish(self.mailbox, epoch.request)

    def _answer(self, epoch: Epoch, answer: Answer) -> None:
        if epoch.request is not None:
            requests.answer(self.mailbox, epoch.request, answer)
        with self._answered:
            self._answers[epoch.number] = answer
            self._answered.notify_all()
        if epoch.kind is not None:
            self._tell(answer)

    def committed(self, manifest: Manifest) -> None:
        """Note which epochs all shards have reached with a micro-batch, and answer."""
        if manifest.batch < 0:
            return
        for number, answer in list(self._answers.items()):
            if answer.state == "accepted" and number <= manifest.epoch:
                self._answer(self.log.read(number), _in_force(answer, manifest.changes.get(str(number), [])))
        self.has_ended = not self.plan.queries and (self.log.latest() or 0) <= manifest.epoch

    def forget(self, epoch: int, message: int) -> None:
        """Remove what no replay can need, given the epoch of a commit long ago, and the last message before it: the
        next micro-batch has taken that."""
        self.log.forget(epoch - 1)
        control_stream.forget(self.folder, message)

    def wait(self, number: int, alive: Callable[[], bool]) -> Answer:
        """The answer once an epoch is in force, or cannot be; as it stands if the run ends before."""
        with self._answered:
            while self._answers[number].state == "accepted" and alive():
                self._answered.wait(0.1)
            return self._answers[number]


def _accepted(epoch: Epoch) -> Answer:
    query = epoch.plan.queries.get(epoch.name or "")
    warnings = advice_about(query, epoch.plan) if query is not None else []
    return Answer("accepted", epoch.name, epoch.kind, epoch.number, warnings=warnings)  # type: ignore[arg-type]


def _in_force(answer: Answer, outcomes: list[ShardChange]) -> Answer:
    """The answer with what the change did in all shards; a new pipeline has none: all is from the start
    of its streams."""
    mine = [c for c in outcomes if answer.name in c.complete_from]
    applied = max((c.applied_from for c in mine or outcomes), default=None)
    complete = max((from_us for c in mine if (from_us := c.complete_from[str(answer.name)])), default=None)
    return replace(
        answer,
        state="in force",
        applied_from=_moment(applied),
        complete_from=_moment(complete),
        freed_rows=sum(c.freed_rows for c in outcomes),
        freed_bytes=sum(c.freed_bytes for c in outcomes),
        hint=REMOVE if answer.kind == "dropped" else KEEP,
    )


def _moment(us: int | None) -> datetime | None:
    """An event time; None where it stands for the beginning or the end of all streams."""
    return EPOCH + timedelta(microseconds=us) if us is not None and is_event_time(us) else None


def _same(before: Plan, plan: Plan) -> bool:
    """Whether two plans have the same queries over the same streams, cut in the same places, and report the same."""
    old, new = (
        {
            **{j.index: (_rules(j), j.cuts, j.reports, [meaning(q) for q in j.queries]) for j in p.joins},
            "never": [meaning(q) for q in p.never],
            "strategy": p.strategy,
        }
        for p in (before, plan)
    )
    return old == new


def _rules(join: SharedJoin) -> object:
    """What a join keeps, and what it goes by, of its streams."""
    return join.selects, [(stream.schema, stream.lateness_us, stream.binding_us) for stream in join.streams]


def _covered(before: Plan, plan: Plan, query: Query) -> bool:
    """Whether the joins that a query goes to have kept what it wants."""
    joins = [before.join(j.index) for j in plan.joins if query.name in {q.name for q in j.queries}]
    return all(old is not None and covers(old, query) for old in joins)


def is_same(old: Query | None, new: Query) -> bool:
    """Whether two queries mean the same, however they were typed."""
    return old is not None and (old == new or meaning(old) == meaning(new))
