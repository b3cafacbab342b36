"""The mailbox of a job: how other processes ask it to add and drop queries, as files in its checkpoint.

    CHECKPOINT/muntin/requests/<id>.json    one statement; the job takes them in the order of their names
    CHECKPOINT/muntin/answers/<id>.json     what became of it so far, rewritten as it goes on

An id begins with the time, so that names sort as requests were sent. The answer outlives its request: a request that
has an answer is never taken again, wherever its process died. Whoever reads the last answer removes it; answers that
nobody fetches go after a day.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from muntin.model import MuntinError
from muntin.spark.checkpoint.durable import DamageError, FileKind, MissingError, read_record, write_record
from muntin.spark.checkpoint.identity import FOLDER
from muntin.spark.store import Location, crash_points, store_of

REQUESTS, ANSWERS = "requests", "answers"
KEPT_S = 24 * 3600
"""How long an answer waits for its reader."""
State = Literal["refused", "accepted", "in force"]
Kind = Literal["added", "dropped", "replaced"]


@dataclass(frozen=True)
class Request:
    """One statement that somebody asks a job to carry out; `sent` is a Unix time."""

    id: str
    sql: str
    sent: float


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    `applied_from` is the event time from which the change applies (None: from the beginning), `complete_from` the one
    from which the query's answer is complete (None for drops), both in UTC. `freed_*` are the state that went
    with a dropped query. `warnings` say what the query may not mean.
    """

    state: State
    name: str | None = None
    kind: Kind | None = None
    epoch: int | None = None
    applied_from: datetime | None = None
    complete_from: datetime | None = None
    freed_rows: int | None = None
    freed_bytes: int | None = None
    error: str | None = None
    hint: str | None = None
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def refusal(cls, error: MuntinError, name: str | None = None) -> Answer:
        """The error as its author would see it, place and caret included."""
        text = error.render().removesuffix(f"\n  hint: {error.hint}")
        return cls("refused", name, error=text, hint=error.hint)


# -- the client -------------------------------------------------------------------------------------------------------


def submit(checkpoint: Location, sql: str) -> str:
    """Leave a request, behind all that wait; returns its id."""
    _sweep(checkpoint)
    now = time.time_ns()
    request = Request(f"{max(now, _newest(checkpoint) + 1):020d}-{uuid.uuid4().hex}", sql, now / 1e9)
    write_record(_request_file(checkpoint, request.id), FileKind.REQUEST, request)
    return request.id


def read_answer(checkpoint: Location, id: str) -> Answer | None:
    """The answer so far; None where there is none yet. One that is damaged raises `DamageError`."""
    try:
        return read_record(_answer_file(checkpoint, id), FileKind.ANSWER, Answer)
    except MissingError:
        return None


def forget(checkpoint: Location, id: str) -> None:
    """Remove what the reader of a last answer needs no more."""
    _remove(_request_file(checkpoint, id))
    _remove(_answer_file(checkpoint, id))


def waiting(checkpoint: Location) -> list[Request]:
    """The requests without an answer, in order. It changes nothing."""
    return [r for file in _unanswered(checkpoint)[0] if isinstance(r := _read(file), Request)]


def answers(checkpoint: Location) -> dict[str, Answer]:
    """The answers that nobody has fetched, in the order of their requests; those that are damaged say nothing."""
    found: dict[str, Answer] = {}
    for file in _files(checkpoint, ANSWERS):
        with contextlib.suppress(DamageError):
            read = read_answer(checkpoint, file.stem)
            found |= {} if read is None else {file.stem: read}
    return found


# -- the job ---------------------------------------------------------------------------------------------------------


def pending(checkpoint: Location) -> list[Request]:
    """The requests to be carried out now, in order. Only the job calls this: it refuses those that cannot be read."""
    found = []
    unanswered, left = _unanswered(checkpoint)
    for file in left:
        with contextlib.suppress(OSError):  # it has its answer and is not taken, removed or not
            _remove(file)
    for file in unanswered:
        read = _read(file)
        if isinstance(read, Request):
            found.append(read)
        elif read is not None:
            _refuse(checkpoint, file.stem, read)
    return found


def answer(checkpoint: Location, id: str, outcome: Answer) -> None:
    """Say what has become of a request; the answer is durable when this returns."""
    write_record(_answer_file(checkpoint, id), FileKind.ANSWER, outcome)


def finish(checkpoint: Location, id: str) -> None:
    """Remove a request that has been answered for good or will be carried out."""
    with crash_points.durable("request removed"):
        _remove(_request_file(checkpoint, id))


def _refuse(checkpoint: Location, id: str, damage: MuntinError) -> None:
    """Answer a request that cannot be read; where not even this can be written, it stays for the next time."""
    try:
        answer(checkpoint, id, Answer.refusal(damage))
        finish(checkpoint, id)
    except OSError:
        return


# -- files ------------------------------------------------------------------------------------------------------------


def _request_file(checkpoint: Location, id: str) -> Location:
    return checkpoint / FOLDER / REQUESTS / f"{id}.json"


def _answer_file(checkpoint: Location, id: str) -> Location:
    return checkpoint / FOLDER / ANSWERS / f"{id}.json"


def _files(checkpoint: Location, name: str) -> list[Location]:
    """The whole files of a folder, by name."""
    folder = checkpoint / FOLDER / name
    return [file for file in store_of(folder).files(folder) if file.name.endswith(".json")]


def _unanswered(checkpoint: Location) -> tuple[list[Location], list[Location]]:
    """The requests that nobody has answered, and those that have their answer: their process died before they went."""
    asked = _files(checkpoint, REQUESTS)
    answered = {file.stem for file in _files(checkpoint, ANSWERS)} if asked else set()
    return [f for f in asked if f.stem not in answered], [f for f in asked if f.stem in answered]


def _read(file: Location) -> Request | MuntinError | None:
    """A request, or what is wrong with it; None where it has vanished, or cannot be read just now."""
    try:
        return dataclasses.replace(read_record(file, FileKind.REQUEST, Request), id=file.stem)
    except PermissionError:
        return MuntinError(f"the job may not read {file}", hint="send requests as the user that runs the job")
    except (MissingError, OSError):
        return None
    except DamageError as damage:
        return damage


def _newest(checkpoint: Location) -> int:
    """The time in the name of the last request that waits: the clock may have been set back since."""
    times = (file.name.split("-")[0] for file in _files(checkpoint, REQUESTS))
    return max((int(t) for t in times if len(t) == 20 and t.isdecimal()), default=0)


def _sweep(checkpoint: Location) -> None:
    """Remove answers that nobody fetched; those that still bar a request from being taken again stay."""
    oldest = time.time() - KEPT_S
    for file in _files(checkpoint, ANSWERS):
        try:
            if store_of(file).written_at(file) < oldest and not _exists(_request_file(checkpoint, file.stem)):
                _remove(file)
        except OSError:  # gone already, or another user's
            continue


def _exists(file: Location) -> bool:
    return store_of(file).exists(file)


def _remove(file: Location) -> None:
    store_of(file).remove(file)
