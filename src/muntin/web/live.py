"""What a checkpoint says of its job, read again only where it has changed. It needs none of the web packages."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muntin.model import MuntinError, UsageError
from muntin.model.records import to_json
from muntin.plan.explain import to_json as plan_json
from muntin.spark.checkpoint import Answer, answers, read_answer, requests, waiting
from muntin.spark.run import (
    JobStatus,
    Mark,
    Sample,
    Sharing,
    StoredPicture,
    client,
    history_file,
    is_alive,
    is_driven,
    marks_between,
    predicted_apart,
    read_history,
    status_file,
    status_now,
)
from muntin.spark.store import Location, store_of

PLAN_S = 60.0
"""How old the predictions beside a plan may become."""
PART = 400
"""Predictions take at most one part in so many of the time."""
OWN_SAMPLES = 600
"""Samples that are newer than the file of the history: it is written from time to time."""
HEAVY = ("text",)
"""Fields of a query that an event leaves out: they come when somebody looks at the query."""


@dataclass(frozen=True)
class StatusView:
    """A status as it was read: the record, its JSON, and a number that grows with each change."""

    number: int
    record: JobStatus
    json: dict[str, Any]


@dataclass(frozen=True)
class PlanView:
    """The plans in force as they were read: their JSON, and until when its predictions will do."""

    version: list[Any]
    until: float
    json: dict[str, Any]
    picture: StoredPicture


class LiveJob:
    """The job of a checkpoint. Any thread may use it."""

    def __init__(self, checkpoint: Location):
        self.checkpoint = checkpoint
        self._lock = threading.RLock()
        self._planning = threading.Lock()
        self._stamp: object = None
        self._looked: tuple[float, object] | None = None
        self._view: StatusView | None = None
        self._own: list[Sample] = []
        self._own_marks: list[Mark] = []
        self._plans: PlanView | None = None
        self._comparing = threading.Lock()
        self._compared: tuple[list[Any], float] | None = None
        self._sharing: Sharing | None = None

    # -- status ---------------------------------------------------------------------------------------------------

    def view(self) -> StatusView:
        """The status of the job, read again where the file has changed or the process is gone."""
        with self._lock:
            stamp = self._current_stamp()
            if self._view is None or stamp != self._stamp or self._has_died():
                self._take(status_now(self.checkpoint))
                self._stamp = stamp
            assert self._view is not None
            return self._view

    def _current_stamp(self) -> object:
        """Which status there is; looked for again after as long as the storage asks for."""
        store, now = store_of(self.checkpoint), time.monotonic()
        if self._looked is None or now - self._looked[0] >= store.patience_s:
            alive = isinstance(self.checkpoint, Path) or is_driven(self.checkpoint, 0)
            self._looked = now, (store.stamp(status_file(self.checkpoint)), alive)
        return self._looked[1]

    def _has_died(self) -> bool:
        """Whether a process of this machine is gone; that of another shows in the stamp."""
        if self._view is None or self._view.record.state != "running" or not isinstance(self.checkpoint, Path):
            return False
        return not is_alive(self._view.record.pid)

    def _take(self, record: JobStatus) -> None:
        before = self._view
        if before is not None:
            self._own_marks = [*self._own_marks, *marks_between(before.record, record)][-OWN_SAMPLES:]
        if before is None or record.batches != before.record.batches:
            self._own = [*self._own, Sample.of(record, self._sharing)][-OWN_SAMPLES:]
        self._view = StatusView(0 if before is None else before.number + 1, record, to_json(record))

    def event(self) -> dict[str, Any]:
        """What changes from one micro-batch to the next: the status without texts, and the last sample."""
        view = self.view()
        queries = {
            name: {key: value for key, value in query.items() if key not in HEAVY}
            for name, query in view.json["queries"].items()
        }
        slim = {key: value for key, value in view.json.items() if key not in ("streams",)} | {"queries": queries}
        return {"status": slim, "sample": self._own[-1]._asdict() if self._own else None, "plan": self.plan_version()}

    # -- plan -----------------------------------------------------------------------------------------------------

    def plan_version(self) -> list[Any]:
        """What changes with the plan: the epoch of each pipeline, and when it started."""
        record = self.view().record
        return [round(record.started, 3), *([p.pipeline, p.epoch] for p in record.pipelines)]

    def plan(self) -> dict[str, Any]:
        """The plan in force of each pipeline, with predictions that are not too old."""
        return self._planned().json

    def _planned(self) -> PlanView:
        version = self.plan_version()
        with self._planning:
            now, known = time.monotonic(), self._plans
            if known is None or known.version != version or now >= known.until:
                picture = StoredPicture(self.checkpoint)
                described = {"version": self.plan_version(), "plans": picture.describe()}
                self._plans = known = PlanView(version, _next(now), described, picture)
            return known

    def sharing(self) -> dict[str, Any]:
        """What the same queries would take with one join each; None where nothing has been measured."""
        picture = self._planned().picture
        with self._comparing:
            now, version = time.monotonic(), self.plan_version()
            if self._compared is None or self._compared[0] != version or now >= self._compared[1]:
                known = picture.knowledge
                self._sharing = predicted_apart(picture.spec, known) if known.measured else None
                self._compared = version, _next(now)
            return {"apart": to_json(self._sharing)}

    def preview(self, sql: str) -> dict[str, Any]:
        """What a statement would do; refuses what the job would refuse."""
        found = self._planned().picture.preview(sql)
        return {**to_json(found), "plan": plan_json(found.plan)}

    def query(self, name: str) -> dict[str, Any]:
        """One query: its status with the text, and what only it needs."""
        view = self.view()
        if name not in view.json["queries"]:
            raise UsageError(f"there is no query {name}", hint="`muntin query list` shows the names")
        try:
            alone = to_json(self._planned().picture.only_for(name))
        except (MuntinError, StopIteration):  # it is not in the plan in force yet, or planned away
            alone = None
        return {"name": name, **view.json["queries"][name], "only_for_it": alone}

    # -- history --------------------------------------------------------------------------------------------------

    def history(self) -> dict[str, Any]:
        """Samples by column, and marks: the file of the job, and what is newer than it."""
        kept = read_history(self.checkpoint)
        with self._lock:
            last = kept.samples[-1].t if kept.samples else 0.0
            samples = [*kept.samples, *(s for s in self._own if s.t > last)]
            marks = [*kept.marks, *(mark for mark in self._own_marks if mark.t > last and mark not in kept.marks)]
        columns = {name: [sample[n] for sample in samples] for n, name in enumerate(Sample._fields)}
        return {"columns": columns, "marks": [mark._asdict() for mark in marks]}

    @property
    def has_history(self) -> bool:
        return store_of(self.checkpoint).exists(history_file(self.checkpoint))

    # -- changes --------------------------------------------------------------------------------------------------

    def send(self, sql: str) -> dict[str, Any]:
        """Ask the job for a change, with the checks of the command line; the request as it is now."""
        self._check(sql)
        sent = client.send(self.checkpoint, sql)
        return {
            "id": sent.id,
            "state": "waiting",
            "running": sent.running,
            "told": "" if sent.running else client.NEXT_RUN,
        }

    def _check(self, sql: str) -> None:
        """Refuse at once, with its place, what the job would refuse; where there is no plan yet, the job decides."""
        if self.view().record.state == "running" and self.view().record.pipelines:
            StoredPicture(self.checkpoint).check(sql)

    def request(self, id: str) -> dict[str, Any]:
        """What has become of a request; its last answer is removed with this."""
        answer = read_answer(self.checkpoint, id)
        if answer is not None and answer.state != "accepted":
            requests.forget(self.checkpoint, id)
        return {"id": id, **answer_fields(answer)}

    def requests(self) -> list[dict[str, Any]]:
        """All requests that are under way, and answers that nobody has fetched."""
        found = [{"id": r.id, "sql": r.sql, "sent": r.sent, **answer_fields(None)} for r in waiting(self.checkpoint)]
        return found + [{"id": id, **answer_fields(answer)} for id, answer in answers(self.checkpoint).items()]


def _next(began: float) -> float:
    """When to predict again what was begun then and is done now."""
    now = time.monotonic()
    return now + max(PLAN_S, PART * (now - began))


def answer_fields(answer: Answer | None) -> dict[str, Any]:
    """An answer for programs, and for people as the command line says it."""
    if answer is None:
        return {"state": "waiting", "told": ""}
    said = client.sentence(answer) if answer.state == "in force" else client.outcome(answer)
    return {**to_json(answer), "told": said}
