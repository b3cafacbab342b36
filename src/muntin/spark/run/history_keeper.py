"""Keeps the history of a running job: looks at its status from time to time, beside the micro-batches."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from muntin.model import JobSpec, MuntinError
from muntin.spark.run.history import LEAST_S, Sample, marks_between, read_history, write_history
from muntin.spark.run.sharing import Sharing, apart
from muntin.spark.run.status import JobStatus
from muntin.spark.store import Location

WRITE_S = 15.0
"""How often the file is written."""
SHARING_S, SHARING_PART = 60.0, 200
"""How often to predict what the queries would take apart: at most so often, and for at most this part of the time."""


class HistoryKeeper:
    """The history of one run, which goes on with that of the runs before."""

    def __init__(self, checkpoint: Location, before: JobStatus | None, clock: Callable[[], float] = time.monotonic):
        self._checkpoint = checkpoint
        self._history = read_history(checkpoint)
        self._last = before
        self._clock = clock
        self._looked = self._written = clock()
        self._sharing: Sharing | None = None
        self._predict_at = clock()
        self._epoch: int | None = None
        self._lock = threading.Lock()

    def look(self, status: Callable[[], JobStatus], spec: JobSpec) -> None:
        """Take a sample where it is time for one."""
        now = self._clock()
        if now - self._looked < LEAST_S:
            return
        self._looked = now
        found = status()
        if self._last is not None and found.batches == self._last.batches and found.state == self._last.state:
            return
        with self._lock:
            self._take(found, spec)
            if now - self._written >= WRITE_S:
                self._written = now
                self._write()

    def close(self, status: JobStatus, spec: JobSpec) -> None:
        """Take the last sample, and write what there is."""
        with self._lock:
            self._take(status, spec)
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # a report is no reason to stop a job
            write_history(self._checkpoint, self._history)

    def _take(self, status: JobStatus, spec: JobSpec) -> None:
        now = self._clock()
        if status.batches and (now >= self._predict_at or status.epoch != self._epoch):
            self._epoch = status.epoch
            self._sharing = self._predicted(spec)
            self._predict_at = self._clock() + max(SHARING_S, SHARING_PART * (self._clock() - now))
        self._history.note(list(marks_between(self._last, status)))
        self._history.add(Sample.of(status, self._sharing))
        self._last = status

    def _predicted(self, spec: JobSpec) -> Sharing | None:
        try:
            return apart(spec, self._checkpoint)
        except (MuntinError, OSError):  # the files change while they are read; the next time will do
            return self._sharing
