"""Writes the status of a running job beside its micro-batches, which need not wait for a report to be on the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable


class StatusWriter:
    """Writes soon after each change. What changes while it writes goes into the next write, all of it together.

    A write that fails is told to whoever asks for the next one.
    """

    def __init__(self, write: Callable[[], None]):
        self._write = write
        self._deciding = threading.Lock()
        self._wanted = False
        self._thread: threading.Thread | None = None
        """It is there while there is something to write."""
        self._error: Exception | None = None

    def soon(self) -> None:
        with self._deciding:
            if self._error is not None:
                raise self._error
            self._wanted = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="muntin-status", daemon=True)
                self._thread.start()

    def settle(self) -> None:
        """Wait until all that was asked for is written, or has failed."""
        with self._deciding:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while self._is_wanted():
            try:
                self._write()
            except Exception as error:
                with self._deciding:
                    self._error, self._thread = error, None
                return

    def _is_wanted(self) -> bool:
        with self._deciding:
            wanted, self._wanted = self._wanted, False
            if not wanted:
                self._thread = None
            return wanted
