"""What crosses between processes: frames, group ids, and what every task must know."""

from muntin.spark.exchange.address import Address
from muntin.spark.exchange.frames import Frame, FrameError, FrameKind, decode, encode
from muntin.spark.exchange.partitions import partition_id, place_of
from muntin.spark.exchange.topology import Topology

__all__ = [
    "Address",
    "Frame",
    "FrameError",
    "FrameKind",
    "Topology",
    "decode",
    "encode",
    "partition_id",
    "place_of",
]
