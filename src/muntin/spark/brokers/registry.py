"""All kinds of brokers, and who reads a stream of one: Spark's own connector where its jar is there, else ours."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.model import Stream
from muntin.spark.brokers.broker import COLUMNS, Broker
from muntin.spark.brokers.kafka import KafkaBroker
from muntin.spark.brokers.nats import NatsBroker
from muntin.spark.brokers.secrets import resolved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKERS: dict[str, type[Broker]] = {kind.name: kind for kind in (KafkaBroker, NatsBroker)}


def broker_of(stream: Stream) -> type[Broker] | None:
    """The kind of broker that a stream comes from; None where it comes from something else."""
    return BROKERS.get(stream.format.lower())


def connector_of(spark: SparkSession | None, kind: type[Broker]) -> bool:
    """Whether Spark's own connector is there; without a session, among the jars that Spark brings."""
    if not kind.jar:
        return False
    if spark is None:
        home = importlib.util.find_spec("pyspark")
        jars = Path(home.origin).with_name("jars") if home is not None and home.origin else Path("jars")
        return any(jars.glob(f"*{kind.name}*.jar"))
    java = spark.sparkContext._jvm
    assert java is not None
    try:
        java.java.lang.Class.forName(kind.jar, False, java.Thread.currentThread().getContextClassLoader())
    except Exception:  # Java says in several ways that it does not know a class
        return False
    return True


def missing_package(kind: str, who: str) -> None:
    """Refuse what needs the client of a broker where it is not installed."""
    BROKERS[kind].refuse_missing(who)


def is_paced(spark: SparkSession, stream: Stream) -> bool:
    """Whether the source of a stream looks how fast it is to be read: ours do."""
    kind = broker_of(stream)
    return kind is not None and not connector_of(spark, kind)


def say_source(stream: Stream, spark: SparkSession | None = None) -> str | None:
    """Who reads a stream of a broker, in a sentence; None for other sources."""
    kind = broker_of(stream)
    if kind is None:
        return None
    by = "Spark's own connector" if connector_of(spark, kind) else "Muntin's own reader, without a jar"
    return f"{kind.name} {kind(stream.options).say()}, read by {by}"


def load_messages(spark: SparkSession, stream: Stream, options: Mapping[str, str], columns: list[str]) -> DataFrame:
    """The messages of a stream as a streaming DataFrame with some of the columns that the broker has."""
    kind = broker_of(stream)
    assert kind is not None
    if connector_of(spark, kind):
        return spark.readStream.format(stream.format).options(**resolved(options), includeHeaders="true").load()
    from muntin.spark.brokers.reader import SOURCES

    with kind(options) as broker:
        broker.beginning(broker.bounds())  # what is wrong is said before anything is written
    source = SOURCES[kind.name]
    spark.dataSource.register(source)
    chosen = {COLUMNS: ",".join(name for name in columns if name in kind.columns)} if columns else {}
    return spark.readStream.format(source.name()).options(**options, **chosen).load()
