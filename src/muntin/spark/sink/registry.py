"""All kinds of sinks, and how the text of an output finds its kind."""

from __future__ import annotations

from muntin.model import UsageError
from muntin.spark.sink.callback import CallbackSink
from muntin.spark.sink.counting import CountingSink
from muntin.spark.sink.csv_files import CsvFiles
from muntin.spark.sink.delta import DeltaTables
from muntin.spark.sink.iceberg import IcebergTables
from muntin.spark.sink.json_lines import JsonLines
from muntin.spark.sink.kafka import KafkaTopics
from muntin.spark.sink.nats import NatsSubjects
from muntin.spark.sink.parquet import ParquetFolders
from muntin.spark.sink.parquet_objects import ParquetObjects
from muntin.spark.sink.sink import OutputRequest, Sink
from muntin.spark.sink.sliced import SlicedParquet
from muntin.spark.sink.tcp_socket import SocketSink

SINKS: tuple[type[Sink], ...] = (
    CallbackSink,
    CountingSink,
    SocketSink,
    KafkaTopics,
    NatsSubjects,
    DeltaTables,
    IcebergTables,
    CsvFiles,
    ParquetObjects,
    ParquetFolders,
    SlicedParquet,
    JsonLines,
)
"""A text is of the first kind that takes it: folders, which take any text, come last."""


def open_sink(request: OutputRequest) -> Sink:
    """The sink that a user asks for; of those with the same spelling, the one that goes with the job's delivery."""
    spelling = next(kind.spelling for kind in SINKS if kind.takes(request))
    return _fitting([kind for kind in SINKS if kind.spelling == spelling], request)


def open_into(request: OutputRequest) -> Sink:
    """The sink for the place of a query."""
    assert request.into is not None
    kinds = [kind for kind in SINKS if kind.into_word == request.into.kind]
    if not kinds:
        words = ", ".join(sorted({kind.into_word for kind in SINKS if kind.into_word}))
        raise UsageError(f"rows cannot go INTO {request.into.kind}", hint=f"INTO takes {words}")
    return _fitting(kinds, request)


def _fitting(kinds: list[type[Sink]], request: OutputRequest) -> Sink:
    laid_out = [kind for kind in kinds if request.layout in kind.layouts]
    if not laid_out:
        raise UsageError(
            f"{kinds[0].noun} cannot keep slices, as output_layout = '{request.layout}' asks",
            hint="name a folder of a file system, or SET output_layout = 'queries'",
        )
    fitting = [kind for kind in laid_out if (kind.takes_eager if request.eager else kind.takes_batches)]
    if not fitting:
        when, delivery = ("with their micro-batch", "batch") if request.eager else ("as they come", "eager")
        raise UsageError(
            f"rows go to {kinds[0].noun} only {when}", hint=f"SET delivery = '{delivery}', or name a folder"
        )
    return fitting[0](request)
