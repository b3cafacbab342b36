"""Eager delivery, the worker's half: results leave a shard while its micro-batch is still at work.

    shard -- hello, rows, rows, ..., done -->  `EagerHub` in the driver

A message is a frame after its length. `rows` carries tables of some queries and how far each query has come: no later
row of this shard will have an earlier timestamp. The hub answers hello and done, and may refuse; then the task fails
and Spark decides what becomes of it. What is found within a moment goes out together.
"""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from muntin.core.operator import Operator
from muntin.core.policy import LimitError
from muntin.core.results import OutputColumns, routed
from muntin.core.schedule import Delivery, ScheduledWork, merged
from muntin.core.storage import pack, table_bytes
from muntin.kernels.join import Pairs
from muntin.model import MuntinError
from muntin.spark.exchange import Address, receive_frame, send_frame

ARRIVED = "_arrived_us"
"""A column beside those of the query: when the row arrived, on the wall clock."""
MOMENT_S = 0.02
"""How long results are gathered before they are sent."""
MOST_PAIRS = 1 << 17
"""They are sent at once when there are so many."""
REACH_S, TIMEOUT_S = 20.0, 600.0
"""How long the driver may take to answer a call, and to take a message."""


@dataclass(frozen=True)
class Attempt:
    """One attempt of one shard at one micro-batch."""

    join: int
    shard: int
    epochs: list[int]
    """The plans that its results follow: one, or those before and after a change."""
    batch: int
    attempt: int


class EagerSender:
    """Sends the results of one attempt."""

    def __init__(self, address: Address, attempt: Attempt):
        try:
            self._connection = socket.create_connection((address.host, address.port), timeout=REACH_S)
        except OSError as error:
            raise MuntinError(
                f"{socket.gethostname()} does not reach the driver at {address.host}, port {address.port}: {error}",
                hint="eager delivery needs that: set spark.muntin.hub.host and spark.muntin.hub.port to what executors "
                "can reach, or leave out SET delivery = 'eager'",
            ) from error
        self._connection.settimeout(TIMEOUT_S)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask({"type": "hello", "token": address.token, **asdict(attempt)})

    def _ask(self, message: Mapping[str, Any]) -> None:
        """Say something and wait until the hub has taken it in."""
        try:
            send_frame(self._connection, message)
            answer = receive_frame(self._connection)
        except OSError as error:
            raise MuntinError(f"the driver does not take results any more: {error}") from error
        if answer is None or "refused" in answer.header:
            why = answer.header["refused"] if answer else "another attempt has taken over"
            raise MuntinError(f"results were refused: {why}")

    def send(self, tables: Mapping[str, pa.Table], passed: Mapping[str, int]) -> None:
        payload = pack([table_bytes(table) for table in tables.values()])
        try:
            send_frame(self._connection, {"type": "rows", "tables": list(tables), "passed": dict(passed)}, payload)
        except OSError as error:
            raise MuntinError("results were refused: another attempt has taken over, or the sink failed") from error

    def done(self, left: Mapping[str, int] | None = None) -> None:
        """Nothing more comes in this micro-batch; `left` has the queries of which later ones bring more, and up to
        where those have all."""
        self._ask({"type": "done", "left": dict(left or {})})

    def __enter__(self) -> EagerSender:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def deliver(operator: Operator, work: ScheduledWork, sender: EagerSender) -> dict[str, int]:
    """Do work of an operator, and send what each unit lets go; the queries with something left, and up to where they
    have all."""
    work.arrive()
    gathered = _GatheredResults(operator, work, sender)
    try:
        while (done := work.step()) is not None:
            for delivery in done.deliveries:
                gathered.put(delivery)
            gathered.pass_time(
                range(done.unit.first, done.unit.last), int(work.rows.ts[work.span(done.unit.run)[1] - 1])
            )
            gathered.send_if_due()
    except LimitError as error:
        raise operator.too_many_pairs(error) from None
    for delivery in work.close():
        gathered.put(delivery)
    gathered.send()
    return {name: cursor.ts for n, cursor in enumerate(work.cursors()) for name in gathered.names[n]}


class _GatheredResults:
    """Deliveries gathered, by the levels that they are for, and how far the queries of each level have come."""

    def __init__(self, operator: Operator, work: ScheduledWork, sender: EagerSender):
        self._operator = operator
        self._work = work
        self._sender = sender
        self._pairs: list[tuple[tuple[int, ...], list[Pairs]]] = []
        self._passed: dict[int, int] = {}
        self._count = 0
        self._sent = time.monotonic()
        self.names = [
            [q.name for q, level in zip(operator.join.queries, work.levels.of_query, strict=True) if level == n]
            for n in range(len(work.levels))
        ]

    def put(self, delivery: Delivery) -> None:
        self._operator.keep_for_aggregates(delivery)
        pairs = delivery.pairs
        if self._work.scheduler.scans_whole_runs:  # they lie where the next unit puts its own
            pairs = Pairs._make([a.copy() for a in pairs])
        if not self._pairs or self._pairs[-1][0] != delivery.levels:
            self._pairs.append((delivery.levels, []))
        self._pairs[-1][1].append(pairs)
        self._count += len(pairs.ts)

    def pass_time(self, levels: range, ts: int) -> None:
        for level in levels:
            self._passed[level] = ts

    def send_if_due(self) -> None:
        if self._count >= MOST_PAIRS or time.monotonic() - self._sent >= MOMENT_S:
            self.send()

    def send(self) -> None:
        """Tables of each query in the order in which its pairs were let go, and how far it has come."""
        tables: dict[str, list[pa.Table]] = defaultdict(list)
        for levels, parts in self._pairs:
            results = self._operator.found(merged(parts), self._operator.readers(self._work, levels)).whole()
            columns = OutputColumns(results)
            for query, places in routed(self._operator.join, results):
                table = columns.output(query, places)
                tables[query.name].append(table.append_column(ARRIVED, pa.array(results.moments(places))))
        whole = {name: pa.concat_tables(parts).combine_chunks() for name, parts in tables.items()}
        self._sender.send(whole, {name: ts for n, ts in self._passed.items() for name in self.names[n]})
        self._pairs.clear()
        self._passed.clear()
        self._count = 0
        self._sent = time.monotonic()
