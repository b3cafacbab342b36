"""Message brokers: Kafka and NATS JetStream as sources of Spark that need no jar, and what both sides know of them.

`BROKERS` lists the kinds. A kind checks the options of a stream, says where its messages lie and reads ranges of them.
`reader` makes a streaming source of Spark out of it: how far a micro-batch goes (`offsets`), how fast a stream is read
(`pace`), what happens when the broker is away. Secrets come from the environment or a file (`secrets`).
"""

from muntin.spark.brokers.broker import Broker, BrokerError
from muntin.spark.brokers.kafka import OF_CONSUMERS, Hearing, KafkaBroker, client_config
from muntin.spark.brokers.local_kafka import LocalKafka
from muntin.spark.brokers.nats import connect as nats_connection
from muntin.spark.brokers.nats import refusal as nats_refusal
from muntin.spark.brokers.nats import refuse_secret_in_address
from muntin.spark.brokers.pace import PACE, SLOW_ROWS, set_pace
from muntin.spark.brokers.registry import BROKERS, broker_of, is_paced, load_messages, missing_package, say_source
from muntin.spark.brokers.secrets import resolved, scrubbed

__all__ = [
    "BROKERS",
    "OF_CONSUMERS",
    "PACE",
    "SLOW_ROWS",
    "Broker",
    "BrokerError",
    "Hearing",
    "KafkaBroker",
    "LocalKafka",
    "broker_of",
    "client_config",
    "is_paced",
    "load_messages",
    "missing_package",
    "nats_connection",
    "nats_refusal",
    "refuse_secret_in_address",
    "resolved",
    "say_source",
    "scrubbed",
    "set_pace",
]
