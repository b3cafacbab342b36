"""When rows arrived, as their source tells: a file when it was last written, a message when its broker took it.

Other sources tell nothing: then it is the moment at which Spark planned the micro-batch. What was there before the run
has come with its start; and a clock that is ahead of that of the task says no more than now. It is for response times
alone: no row comes out differently for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.kernels.arrays import Int64s
from muntin.model import Stream
from muntin.spark.brokers import broker_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ARRIVED = "_arrived"
"""The column of that moment beside those of the stream."""
TOLD = "timestamp"
"""What brokers call it."""
MOST_PIECES = 8
"""So many pieces with moments of their own rows are cut into; within one, the mean counts for all."""
NEAR_US = 20_000
"""Rows that have come within so long have come together."""


def told_by_files(frame: DataFrame) -> DataFrame:
    """The rows of files with the time at which each file was last written."""
    return frame.withColumn(ARRIVED, frame.metadataColumn("_metadata").getField("file_modification_time"))


def told_by_messages(stream: Stream, frame: DataFrame) -> list[Column]:
    """The time at which a message was taken, where the source is a broker that says so."""
    if broker_of(stream) is None or TOLD not in frame.columns:
        return []
    return [frame[TOLD].cast("timestamp").alias(ARRIVED)]


def with_arrival(frame: DataFrame) -> DataFrame:
    """Rows with the moment at which they arrived, where their source says nothing that of their micro-batch."""
    if ARRIVED in frame.columns:
        return frame
    from pyspark.sql.functions import current_timestamp

    return frame.withColumn(ARRIVED, current_timestamp())


def by_arrival(table: pa.Table, began_us: int) -> Iterator[tuple[pa.Table, int]]:
    """Rows in their order, cut into pieces that have come together, and when each has, on the wall clock."""
    now = time.time_ns() // 1000
    if ARRIVED not in table.column_names:
        yield table, now
        return
    moments = table[ARRIVED].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).fill_null(now).to_numpy()
    moments = np.clip(moments, min(began_us, now), now)
    table = table.drop_columns([ARRIVED])
    for start, end in pairwise(_cuts(moments)):
        yield table.slice(start, end - start), int(moments[start:end].mean())


def _cuts(moments: Int64s) -> list[int]:
    """Where pieces begin, and the end."""
    width = max(NEAR_US, (int(moments.max()) - int(moments.min())) // MOST_PIECES + 1)
    together = (moments - moments.min()) // width
    cuts = [0, *(np.flatnonzero(np.diff(together)) + 1).tolist(), len(moments)]
    if len(cuts) > MOST_PIECES + 1:
        cuts = np.linspace(0, len(moments), MOST_PIECES + 1).astype(int).tolist()
    return cuts
