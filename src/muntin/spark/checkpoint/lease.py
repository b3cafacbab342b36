"""At most one driver commits to a checkpoint in an object store, on whatever machines drivers run.

    CHECKPOINT/muntin/lease/0000000003.json         the third driver: who it is; put where there was none
    CHECKPOINT/muntin/lease/0000000003-beat.json    its sign of life, put again every few seconds

Nobody compares clocks. Whoever finds a lease watches its sign of life on a clock of its own, which only runs forward:
if it changes, the driver lives; if it stays the same for the whole term, the driver is dead, or so slow that it may be
taken for dead. On the same machine a look at the process tells at once. The next number is the new driver's.

The old one may wake up. Before each write it looks at its own clock: after a term without a sign of life that arrived,
it asks whether there is a next number, and stops if there is. A write that was on its way already meets the fence
(`commit_log.py`), which decides.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint.commit_log import CommitLog, FencedError
from muntin.spark.checkpoint.durable import DamageError, FileKind, put_new_json, read_record, write_record
from muntin.spark.checkpoint.identity import FOLDER, pipeline_folder, pipeline_numbers
from muntin.spark.checkpoint.processes import await_end, started
from muntin.spark.store import ObjectPath, spark_half, store_of

TERM_S = 20.0
"""How long a driver without a sign of life is taken to live."""
BEAT_S = 5.0
"""How often it gives one."""
LOOK_S = 1.0
"""How often somebody who waits looks for one."""


@dataclass(frozen=True)
class Driver:
    """Who holds a lease: a process of a machine, and its Java. `machine` is empty where that cannot be told."""

    token: str
    host: str
    machine: str
    pid: int
    pid_started: str
    java: int | None
    java_started: str

    @classmethod
    def here(cls, java: int | None) -> Driver:
        pid = os.getpid()
        host = socket.gethostname()
        return cls(uuid.uuid4().hex, host, machine(), pid, started(str(pid)), java, started(str(java)))

    @property
    def is_gone(self) -> bool:
        """Whether it can be seen from here that its process has ended."""
        return bool(self.machine) and self.machine == machine() and started(str(self.pid)) != self.pid_started


@dataclass(frozen=True)
class Beat:
    """The last sign of life of a driver."""

    token: str
    beats: int
    released: bool


def machine() -> str:
    """This run of this machine, as far as processes see each other: its boot, and the namespace of process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def has_driver(checkpoint: ObjectPath) -> bool:
    """Whether a driver holds the lease, as far as one look can tell: one that fell silent elsewhere still counts."""
    folder, store = checkpoint / FOLDER / "lease", checkpoint.store
    last = max((int(file.stem) for file in store.files(folder) if file.stem.isdigit()), default=0)
    try:
        if last == 0 or read_record(folder / f"{last:010d}-beat.json", FileKind.LEASE, Beat).released:
            return False
        return not read_record(folder / f"{last:010d}.json", FileKind.LEASE, Driver).is_gone
    except (FileNotFoundError, DamageError):
        return True


class Lease:
    """The right to run on a checkpoint in an object store, for as long as signs of life arrive there."""

    def __init__(self, checkpoint: ObjectPath, java: int | None = None, clock: Callable[[], float] = time.monotonic):
        self._checkpoint = checkpoint
        self._folder = checkpoint / FOLDER / "lease"
        self._store = checkpoint.store
        self._clock = clock
        self._driver = Driver.here(java)
        self._beats = 0
        self._lost: FencedError | None = None
        self._released = threading.Event()
        self._beating = threading.Lock()
        self.number, fenced = self._take()
        self._alive_at = clock()
        self._beat()
        if fenced:
            for pipeline in pipeline_numbers(checkpoint):
                CommitLog(pipeline_folder(checkpoint, pipeline)).fence(self.number)
        for half in (checkpoint, spark_half(checkpoint)):
            store_of(half).guard(half, self.check)
        threading.Thread(target=self._keep, name="muntin-lease", daemon=True).start()

    # -- taking it ------------------------------------------------------------------------------------------------

    def _take(self) -> tuple[int, bool]:
        """The number of our lease, and whether its last holder might wake up."""
        last = max((int(f.stem) for f in self._store.files(self._folder) if f.stem.isdigit()), default=0)
        released = last == 0 or self._is_released(last)
        if not released:
            self._await_death(last)
        if not put_new_json(self._file(last + 1), FileKind.LEASE, vars(self._driver)):
            raise self._held(last + 1)
        if last > 1:
            self._store.remove_files([self._file(last - 1), self._file(last - 1, "-beat")])
        return last + 1, not released

    def _file(self, number: int, which: str = "") -> ObjectPath:
        return self._folder / f"{number:010d}{which}.json"

    def _is_released(self, number: int) -> bool:
        with contextlib.suppress(FileNotFoundError, DamageError):
            return read_record(self._file(number, "-beat"), FileKind.LEASE, Beat).released
        return False

    def _holder(self, number: int) -> Driver | None:
        with contextlib.suppress(FileNotFoundError, DamageError):
            return read_record(self._file(number), FileKind.LEASE, Driver)
        return None

    def _await_death(self, number: int) -> None:
        """Wait until the holder may be taken for dead; raise where it lives."""
        holder = self._holder(number)
        if holder is not None and holder.is_gone:
            if holder.java is not None:
                await_end(str(holder.java), holder.java_started, str(self._checkpoint))
            return
        seen, until = self._store.stamp(self._file(number, "-beat")), self._clock() + TERM_S
        while self._clock() < until:
            time.sleep(LOOK_S)
            if self._is_released(number):
                return
            if self._store.stamp(self._file(number, "-beat")) != seen:
                raise self._held(number)

    def _held(self, number: int) -> UsageError:
        holder = self._holder(number)
        who = "another driver" if holder is None else f"process {holder.pid} on {holder.host}"
        return UsageError(
            f"{who} is running on {self._checkpoint}", hint="stop it first, or name another `checkpoint=`"
        )

    # -- holding it -----------------------------------------------------------------------------------------------

    def check(self, place: ObjectPath | Path) -> None:
        """Refuse a write of a driver that another has taken over from."""
        if self._lost is not None:
            raise self._lost
        if self._clock() - self._alive_at > TERM_S - BEAT_S and self._folder not in (place, place.parent):
            self._beat()

    def _keep(self) -> None:
        while not self._released.wait(BEAT_S):
            with contextlib.suppress(MuntinError, OSError):  # the next write says so, if it lasts
                self._beat()
            if self._lost is not None:
                return

    def _beat(self, released: bool = False) -> None:
        """Give a sign of life, and see whether somebody has taken over."""
        with self._beating:
            began = self._clock()
            if self._lost is None and self._store.exists(self._file(self.number + 1)):
                self._lost = FencedError(self._checkpoint)
            if self._lost is not None:
                raise self._lost
            self._beats += 1
            beat = Beat(self._driver.token, self._beats, released)
            write_record(self._file(self.number, "-beat"), FileKind.LEASE, beat)
            self._alive_at = began

    def release(self) -> None:
        """Let the next driver begin at once."""
        if not self._released.is_set():
            self._released.set()
            with contextlib.suppress(MuntinError, OSError):
                self._beat(released=True)
            for half in (self._checkpoint, spark_half(self._checkpoint)):
                store_of(half).unguard(self.check)
