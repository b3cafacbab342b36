"""Crash points: before and after every durable action, by name, where a test lets the process die.

    MUNTIN_CRASH_AT="after manifest:3" muntin run ...       SIGKILL right after the third manifest

`ACTIONS` is the registry. It says what a death before the action leaves and who repairs it, and what one after it.
`docs/reliability.md` has the same table, and a test holds both together. Files of JSON are actions named after their
kind. Spark's own actions are reached in Java: `tests/crash/FileManager.java` is their half of this mechanism.
Without a trap a point costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from muntin.model import UsageError

VARIABLE = "MUNTIN_CRASH_AT"
AGAIN = "nothing; it is done again"


@dataclass(frozen=True)
class Action:
    """A durable action: whose it is, and what is left by a death before it and after it, with who repairs that."""

    by: str
    before: str
    after: str


ACTIONS = {
    # Spark's own files: reached in Java
    "metadata": Action("Spark", "a checkpoint of ours without Spark's; Spark begins it", "an empty checkpoint"),
    "source log": Action("Spark", "files that are in no list; Spark lists them again", "a list that no offset names; "
                         "Spark takes it up"),
    "offset": Action("Spark", "nothing of the micro-batch; Spark begins it anew", "a micro-batch without a commit; "
                     "Spark runs it again with the same input"),
    "state": Action("Spark", "the state of before; Spark runs the micro-batch again", "state that no commit names; "
                    "Spark writes it again under another name"),
    "commit": Action("Spark", "a micro-batch that is published and that Spark has not noted; it runs again, and its "
                     "output is discarded", "a whole micro-batch"),
    # one micro-batch, in this order
    "rows delivered": Action("driver", AGAIN, "lines of a micro-batch that is not committed; the next start removes "
                             "the file, and the micro-batch writes it again"),
    "held results": Action("driver", "staged files; the next start sweeps them", "a file that no manifest names; the "
                           "micro-batch writes it again"),
    "hand-over": Action("driver", AGAIN, "messages of a micro-batch without a manifest; Kafka's transaction says so, "
                        "elsewhere they come again with the same ids"),
    "manifest": Action("driver", "staged files; the next start sweeps them", "files without their names; the next "
                       "start renames them"),
    "fence": Action("driver", "the lease alone; it is fenced again", "a place that the driver before cannot commit "
                    "to"),
    "last published": Action("driver", "a manifest without its mark; the next start writes it", "files without their "
                             "names; the next start renames them"),
    "rename": Action("driver", "files without their names; the next start renames them", "a file with its name, "
                     "others perhaps without; the next start renames those"),
    "log of an output": Action("driver", "files that nobody counts; the next start shows them", "a visible "
                               "micro-batch"),
    "table commit": Action("driver", "files that the table has not adopted; the next start lets it", "a table with the "
                           "micro-batch; the next start sees its number"),
    "old manifests removed": Action("driver", "more than are kept; they go with the next ones", "those that are kept"),
    "status": Action("driver", "the report of before; the next one replaces it", "a report"),
    "history": Action("driver", "the samples of before", "samples"),
    # queries that come and go
    "request": Action("client", "nothing; the client was told of nothing", "a request that waits; the next run takes "
                      "it"),
    "plan": Action("driver", "a request that waits", "a plan that no message names; the next start sends it"),
    "columns of a query": Action("driver", "a folder without its schema; the next start writes it", "a folder that "
                                 "readers can open"),
    "layout of slices": Action("driver", "folders of slices that nobody reads; the next start writes it", "slices that "
                               "views and readers find"),
    "view of a query": Action("driver", "a view that lacks the newest slices; the next start writes it", "a view over "
                              "all slices of the query"),
    "control message": Action("driver", "a plan that was not sent, or nothing; the next start sends it", "a message; "
                              "the next micro-batch takes it"),
    "answer": Action("driver", "a change without an answer; the next start writes it", "an answer beside its request; "
                     "the next run removes the request"),
    "request removed": Action("driver", "a request with its answer; the next run removes it", "an answer alone"),
    "old plans removed": Action("driver", "plans that nobody needs; they go later", "those that are kept"),
    "old messages removed": Action("driver", "messages that were taken; they go later", "those that are kept"),
    "take-over": Action("driver", "queries that another pipeline does not take over yet; the next look does it", "the "
                        "same, one step further: who publishes which rows is settled"),
    "version of a table": Action("driver", "the version of before; the table is read again", "a version that its "
                                 "first micro-batch has yet to go by; it does"),
    # a start, and rare commands
    "job": Action("driver", "an empty checkpoint, or the identity of the start before", "the identity of this start"),
    "place of Spark's half": Action("driver", AGAIN, "a checkpoint that knows its other half"),
    "lease": Action("driver", "a lease whose signs of life stop; after its term another driver takes over", "the "
                    "same"),
    "owner of an output": Action("driver", AGAIN, "an output that is bound to its checkpoint"),
    "state removed": Action("driver", "the state of a pipeline that has ended; the next start removes it", "the mark "
                            "and the totals"),
    "constants": Action("calibrate", AGAIN, "measured constants"),
    "compaction": Action("compact", "merged files aside; the next one sweeps them", "the old files aside; the next one "
                         "sweeps them"),
    "rescale": Action("rescale", "new pipelines that are being made; the next start sweeps them", "the intent; the "
                      "next start does the rest"),
    "moved pipeline": Action("rescale", "the intent; the next start does the rest", "the same"),
    "rescale over": Action("rescale", "the intent; the next start does the rest once more", "a job with other shards"),
    "file aside": Action("anybody", "the file of before", "a hidden file; `muntin doctor` removes it"),
}  # fmt: skip
"""The registry. `file aside` is reached while any file of ours is written: after its bytes, before its name."""
POINTS = tuple(f"{when} {action}" for action in ACTIONS for when in ("before", "after"))


class _Trap:
    """Springs when its point is reached for the n-th time, and never again."""

    def __init__(self, point: str, times: int, die: Callable[[str], None]):
        self._point, self._left, self._die = point, times, die
        self._counting = threading.Lock()

    def reach(self, point: str) -> None:
        if point != self._point:
            return
        with self._counting:
            self._left -= 1
            springs = self._left == 0
        if springs:
            self._die(point)


def _kill(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _from_environment() -> _Trap | None:
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    point, _, times = text.partition(":")
    if point not in POINTS or not (times or "1").isdigit():
        raise UsageError(f"{VARIABLE}={text} names no crash point", hint="write 'after manifest:3'; see ACTIONS")
    return _Trap(point, int(times or 1), _kill)


_trap = _from_environment()


def before(action: str) -> None:
    """A durable action is about to be done."""
    if _trap is not None:
        _trap.reach(f"before {action}")


def after(action: str) -> None:
    """A durable action has been done."""
    if _trap is not None:
        _trap.reach(f"after {action}")


@contextmanager
def durable(action: str) -> Iterator[None]:
    """Around a durable action."""
    before(action)
    yield
    after(action)


def arm(point: str | None, die: Callable[[str], None] = _kill, times: int = 1) -> None:
    """Let this process die at a point, in a way of the caller's; None lets it live."""
    global _trap
    assert point is None or point in POINTS, point
    _trap = None if point is None else _Trap(point, times, die)
