"""At most one process runs on a checkpoint, and its Java with it: by a lock of the file system, or by a lease."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint.identity import FOLDER
from muntin.spark.checkpoint.lease import Lease, has_driver
from muntin.spark.checkpoint.processes import await_end, started
from muntin.spark.store import Location


class Lock:
    """The right to run on a checkpoint. It goes with the process, however that ends.

    A Java process outlives its killed Python for a moment, in which it may still write to Spark's logs. So the file
    names that process too, and who takes the lock of a run that was killed waits until its Java has gone.
    """

    def __init__(self, checkpoint: Path, java: int | None = None):
        path = checkpoint / FOLDER / "lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+")  # noqa: SIM115 (held as long as the run)
        except OSError as error:
            hint = "run it as a user that may, or name another `checkpoint=`"
            raise UsageError(f"cannot write to the checkpoint {checkpoint}: {error.strerror}", hint=hint) from error
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
            await_end(holder[1], holder[2], str(checkpoint))
        self._file.truncate(0)
        self._file.write(f"{os.getpid()} {java} {started(str(java))}")
        self._file.flush()

    def release(self) -> None:
        if not self._file.closed:
            self._file.truncate(0)
            self._file.close()


def is_taken(checkpoint: Location) -> bool:
    """Whether a process runs on a checkpoint, as far as one look can tell. It changes nothing."""
    if not isinstance(checkpoint, Path):
        return has_driver(checkpoint)
    try:
        with open(checkpoint / FOLDER / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def take_checkpoint(checkpoint: Location, java: int | None = None) -> Lock | Lease:
    """The right to run on a checkpoint, until it is released or the process ends."""
    return Lock(checkpoint, java) if isinstance(checkpoint, Path) else Lease(checkpoint, java)
