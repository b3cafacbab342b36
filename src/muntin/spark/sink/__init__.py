"""The way out: tasks route results to the queries and stage their tables, the driver commits each micro-batch.

A sink is an object with four verbs: prepare, stage, commit, recover (`sink.py`). Each kind is one file, and `SINKS`
lists them. A `RoutedSink` is all sinks of a job: its output, and the places of queries that name one. `SinkTask` is
what Spark's tasks run, `BatchWriter` what the driver does with a micro-batch, `EagerHub` takes results while the tasks
are still at work, and `HeldResults` keeps those that wait for the next micro-batch.
"""

from muntin.spark.sink.batch_writer import BatchWriter
from muntin.spark.sink.delta import load_delta
from muntin.spark.sink.eager_hub import EagerHub, Hub
from muntin.spark.sink.held_results import HeldResults
from muntin.spark.sink.hub_place import HubPlace, serve
from muntin.spark.sink.parquet import SCHEMA_FILE, columns_ever
from muntin.spark.sink.reading import create_views, read
from muntin.spark.sink.registry import SINKS, open_into, open_sink
from muntin.spark.sink.response_times import Latency, ResponseTimes
from muntin.spark.sink.routed import RoutedSink
from muntin.spark.sink.sink import Callback, OutputRequest, Sink
from muntin.spark.sink.slice_folders import layout_of
from muntin.spark.sink.sliced_rows import SlicedRows
from muntin.spark.sink.spans import ALL_ROWS, NO_ROWS, OutputSpan, Spans
from muntin.spark.sink.table_files import load_parquet
from muntin.spark.sink.task import SinkTask

__all__ = [
    "ALL_ROWS",
    "NO_ROWS",
    "SCHEMA_FILE",
    "SINKS",
    "BatchWriter",
    "Callback",
    "EagerHub",
    "HeldResults",
    "Hub",
    "HubPlace",
    "Latency",
    "OutputRequest",
    "OutputSpan",
    "ResponseTimes",
    "RoutedSink",
    "Sink",
    "SinkTask",
    "SlicedRows",
    "Spans",
    "columns_ever",
    "create_views",
    "layout_of",
    "load_delta",
    "load_parquet",
    "open_into",
    "open_sink",
    "read",
    "serve",
]
