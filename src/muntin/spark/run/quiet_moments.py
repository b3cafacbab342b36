"""What a running job does between micro-batches: it merges small files of its outputs (`SET min_file_size`), when
nothing comes, or where that never happens, when it is time (`SET roll_after`)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from muntin.model import MuntinError, Query, Settings
from muntin.spark.checkpoint import KEPT_MANIFESTS, Publisher
from muntin.spark.sink import Sink

QUIET_S = 5.0
"""So long after a micro-batch nothing must have come."""


class QuietMoments:
    """Looked at between micro-batches. It merges the files of one query at a time, so that a micro-batch that comes
    meanwhile waits for one query at most; and once for each twenty micro-batches, since the last ones stay as they
    are."""

    def __init__(self, sink: Sink, publisher: Publisher, settings: Settings):
        self._sink, self._publisher = sink, publisher
        self._least, self._roll_after_us = settings.min_file_size_bytes, settings.roll_after_us
        self._seen, self._since = publisher.last.batch, time.monotonic()
        self._done, self._done_at = -1, time.monotonic()
        self._waiting: list[Query] = []
        self._rolls = False
        """Whether it is time: then it goes on though micro-batches come."""

    def look(self, queries: Mapping[str, Query]) -> None:
        """While nothing comes: merge what is due."""
        last, now = self._publisher.last.batch, time.monotonic()
        if not self._is_due:
            return
        if last != self._seen:
            self._seen, self._since = last, now
            self._waiting = self._waiting if self._rolls else list(queries.values())
        if now - self._since >= QUIET_S:
            self._go_on()

    def committed(self, queries: Mapping[str, Query]) -> None:
        """After a micro-batch: merge what is due where nothing was merged for so long as the job says."""
        waited_us = (time.monotonic() - self._done_at) * 1e6
        if self._roll_after_us is None or not self._is_due or waited_us < self._roll_after_us:
            return
        if not self._rolls:
            self._rolls, self._waiting = True, list(queries.values())
        self._go_on()

    @property
    def _is_due(self) -> bool:
        return self._least is not None and self._publisher.last.batch - self._done >= KEPT_MANIFESTS

    def _go_on(self) -> None:
        """Merge the files of the next query. What fails is tried again in a later moment: the files are as they
        were."""
        assert self._least is not None
        if not self._waiting:
            self._done, self._done_at, self._rolls = self._publisher.last.batch, time.monotonic(), False
            return
        kept = {name for manifest in self._publisher.log.manifests() for name in manifest.files}
        try:
            self._sink.compact_query(self._waiting.pop(), kept, self._least)
        except (MuntinError, OSError):
            self._since = time.monotonic()
