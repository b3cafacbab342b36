"""SIGINT and SIGTERM as a wish to stop, noted while the main thread is busy with a run."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

IMPATIENT_S = 1.0
"""Somebody who presses Ctrl-C again after this long does not want to wait."""


class StopSignals:
    """Notes the signal to stop, instead of being interrupted by it; PySpark's own handler cancels jobs.

    One within another notes for both: nothing is missed between the two.
    """

    def __init__(self) -> None:
        self.caught: str | None = None
        """The name of the signal that came first."""
        self._since = 0.0
        self._outer: StopSignals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self.hold()
        return self

    def hold(self) -> None:
        """Take the signals over, also from somebody who has done so in the meantime."""
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._catch)
            owner = getattr(before, "__self__", None)
            if isinstance(owner, StopSignals) and owner is not self:
                self._outer = owner
            self._before.setdefault(number, before)
        if self._outer is not None and self.caught is None:
            self.caught = self._outer.caught

    def _catch(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.caught is None:
            self.caught, self._since = signal.Signals(number).name, now
            if self._outer is not None:
                self._outer._catch(number, frame)
        elif number == signal.SIGINT and now - self._since > IMPATIENT_S:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
