"""How another process asks a job to change its queries, and what it says of the answers: `muntin query` and the page
speak with one voice."""

from __future__ import annotations

import re
from dataclasses import dataclass

from muntin.model import UsageError
from muntin.spark.checkpoint import Answer, identity, requests
from muntin.spark.run.status import JobStatus, status_file, status_now
from muntin.spark.run.stored import check_change
from muntin.spark.store import Location, store_of

CREATE = re.compile(r"(?>\s+|--[^\n]*|/\*.*?\*/)*+CREATE\s+(OR\s+REPLACE\s+)?QUERY\b", re.IGNORECASE | re.DOTALL)
"""How a text begins that may be a new query; comments may come first."""
LATER = "once its window has filled"
"""From when a count window is complete: no event time is known for that in advance."""
NEXT_RUN = "the job is not running: the request waits in its log and takes effect when the job runs next"


@dataclass(frozen=True)
class SentChange:
    """A request in the mailbox of a job, and whether the job runs to take it up."""

    id: str
    running: bool
    warnings: list[str]
    """What it may not mean, where the job does not run; else the answer says so."""


def new_query(sql: str) -> str:
    """The statement of `add`; what clearly is another one is refused here, the rest is for the job to judge."""
    if CREATE.match(sql) is None:
        raise UsageError("this is not CREATE QUERY", hint="write CREATE [OR REPLACE] QUERY name AS SELECT ...")
    if any("\ud800" <= c <= "\udfff" for c in sql):
        raise UsageError("the query is not UTF-8 text")
    return sql


def dropping(name: str) -> str:
    """The statement of `drop`."""
    from muntin.sql import is_name

    if not is_name(name):
        raise UsageError(f"{name!r} cannot name a query", hint="`muntin query list` shows the names")
    return f"DROP QUERY {name};"


def send(checkpoint: Location, sql: str, now: bool = False) -> SentChange:
    """Leave a statement for the job. One for a job that does not run is checked here, as the next run would."""
    running = job_status(checkpoint).state == "running"
    if now and not running:
        raise UsageError(f"the job of {checkpoint} is not running", hint="leave out --now to let the change wait")
    begun = _exists(status_file(checkpoint))
    warnings = check_change(checkpoint, sql) if begun and not running else []
    return SentChange(requests.submit(checkpoint, sql), running, warnings)


def job_status(checkpoint: Location) -> JobStatus:
    """The status of a job; one that has not begun to count has no queries yet."""
    if _exists(status_file(checkpoint)):
        return status_now(checkpoint)
    if not _exists(checkpoint / identity.FOLDER / "job.json"):
        raise UsageError(f"{checkpoint} is not the checkpoint of a job", hint="name the --checkpoint of a run")
    return JobStatus(mode="", state="not begun", pid=0, started=0.0)


def _exists(file: Location) -> bool:
    return store_of(file).exists(file)


# -- in words ---------------------------------------------------------------------------------------------------------


def sentence(answer: Answer) -> str:
    """A change that is in force, in one line."""
    parts = [_dropped(answer)] if answer.kind == "dropped" else [_applies(answer), _complete(answer)]
    return f"{answer.kind} {answer.name}: {', '.join(parts)}"


def outcome(answer: Answer) -> str:
    """A request whose sender did not wait for its end."""
    if answer.state == "accepted":
        return f"accepted, not yet in force: {answer.name} ({answer.kind})"
    return f"refused: {answer.error}" + (f"\n  hint: {answer.hint}" if answer.hint else "")


def _applies(answer: Answer) -> str:
    since = answer.applied_from
    return "applies from the beginning" if since is None else f"applies to results from {since.isoformat()} on"


def _complete(answer: Answer) -> str:
    if answer.complete_from == answer.applied_from:
        return "complete at once"
    return f"complete from {answer.complete_from.isoformat()}" if answer.complete_from else f"complete {LATER}"


def _dropped(answer: Answer) -> str:
    until = "no results" if answer.applied_from is None else f"no results from {answer.applied_from.isoformat()} on"
    rows, size = answer.freed_rows, answer.freed_bytes
    freed = [f"{n:,} {unit}" for n, unit in ((rows, "rows"), (size, "bytes")) if n is not None]
    return f"{until}, freed {' and '.join(freed)} of state" if freed else until
