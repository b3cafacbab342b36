"""What a run leaves on executors, and takes away again at its end."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.spark.session import is_alone
from muntin.spark.shard import forget_hot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEANING_S = 15.0
"""How long executors are waited for: what is left there goes with the application at the latest."""


@dataclass(frozen=True)
class Forget:
    """A task that removes a pipeline's hot states from the machine on which it runs."""

    checkpoint_id: str

    def run(self, numbers: Iterable[int]) -> None:
        forget_hot(self.checkpoint_id)


def forget_everywhere(spark: SparkSession, checkpoint_id: str) -> None:
    """Remove the hot states of a pipeline from the driver and from executors, as far as these can be reached now.

    Nothing runs on them any more, so Spark hands out as many tasks as there are cores all at once, to all of them.
    """
    try:
        folder, alone = spark.sparkContext.getConf().get("spark.local.dir", None), is_alone(spark)
    except Exception:  # Java is gone, and its executors with it
        folder, alone = None, True
    forget_hot(checkpoint_id, None if folder is None else Path(folder.split(",")[0]))
    if alone:
        return

    def clean() -> None:
        with suppress(Exception):  # the session may be over, and its executors with it
            context = spark.sparkContext
            context.setJobGroup(group, "removes hot states", interruptOnCancel=True)
            cores = context.defaultParallelism
            context.parallelize(range(cores), cores).foreachPartition(Forget(checkpoint_id).run)

    group = f"muntin-forget-{checkpoint_id}"
    thread = threading.Thread(target=clean, name=group, daemon=True)
    thread.start()
    thread.join(CLEANING_S)
    if thread.is_alive():
        with suppress(Exception):
            spark.sparkContext.cancelJobGroup(group)
