"""Contenders run in processes of their own, one after the other, and report as they go.

A contender prints one line of JSON per thing it has to say, on stdout: `{"batch": n, "seconds": s}` after each
micro-batch, `{"rows": {query: n}}` for what it has delivered so far, anything else as it likes. One that takes longer
than its time is stopped; what it said until then counts. A quick one may go through the micro-batches several times:
a few seconds on a machine that others share say little.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GRACE_S = 10.0
DONE, OUT_OF_TIME = "done", "out of time"


ERROR = re.compile(r"[\w.]+(Error|Exception): ")
STAT_PARENT, STAT_SESSION, STAT_TIMES = 1, 3, slice(11, 15)
"""Where in `/proc/*/stat`, behind the name: the parent; the session; times in user and system mode, its own and of its
children."""
Tell = Callable[[str], None]


def say(**what: Any) -> None:
    """Said by a contender to whoever started it."""
    print(json.dumps(what), flush=True)


@dataclass
class Round:
    """One way through the micro-batches."""

    seconds: dict[int, float] = field(default_factory=dict)
    """Of each micro-batch."""
    cores_s: dict[int, float] = field(default_factory=dict)
    """Seconds of a core that all processes together had used after each micro-batch; empty where not known."""

    def steady(self, warm: int) -> list[float]:
        return [s for n, s in self.seconds.items() if n >= warm]

    def busy_s(self, warm: int) -> float | None:
        """Seconds of a core that a steady micro-batch took, on average, or else the last one."""
        if len(self.cores_s) < 2:
            return None
        last = max(self.cores_s)
        first = warm - 1 if last >= warm and warm - 1 in self.cores_s else last - 1
        return (self.cores_s[last] - self.cores_s[first]) / (last - first)


@dataclass
class Heard:
    """All that a contender has said, and how it ended."""

    rounds: list[Round] = field(default_factory=lambda: [Round()])
    rows: dict[str, int] = field(default_factory=dict)
    """Of each query, over the micro-batches of the last round."""
    facts: dict[str, Any] = field(default_factory=dict)
    phases: list[Mapping[str, float]] = field(default_factory=list)
    ended: str = DONE
    """Or out of time, or what went wrong."""

    @property
    def seconds(self) -> dict[int, float]:
        """Of each micro-batch of the last round."""
        return self.rounds[-1].seconds

    def take(self, said: dict[str, Any], cores_s: float | None = None) -> None:
        if "batch" in said:
            batch = said["batch"]
            if batch in self.seconds:
                self.rounds.append(Round())
            self.seconds[batch] = said["seconds"]
            if cores_s is not None:
                self.rounds[-1].cores_s[batch] = cores_s
            self.phases.append(said.get("phases", {}))
        self.rows = said.get("rows", self.rows)
        self.facts |= {k: v for k, v in said.items() if k not in ("batch", "seconds", "phases", "rows")}

    def steady_s(self, warm: int) -> tuple[float | None, bool]:
        """Seconds of a micro-batch in the steady state, on average, and whether it was reached.

        Before it is, windows are still filling and micro-batches still become slower: the last one is a lower bound,
        unless it is the first, in which Spark starts.
        """
        steady = [s for played in self.rounds for s in played.steady(warm)]
        if steady:
            return statistics.fmean(steady), True
        return (self.seconds[max(self.seconds)] if len(self.seconds) > 1 else None), False

    def busy_s(self, warm: int) -> float | None:
        """Seconds of a core that the same micro-batches took, on average, of all processes together."""
        busy = [took for played in self.rounds if (took := played.busy_s(warm)) is not None]
        return statistics.fmean(busy) if busy else None


def listen(command: Sequence[str], limit_s: float, env: Mapping[str, str] | None = None) -> Heard:
    """Run a contender and hear it out, for `limit_s` seconds at most."""
    heard, began = Heard(), time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env, start_new_session=True
        )
        reader = threading.Thread(target=_read, args=(process, heard), daemon=True)
        reader.start()
        try:
            reader.join(max(0.0, limit_s))
            if reader.is_alive():
                heard.ended = OUT_OF_TIME
                stop(process)
            elif process.wait(GRACE_S):
                heard.ended = _complaint(errors) or f"exit code {process.returncode}"
        except BaseException:
            stop(process)
            raise
    heard.facts["wall_s"] = time.monotonic() - began
    return heard


def _read(process: subprocess.Popen[str], heard: Heard) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            heard.take(json.loads(line), core_seconds(process.pid))


def core_seconds(session: int) -> float | None:
    """Used so far by all processes of a session and of those begun from it, as Java's is, those that ended included;
    None where the system does not say."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            said = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        used = sum(int(ticks) for ticks in said[STAT_TIMES])
        found[int(file.parent.name)] = (int(said[STAT_PARENT]), int(said[STAT_SESSION]), used)
    sessions, more = set[int](), {session}
    while more:
        sessions |= more
        leaders = {pid: parent for pid, (parent, own, _) in found.items() if own == pid and own not in sessions}
        more = {pid for pid, parent in leaders.items() if parent in found and found[parent][1] in sessions}
    ticks = sum(used for _, own, used in found.values() if own in sessions)
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else None


