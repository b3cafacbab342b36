"""Streaming queries start one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TURN_S = 60.0
"""How long at most one streaming query waits for another to begin."""


class StartQueue:
    """Streaming queries start one after the other: each begins with a Python process, which Spark gives ten seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: Callable[[], bool] = lambda: True

    def start(self, launch: Callable[[], None], begun: Callable[[], bool]) -> None:
        """Launch one as soon as the one before has begun."""
        with self._lock:
            until = time.monotonic() + TURN_S
            while not self._begun() and time.monotonic() < until:
                time.sleep(0.05)
            launch()
            self._begun = begun
