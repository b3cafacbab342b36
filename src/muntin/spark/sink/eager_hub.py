"""Eager delivery, the driver's half: takes results from the shards while a micro-batch runs and hands them over.

    shard 0 --\\
    shard 1 ---+--> hub: merge by timestamp --> `deliver` of a sink that takes rows as they come
    shard 2 --/

With `output_order = 'global'` a row of a query is handed over when all shards that feed the query have come to its
timestamp.

A shard's results are deterministic, so an attempt that starts again sends the same rows in the same order: the hub
counts what it has from each shard and skips as many. A shard may leave work to the next micro-batch: then it has not
come to the end, and later rows of the others wait for that, too (`HeldResults`). Only the last attempt that said hello
is listened to; one that Spark has given up, or one of another micro-batch or process, is refused.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.results import OUTPUT_TS
from muntin.core.storage import read_table, unpack
from muntin.model import MuntinError
from muntin.plan import Plan
from muntin.spark.exchange import Address, Frame, receive_frame, send_frame
from muntin.spark.shard import ARRIVED
from muntin.spark.sink.held_results import Held, HeldResults, Source
from muntin.spark.sink.hub_place import HubPlace, serve
from muntin.spark.sink.response_times import Latency
from muntin.spark.sink.sink import Callback
from muntin.spark.sink.spans import ALL_ROWS, EVERYTHING, Spans

BEFORE, AFTER = -(1 << 62), 1 << 62
STRANGE = OSError, MuntinError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, struct.error
"""What comes of messages that no shard sends."""


class Refused(MuntinError):
    """A message of an attempt that is not listened to."""


@dataclass
class _Feed:
    """What has come from one shard: by which attempt, how many rows of each query, how far each query is."""

    attempt: int = -1
    received: Counter[str] = field(default_factory=Counter)
    skip: Counter[str] = field(default_factory=Counter)
    passed: dict[str, int] = field(default_factory=dict)
    done: bool = False
    left: dict[str, int] = field(default_factory=dict)
    """Queries of which later micro-batches bring more, and up to where they have all."""

    def bound(self, query: str) -> int:
        return self.left.get(query, AFTER) if self.done else self.passed.get(query, BEFORE)


class Merge:
    """The results of one micro-batch on their way: a queue for each query and shard. Knows nothing of sockets.

    `held` are those of the micro-batch before that wait for a shard which has come less far.
    """

    def __init__(self, batch: int, in_order: bool, shards: int, held: Held | None = None):
        self.batch = batch
        self._in_order = in_order
        self._shards = shards
        self.feeds: dict[Source, _Feed] = {}
        self._fed_by: dict[str, list[Source]] = {}
        self._queues: dict[str, dict[Source, deque[pa.Table]]] = {
            query: {source: deque(tables) for source, tables in of.items()} for query, of in (held or {}).items()
        }

    def hello(self, source: Source, attempt: int, *plans: Plan) -> None:
        feed = self.feeds.setdefault(source, _Feed())
        if attempt <= feed.attempt:
            raise Refused("another attempt has taken over")
        feed.attempt, feed.skip, feed.done = attempt, Counter(feed.received), False
        for plan in plans:
            self._learn(source, plan)

    def _learn(self, source: Source, plan: Plan) -> None:
        """Which shards feed the queries that a shard feeds."""
        for join in plan.joins:
            for query in join.queries if join.index == source[0] else ():
                known = self._fed_by.setdefault(query.name, [])
                known += [s for n in range(self._shards) if (s := (join.index, n)) not in known]
                for other in plan.joins:  # a query of several joins waits for all of them
                    if query in other.queries:
                        known += [s for n in range(self._shards) if (s := (other.index, n)) not in known]

    def take(
        self, source: Source, attempt: int, tables: Mapping[str, pa.Table], passed: Mapping[str, int]
    ) -> list[tuple[str, pa.Table]]:
        """What may be handed over now that a shard has sent rows and has come further."""
        feed = self._current(source, attempt)
        for name, table in tables.items():
            again = min(feed.skip[name], table.num_rows)
            feed.skip[name] -= again
            if again < table.num_rows:
                feed.received[name] += table.num_rows - again
                self._queues.setdefault(name, {}).setdefault(source, deque()).append(table.slice(again))
        feed.passed.update(passed)
        return self._ready(dict.fromkeys([*tables, *passed]))

    def done(self, source: Source, attempt: int, left: Mapping[str, int] | None = None) -> list[tuple[str, pa.Table]]:
        feed = self._current(source, attempt)
        feed.done, feed.left = True, dict(left or {})
        return self._ready(list(self._queues))

    def _current(self, source: Source, attempt: int) -> _Feed:
        feed = self.feeds[source]
        if feed.attempt != attempt:
            raise Refused("another attempt has taken over")
        return feed

    def _ready(self, names: Iterable[str]) -> list[tuple[str, pa.Table]]:
        out = []
        for name in names:
            queues = self._queues.get(name, {})
            parts = [part for queue in queues.values() for part in _until(queue, self._bound(name))]
            if parts:
                out.append((name, _sorted(parts)))
        return out

    def _bound(self, name: str) -> int:
        """The timestamp that all shards which feed a query have come to."""
        if not self._in_order:
            return AFTER
        absent = _Feed()
        return min((self.feeds.get(source, absent).bound(name) for source in self._fed_by.get(name, ())), default=AFTER)

    @property
    def held(self) -> Held:
        """The rows that wait, those of queries with work left; all shards must be done."""
        return {
            query: {source: list(queue) for source, queue in queues.items() if queue}
            for query, queues in self._queues.items()
        }


def _until(queue: deque[pa.Table], bound: int) -> Iterable[pa.Table]:
    """Take the rows up to a timestamp off a queue in timestamp order."""
    while queue:
        table = queue.popleft()
        ends = int(np.searchsorted(_times(table), bound, side="right"))
        if ends:
            yield table.slice(0, ends)
        if ends < table.num_rows:
            queue.appendleft(table.slice(ends))
            break


def _times(table: pa.Table) -> Any:
    return table[OUTPUT_TS.name].cast(pa.int64()).to_numpy()


def _sorted(parts: list[pa.Table]) -> pa.Table:
    table = pa.concat_tables(parts)
    times = _times(table)
    if (times[1:] < times[:-1]).any():
        table = table.take(pa.array(np.argsort(times, kind="stable")))
    return table


class Hub:
    """What the driver asks of a hub. This one is for batch delivery: nothing comes before the tasks are done."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()
        """What has been handed over of the micro-batch."""
        self.held = 0
        """Rows that wait for the next."""
        self.latency: dict[str, Latency] = {}
        """How long the rows of each query have taken, in this run."""

    def begin(self, batch: int, muted: bool, held: int | None = None, spans: Spans = EVERYTHING) -> None:
        """Take results of a micro-batch; `muted`: it was committed before, and nothing is handed over again. `held`
        is how many rows of the one before wait, where that is known; `spans` are the rows of queries that go out."""

    def finish(self, sources: Iterable[Source]) -> None:
        """The tasks are done: everything has been handed over, or something is wrong."""

    def failed(self) -> BaseException | None:
        """Why results could not be handed over, where that is why the tasks failed."""
        return None

    def close(self) -> None:
        """The run is over."""


