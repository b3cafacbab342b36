"""Message brokers: Kafka and NATS JetStream as sources of Spark that need no jar, and what both sides know of them.

`BROKERS` lists the kinds. A kind checks the options of a stream, says where its messages lie and reads ranges of them.
`reader` makes a streaming source of Spark out of it: how far a micro-batch goes (`offsets`), how fast a stream is read
(`pace`), what happens when the broker is away. Secrets come from the environment or a file (`secrets`).
"""

from muntin.spark.brokers.broker import Broker, BrokerError
from muntin.spark.brokers.pace import PACE, SLOW_ROWS, set_pace
from muntin.spark.brokers.registry import BROKERS, broker_of, connector_of, load_messages, say_source
from muntin.spark.brokers.secrets import resolved, scrubbed

__all__ = [
    "BROKERS",
    "PACE",
    "SLOW_ROWS",
    "Broker",
    "BrokerError",
    "broker_of",
    "connector_of",
    "load_messages",
    "resolved",
    "say_source",
    "scrubbed",
    "set_pace",
]
