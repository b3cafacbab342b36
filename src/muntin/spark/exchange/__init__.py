"""What crosses between processes.

`frames` packs and checks everything binary. `partitions` finds group ids that Spark's hash sends where we want them.
`Topology` is what every task of a job must know: plans, shards, policies. `Briefing` is what it is told beside that for
one micro-batch, such as which versions of tables it goes by. `BUILD` says which Muntin this is, `Address` where the
driver listens.
"""

from muntin.spark.exchange.address import Address
from muntin.spark.exchange.briefing import Briefing, briefing
from muntin.spark.exchange.build import BUILD, PACKAGE
from muntin.spark.exchange.connection import receive_frame, send_frame
from muntin.spark.exchange.frames import Frame, FrameError, FrameKind, decode, encode
from muntin.spark.exchange.partitions import group_id, partition_id, place_of
from muntin.spark.exchange.table_versions import TableVersion
from muntin.spark.exchange.topology import Topology

__all__ = [
    "BUILD",
    "PACKAGE",
    "Address",
    "Briefing",
    "Frame",
    "FrameError",
    "FrameKind",
    "TableVersion",
    "Topology",
    "briefing",
    "decode",
    "encode",
    "group_id",
    "partition_id",
    "place_of",
    "receive_frame",
    "send_frame",
]