class EagerHub(Hub):
    """Listens as long as the run lasts; one thread for each shard that is at work."""

    def __init__(
        self,
        at: HubPlace,
        in_order: bool,
        shards: int,
        deliver: Callback,
        plan_of: Callable[[int], Plan],
        kept: HeldResults,
    ):
        super().__init__()
        self._kept = kept
        self._in_order = in_order
        self._shards = shards
        self._deliver = deliver
        self._plan_of = plan_of
        self._server = at.listen()
        self.address = Address(at.host, self._server.getsockname()[1], secrets.token_hex(32))
        self._lock = threading.Lock()
        self._merge: Merge | None = None
        self._muted, self._spans = False, EVERYTHING
        self._error: BaseException | None = None
        self._connections: dict[Source, socket.socket] = {}
        serve(self._server, self._serve, "muntin-hub")

    # -- for the sink -------------------------------------------------------------------------------------------------

    def begin(self, batch: int, muted: bool, held: int | None = None, spans: Spans = EVERYTHING) -> None:
        waiting = self._kept.load(batch - 1, held)
        with self._lock:
            self._merge = Merge(batch, self._in_order, self._shards, waiting)
            self._muted, self._spans = muted, spans
            self._error = None
            self.rows = Counter()

    def finish(self, sources: Iterable[Source]) -> None:
        with self._lock:
            merge, self._merge = self._merge, None
            if self._error is not None:
                raise self._error
            assert merge is not None
            missing = [s for s in sources if s not in merge.feeds or not merge.feeds[s].done]
            if missing:
                raise MuntinError(f"results are missing: shards {missing} have not delivered all of theirs")
            self.held = self._kept.keep(merge.batch, merge.held)

    def failed(self) -> BaseException | None:
        return self._error

    def close(self) -> None:
        self._server.close()

    # -- connections --------------------------------------------------------------------------------------------------

    def _serve(self, connection: socket.socket) -> None:
        source: Source | None = None
        attempt = -1
        try:
            with connection:
                connection.settimeout(10)
                while (frame := receive_frame(connection, 1 << 34 if source else 1 << 16)) is not None:
                    try:
                        if source is None:
                            source, attempt = self._hello(frame.header, connection)
                            connection.settimeout(None)
                        else:
                            self._message(source, attempt, frame)
                    except Refused as error:
                        send_frame(connection, {"refused": error.message})
                        return
                    if frame.header["type"] != "rows":
                        send_frame(connection, {})
        except STRANGE:
            return  # an attempt that has died, or somebody who is not a shard

    def _hello(self, header: Mapping[str, Any], connection: socket.socket) -> tuple[Source, int]:
        if header.get("type") != "hello" or not hmac.compare_digest(str(header.get("token")), self.address.token):
            raise Refused("not a shard of this run")
        source: Source = (int(header["join"]), int(header["shard"]))
        attempt = int(header["attempt"])
        plans = [self._plan_of(int(epoch)) for epoch in header["epochs"]]
        with self._lock:
            if self._error is not None:
                raise Refused(f"the sink failed: {self._error}")
            if self._merge is None or self._merge.batch != header["batch"]:
                raise Refused("this micro-batch is over")
            self._merge.hello(source, attempt, *plans)
            before, self._connections[source] = self._connections.get(source), connection
        if before is not None:
            _hang_up(before)
        return source, attempt

    def _message(self, source: Source, attempt: int, frame: Frame) -> None:
        with self._lock:
            if self._merge is None:
                raise Refused("this micro-batch is over")
            if frame.header["type"] == "done":
                ready = self._merge.done(source, attempt, frame.header["left"])
            else:
                ready = self._merge.take(source, attempt, _tables(frame), frame.header["passed"])
            try:
                self._hand_over(ready, self._merge.batch)
            except BaseException as error:
                self._error = error
                raise Refused(f"the sink failed: {error}") from error

    def _hand_over(self, ready: Iterable[tuple[str, pa.Table]], batch: int) -> None:
        for name, found in ready:
            table = self._spans.get(name, ALL_ROWS).keep(found)
            self.rows[name] += table.num_rows
            if self._muted or not table.num_rows:
                continue
            self._deliver(name, table.drop_columns([ARRIVED]), batch)
            self.latency.setdefault(name, Latency()).add_since(_counted(table[ARRIVED]), time.time_ns() // 1000)


def _counted(arrival_times: pa.ChunkedArray) -> dict[int, int]:
    """Rows by the moment at which they had arrived: usually all at one."""
    ends = pc.min_max(arrival_times)
    if ends["min"] == ends["max"]:
        return {ends["min"].as_py(): len(arrival_times)}
    moments, rows = np.unique(arrival_times.to_numpy(), return_counts=True)
    return {int(moment): int(n) for moment, n in zip(moments, rows, strict=True)}


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _tables(frame: Frame) -> dict[str, pa.Table]:
    names = frame.header["tables"]
    return dict(zip(names, map(read_table, unpack(frame.payload, len(names))), strict=True))
