"""What the driver tells the tasks of one micro-batch beyond what they were made with: plans that came since, the
versions of tables that it goes by, and hot keys.

A task's function is packed when the streaming query starts. Plans that come while it runs are handed over as a property
of the job that runs the micro-batch, which Spark sends along with each of its tasks. So tasks read no files of ours,
and a worker may run where the checkpoint cannot be reached.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from muntin.core.arrivals import Key, StreamsReached
from muntin.spark.checkpoint import Epoch
from muntin.spark.exchange.packed import packed, unpacked
from muntin.spark.exchange.table_versions import TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = "muntin.briefing"


@dataclass(frozen=True)
class Briefing:
    """Plans that the topology does not have, how far the streams of each join had come before this micro-batch, which
    versions of tables its rows look into, and the keys by the number of their join that may be hot: all that are, and
    perhaps more."""

    epochs: tuple[Epoch, ...] = ()
    reached: tuple[StreamsReached, ...] = ()
    tables: tuple[TableVersion, ...] = ()
    hot_keys: tuple[tuple[int, Key], ...] = ()

    def give(self, spark: SparkSession) -> None:
        """Hand it to the tasks that this thread starts from now on."""
        data = packed(self) if self != NOTHING else b""
        spark.sparkContext.setLocalProperty(PROPERTY, base64.b64encode(data).decode())


NOTHING = Briefing()


def briefing() -> Briefing:
    """What the task at hand was told; nothing on the driver."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return _unpacked((context.getLocalProperty(PROPERTY) or "") if context else "")


@lru_cache(maxsize=8)
def _unpacked(text: str) -> Briefing:
    """The same object for all tasks of a worker, as long as nothing new comes."""
    found: Briefing = unpacked(base64.b64decode(text)) if text else NOTHING
    return found
