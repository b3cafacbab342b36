"""One shard of one join inside Spark: frames in, durable and hot state, frames out."""

from muntin.spark.shard import processor, shard
from muntin.spark.shard.eager_sender import CAME, receive_frame, send_frame
from muntin.spark.shard.hot_state import forget_hot

__all__ = ["CAME", "forget_hot", "processor", "receive_frame", "send_frame", "shard"]
