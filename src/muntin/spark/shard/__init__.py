"""One shard of one join inside Spark: frames in, frames out.

`shard` does one micro-batch: it opens the operator from hot or durable state, gives it the arrivals, stores what
changed and sends results, dead letters and a report to the sink. With eager delivery `EagerSender` sends results to the
driver on the way. `seeding` makes the state of other shards from that of these.
"""

from muntin.spark.shard import shard
from muntin.spark.shard.burst import taken
from muntin.spark.shard.eager_sender import ARRIVED
from muntin.spark.shard.engines import ShardState
from muntin.spark.shard.hot_state import forget_hot
from muntin.spark.shard.seeding import SeedProcessor, Split, seed_frames
from muntin.spark.shard.shard_meta import ShardMeta

__all__ = [
    "ARRIVED",
    "SeedProcessor",
    "ShardMeta",
    "ShardState",
    "Split",
    "forget_hot",
    "seed_frames",
    "shard",
    "taken",
]
