"""A broker as a streaming source of Spark, in PySpark's interface for sources.

The planning half (`initialOffset`, `latestOffset`, `partitions`) runs in one process beside the driver, `read` in the
tasks. What is read follows from the offsets alone, so a micro-batch that runs again has the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from muntin.spark.brokers.broker import COLUMNS, Broker, BrokerError
from muntin.spark.brokers.kafka import KafkaBroker
from muntin.spark.brokers.nats import NatsBroker
from muntin.spark.brokers.offsets import Extent, MessageLog, Stored, advance, from_stored, losses, stored
from muntin.spark.brokers.pace import PACE, pace_of


@dataclass
class MessageRange(InputPartition):  # type: ignore[misc]
    """The messages of a place that one task reads."""

    topic: str
    partition: int
    start: int
    end: int


class BrokerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Both halves; only the planning half keeps a connection."""

    def __init__(self, kind: type[Broker], options: Mapping[str, str], schema: StructType):
        self._kind = kind
        self._options = dict(options)
        self._schema = schema
        self._broker = kind(self._options)
        self._final: dict[MessageLog, Extent] | None = None
        """What was there when a run began that ends with what is there."""
        self._last: dict[MessageLog, Extent] = {}
        self._away_since: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_kind": self._kind, "_options": self._options, "_schema": self._schema}

    # -- planning -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Stored:
        return stored(self._broker.beginning(self._bounds()))

    def getDefaultReadLimit(self) -> ReadLimit:
        """A limit always: how fast a stream is read may be said at any time."""
        return ReadMaxRows(self._broker.limit or 1 << 62)

    def prepareForTriggerAvailableNow(self) -> None:
        self._final = self._bounds()

    def latestOffset(self, start: Stored, limit: ReadLimit) -> Stored:
        begin = from_stored(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        bounds = self._final
        if bounds is None:
            slow = pace_of(self._options.get(PACE))
            most = most if slow is None else min(slow, most or slow)
            try:
                bounds = self._broker.bounds()
            except BrokerError as error:
                return self._wait(start, error)
            self._away_since = None
        self._last = bounds
        self._refuse_loss(begin, bounds)
        return stored(advance(begin, bounds, most))

    def _wait(self, start: Stored, error: BrokerError) -> Stored:
        """A broker that is away brings nothing new, for a while."""
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since >= self._broker.timeout_s:
            raise error
        return start

    def _bounds(self) -> dict[MessageLog, Extent]:
        """Where messages lie, from a broker that may be away for a moment."""
        until = time.monotonic() + self._broker.timeout_s
        while True:
            try:
                return self._broker.bounds()
            except BrokerError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.5)

    def _refuse_loss(self, begin: dict[MessageLog, int], bounds: Mapping[MessageLog, Extent]) -> None:
        lost = losses(begin, bounds)
        if lost and self._broker.fails_on_loss:
            raise BrokerError(
                "; ".join(map(str, lost)),
                hint="nothing was skipped: failOnDataLoss = 'false' goes on with what is there, or begin anew with "
                "another checkpoint",
            )

    def reportLatestOffset(self) -> Stored | None:
        return stored({place: found.high for place, found in self._last.items()}) or None

    def partitions(self, start: Stored, end: Stored) -> Sequence[InputPartition]:
        begin, until = from_stored(start), from_stored(end)
        spans = {place: (begin[place], at) for place, at in until.items() if begin.get(place, at) < at}
        return [MessageRange(place.topic, place.partition, *span) for place, span in sorted(spans.items())]

    def stop(self) -> None:
        self._broker.close()

    # -- tasks --------------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MessageRange)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        place = MessageLog(partition.topic, partition.partition)
        broker = self._kind(self._options)
        for rows in broker.read(place, partition.start, partition.end, self._schema.names):
            yield pa.RecordBatch.from_pydict(rows, schema=schema)


class BrokerSource(DataSource):  # type: ignore[misc]
    """A source of Spark for one kind of broker."""

    kind: type[Broker]

    @classmethod
    def name(cls) -> str:
        return f"muntin_{cls.kind.name}"

    def schema(self) -> str:
        wanted = self.options.get(COLUMNS)
        names = wanted.split(",") if wanted else list(self.kind.columns)
        return ", ".join(f"{name} {self.kind.columns[name]}" for name in names if name in self.kind.columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return BrokerReader(self.kind, self.options, schema)


class KafkaSource(BrokerSource):
    kind = KafkaBroker


class NatsSource(BrokerSource):
    kind = NatsBroker


SOURCES: dict[str, type[BrokerSource]] = {source.kind.name: source for source in (KafkaSource, NatsSource)}
