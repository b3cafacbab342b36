"""At most one process runs on a checkpoint, and its Java with it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint.identity import FOLDER

ORPHAN_S = 60.0
"""How long the Java process of a run that was killed may take to end."""


class Lock:
    """The right to run on a checkpoint. It goes with the process, however that ends.

    A Java process outlives its killed Python for a moment, in which it may still write to Spark's logs. So the file
    names that process too, and who takes the lock of a run that was killed waits until its Java has gone.
    """

    def __init__(self, checkpoint: Path, java: int | None = None):
        path = checkpoint / FOLDER / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a+")  # noqa: SIM115 (held as long as the run)
        try:
            self._take(checkpoint, java)
        except MuntinError:
            self._file.close()
            raise

    def _take(self, checkpoint: Path, java: int | None) -> None:
        free = True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            free = False
        self._file.seek(0)
        holder = self._file.read().split()
        if not free:
            raise UsageError(
                f"process {holder[0] if holder else 'unknown'} is running on {checkpoint}",
                hint="stop it first, or name another `checkpoint=`",
            )
        if len(holder) == 3 and holder[1] != str(java):
            _await_end(holder[1], holder[2], checkpoint)
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} {java} {_started(str(java))}")
        self._file.flush()

    def release(self) -> None:
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()


def _await_end(pid: str, started: str, checkpoint: Path) -> None:
    until = time.monotonic() + ORPHAN_S
    while _started(pid) == started:
        if time.monotonic() > until:
            raise MuntinError(
                f"the Java process {pid} of a run that was killed still runs on {checkpoint}",
                hint=f"end it with `kill -9 {pid}`",
            )
        time.sleep(0.05)


def _started(pid: str) -> str:
    """When a process of this machine began, in ticks since the machine did: empty where there is none, or no /proc."""
    try:
        stat = Path("/proc", pid, "stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
