"""The one streaming query of a job, however many joins it has.

    stream A --ingest--\\
    stream B --ingest---+--> exchange by (join, shard) --> operator --> [exchange by time range] --> sink
    control ---copies--/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from muntin.model import Stream
from muntin.spark import processor
from muntin.spark.control import control_stream
from muntin.spark.exchange import Topology
from muntin.spark.ingest import packing, with_arrival
from muntin.spark.store import Location, for_spark, spark_half

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


def build(
    spark: SparkSession, topology: Topology, sources: Sequence[tuple[Stream, DataFrame]], checkpoint: Location
) -> DataFrame:
    """From the streams and their rows, always in the same order, to the frames for the sink."""
    packed = [
        _clocked(with_arrival(frame), topology).mapInArrow(packing.Ingest(topology, stream).run, packing.DDL)
        for stream, frame in sources
    ]
    folder = control_stream.make_folder(checkpoint)
    messages = spark.readStream.format("text").load(for_spark(folder))
    packed.append(messages.mapInArrow(control_stream.ControlIngest(topology).run, packing.DDL))
    joined = (
        reduce(lambda a, b: a.union(b), packed)
        .groupBy("gid")
        .transformWithState(processor.JoinProcessor(topology.packed), processor.DDL, "Append", "None")
    )
    merged = topology.global_order and topology.results_go_to_tasks
    return joined.repartition(topology.shards, "part") if merged else joined


def _clocked(frame: DataFrame, topology: Topology) -> DataFrame:
    """Rows with the clock of their micro-batch, where it is needed: Spark keeps it with the offsets."""
    if topology.ahead_of_clock_us is None:
        return frame
    from pyspark.sql.functions import current_timestamp

    return frame.withColumn(packing.CLOCK, current_timestamp())


def start(
    frame: DataFrame, write: Callable[[Any, int], None], checkpoint: Location, name: str, available_now: bool
) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(write).outputMode("append").queryName(name)
    writer = writer.option("checkpointLocation", for_spark(spark_half(checkpoint)))
    return (writer.trigger(availableNow=True) if available_now else writer).start()
