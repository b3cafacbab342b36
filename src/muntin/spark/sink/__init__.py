"""The way out: tasks route and write, the driver publishes."""

from muntin.spark.sink import sink
from muntin.spark.sink.eager_hub import EagerHub
from muntin.spark.sink.response_times import Latency
from muntin.spark.sink.sink import Callback
from muntin.spark.sink.targets import SCHEME, Calls, JsonFiles, Nowhere, Socket, Target

__all__ = ["SCHEME", "Callback", "Calls", "EagerHub", "JsonFiles", "Latency", "Nowhere", "Socket", "Target", "sink"]
