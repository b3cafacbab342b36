"""The planning half of a source, over a broker of the tests: limits, ends, losses, and a broker that is away."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from muntin.spark.brokers import reader as readers
from muntin.spark.brokers.broker import Broker, BrokerError, Rows
from muntin.spark.brokers.offsets import Extent, MessageLog, Offsets
from muntin.spark.brokers.pace import PACE, set_pace
from muntin.spark.brokers.reader import BrokerReader

SCHEMA = StructType([StructField("offset", LongType())])
ZERO = MessageLog("t", 0)


class Shelf(Broker):
    """Messages are numbers. What it holds is a class attribute: sources are pickled."""

    name = "shelf"
    held: Mapping[MessageLog, Extent] = {}
    away = False

    def bounds(self) -> dict[MessageLog, Extent]:
        if self.away:
            raise BrokerError("nobody answers")
        return dict(self.held)

    def beginning(self, bounds: Mapping[MessageLog, Extent]) -> Offsets:
        return {place: found.low for place, found in bounds.items()}

    def read(self, place: MessageLog, start: int, end: int, columns: Sequence[str]) -> Iterator[Rows]:
        yield {"offset": list(range(start, end))}


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> type[Shelf]:
    monkeypatch.setattr(Shelf, "held", {ZERO: Extent(0, 10), MessageLog("t", 1): Extent(4, 6)})
    monkeypatch.setattr(Shelf, "away", False)
    return Shelf


def reader(**options: str) -> BrokerReader:
    return BrokerReader(Shelf, options, SCHEMA)


def test_a_run_over_what_is_there_ends_there_however_much_comes_meanwhile(shelf: type[Shelf], monkeypatch: Any):
    source = reader(maxoffsetspertrigger="5")
    source.prepareForTriggerAvailableNow()
    at = source.initialOffset()
    assert at == {"t": {"0": 0, "1": 4}}
    monkeypatch.setattr(shelf, "held", {ZERO: Extent(0, 1000), MessageLog("t", 2): Extent(0, 7)})
    seen: list[int] = []
    while (end := source.latestOffset(at, source.getDefaultReadLimit())) != at:
        spans = source.partitions(at, end)
        again = pickle.loads(pickle.dumps(source))  # tasks get a copy, without a connection
        batch = [n for span in spans for rows in again.read(span) for n in rows["offset"].to_pylist()]
        assert 0 < len(batch) <= 5
        seen, at = seen + batch, end
    assert sorted(seen) == sorted([*range(10), 4, 5]) and at == {"t": {"0": 10, "1": 6}}
    assert source.partitions(at, at) == []


def test_a_trigger_that_wants_everything_gets_everything(shelf: type[Shelf]):
    source = reader(maxoffsetspertrigger="5")
    assert source.latestOffset(source.initialOffset(), ReadAllAvailable()) == {"t": {"0": 10, "1": 6}}
    assert source.reportLatestOffset() == {"t": {"0": 10, "1": 6}}


def test_a_stream_is_slowed_while_it_runs(shelf: type[Shelf], tmp_path: Path):
    file = tmp_path / "pace"
    source, start = reader(**{PACE: str(file)}), {"t": {"0": 0, "1": 6}}
    taken = []
    for rows in (None, 3, None):
        set_pace(file, rows)
        taken.append(source.latestOffset(start, source.getDefaultReadLimit())["t"]["0"])
    assert taken == [10, 3, 10]


def test_a_broker_that_is_away_brings_nothing_until_it_is_back_or_the_patience_ends(
    shelf: type[Shelf], monkeypatch: pytest.MonkeyPatch
):
    now = [100.0]
    monkeypatch.setattr(readers.time, "monotonic", lambda: now[0])
    source, start = reader(brokertimeout="60"), {"t": {"0": 9, "1": 6}}
    monkeypatch.setattr(shelf, "away", True)
    for now[0] in (100.0, 159.0):
        assert source.latestOffset(start, ReadMaxRows(5)) == start
    monkeypatch.setattr(shelf, "away", False)
    assert source.latestOffset(start, ReadMaxRows(5)) == {"t": {"0": 10, "1": 6}}
    monkeypatch.setattr(shelf, "away", True)
    now[0] = 500.0
    assert source.latestOffset(start, ReadMaxRows(5)) == start, "patience begins anew"
    now[0] = 560.0
    with pytest.raises(BrokerError, match="nobody answers"):
        source.latestOffset(start, ReadMaxRows(5))


def test_expired_messages_stop_a_job_unless_it_is_told_to_go_on(shelf: type[Shelf], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shelf, "held", {ZERO: Extent(5, 9)})
    start = {"t": {"0": 2}}
    with pytest.raises(BrokerError, match="messages 2 to 4 of partition 0 of t have expired"):
        reader().latestOffset(start, ReadMaxRows(2))
    told = reader(failondataloss="false")
    assert told.latestOffset(start, ReadMaxRows(2)) == {"t": {"0": 7}}
