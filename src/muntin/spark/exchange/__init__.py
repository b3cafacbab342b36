"""What crosses between processes.

`frames` packs and checks everything binary. `partitions` finds group ids that Spark's hash sends where we want them.
`Topology` is what every task of a job must know: plans, shards, policies. `Address` is where the driver listens.
"""

from muntin.spark.exchange.address import Address
from muntin.spark.exchange.frames import Frame, FrameError, FrameKind, Payload, decode, encode, read_table, table_bytes
from muntin.spark.exchange.partitions import partition_id, place_of
from muntin.spark.exchange.topology import STATE_FORMAT, Topology

__all__ = [
    "STATE_FORMAT",
    "Address",
    "Frame",
    "FrameError",
    "FrameKind",
    "Payload",
    "Topology",
    "decode",
    "encode",
    "partition_id",
    "place_of",
    "read_table",
    "table_bytes",
]