def half_the_memory() -> dict[str, str]:
    """What Spark's own joins get in a bench: with less, the state of twelve does not fit."""
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    return {"spark.driver.memory": f"{megabytes // 2}m"}


def stop(process: subprocess.Popen[str]) -> None:
    """End a contender with all its children, which are in a session of their own; Java ends when it is left alone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _complaint(errors: Any) -> str:
    """The last error that a contender left on stderr, or else the last line."""
    errors.seek(0)
    lines = [line.strip() for line in errors if line.strip()]
    named = [line for line in lines if ERROR.match(line)]
    return (named or lines or [""])[-1][:300]


class Ledger:
    """Results as they come, in a file: a bench that was stopped can go on with what it has."""

    def __init__(self, file: Path | None, resume: bool):
        self._file = file
        self.entries: dict[str, Any] = {}
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            if resume and file.exists():
                self.entries = json.loads(file.read_text())

    def find(self, name: str, of: Mapping[str, Any]) -> dict[str, Any] | None:
        """The result of this name, if there is one of the same."""
        found = self.entries.get(name)
        return found if found is not None and found["of"] == json.loads(json.dumps(of)) else None

    def enter(self, name: str, of: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        self.entries[name] = entry = {"of": dict(of), **result}
        if self._file is not None:
            self._file.write_text(json.dumps(self.entries, indent=1))
        return entry


@dataclass(frozen=True)
class Terms:
    """How a bench is run."""

    share: float
    """Of the whole workload's rows, windows and keys."""
    limit_s: float
    """Of each contender."""
    ledger: Ledger
    tell: Tell
    only: tuple[re.Pattern[str], ...] = ()
    """What is in the names of results that are wanted; others are shown if they are there."""

    def take(self, name: str, of: Mapping[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """The result of this name: the one that is there, unless it failed or had less time; else a new one."""
        found = self.ledger.find(name, of)
        if found is not None and self._holds(found):
            return found
        if not self.wants([name]):
            return found
        return self.ledger.enter(name, of, measure())

    def wants(self, names: Iterable[str]) -> bool:
        """Whether results of some of these names are wanted."""
        return not self.only or any(pattern.search(name) for pattern in self.only for name in names)

    def know(
        self, name: str, of: Mapping[str, Any], measure: Callable[[], dict[str, Any]], needed_by: Iterable[str]
    ) -> dict[str, Any] | None:
        """What results of other names are measured by: measured once, where some of these are wanted."""
        found = self.ledger.find(name, of)
        return self.ledger.enter(name, of, measure()) if found is None and self.wants(needed_by) else found

    def _holds(self, found: Mapping[str, Any]) -> bool:
        ended = found.get("ended", DONE)
        return ended == DONE or (ended == OUT_OF_TIME and found["limit_s"] >= self.limit_s)


def muntin(folder: Path, limit_s: float, *options: str) -> Heard:
    return listen([sys.executable, "-m", "muntin.bench.peer_muntin", str(folder), *options], limit_s)
