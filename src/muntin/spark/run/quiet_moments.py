"""What a running job does when nothing comes: it merges small files of its outputs (`SET min_file_size`)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from muntin.model import MuntinError, Query
from muntin.spark.checkpoint import KEPT_MANIFESTS, Publisher
from muntin.spark.sink import Sink

QUIET_S = 5.0
"""So long after a micro-batch nothing must have come."""


class QuietMoments:
    """Looked at between micro-batches. It merges the files of one query at a time, so that a micro-batch that comes
    meanwhile waits for one query at most; and once for each twenty micro-batches, since the last ones stay as they
    are."""

    def __init__(self, sink: Sink, publisher: Publisher, least: int | None):
        self._sink, self._publisher, self._least = sink, publisher, least
        self._seen, self._since = publisher.last.batch, time.monotonic()
        self._done = -1
        self._waiting: list[Query] = []

    def look(self, queries: Mapping[str, Query]) -> None:
        """Merge what is due. What fails is tried again in a later moment: the files are as they were."""
        last = self._publisher.last.batch
        if self._least is None or last - self._done < KEPT_MANIFESTS:
            return
        if last != self._seen:
            self._seen, self._since, self._waiting = last, time.monotonic(), list(queries.values())
        if time.monotonic() - self._since < QUIET_S:
            return
        if not self._waiting:
            self._done = last
            return
        kept = {name for manifest in self._publisher.log.manifests() for name in manifest.files}
        try:
            self._sink.compact_query(self._waiting.pop(), kept, self._least)
        except (MuntinError, OSError):
            self._since = time.monotonic()
