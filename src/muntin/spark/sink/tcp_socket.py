"""Lines of JSON to a socket as rows come, at least once: `--output tcp://HOST:PORT`."""

from __future__ import annotations

import socket
from pathlib import Path

import pyarrow as pa

from muntin.core.storage import read_table
from muntin.formats import json_lines
from muntin.model import Settings, UsageError
from muntin.plan import Plan
from muntin.spark.checkpoint import BatchOutcome
from muntin.spark.sink.sink import SendTables, Sink, Stager


class SocketSink(Sink):
    """Each line has the query's name first. Rows of aggregates follow at the end of their micro-batch. Dead letters and
    punctuations are only counted."""

    name = "socket"
    spelling = "tcp://HOST:PORT"
    scheme = "tcp://"
    noun = "a socket"
    summary = "lines of JSON to a socket, as rows come (SET delivery = 'eager')"
    exactly_once = False
    takes_batches = False
    _connection: socket.socket | None = None
    _summed: frozenset[str] = frozenset()
    """The queries with aggregates."""

    def default_checkpoint(self) -> str | Path | None:
        raise UsageError("a run that sends its rows to a socket needs a checkpoint", hint="name one with `checkpoint=`")

    def begin(self) -> None:
        self._connection = self._connect()

    def _connect(self) -> socket.socket:
        host, _, port = self.description.removeprefix(self.scheme).rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(f"{self.description} is not an address", hint=f"write {self.spelling}")
        try:
            connection = socket.create_connection((host, int(port)), timeout=10)
        except OSError as error:
            raise UsageError(f"nobody listens at {self.description}: {error}") from error
        connection.settimeout(None)
        return connection

    def prepare(self, plan: Plan, settings: Settings) -> None:
        self._summed |= {name for name, query in plan.queries.items() if query.aggregation is not None}

    def stager(self, batch: int) -> Stager:
        return SendTables()

    def hand_over(self, done: BatchOutcome) -> None:
        for staged in sorted(done.staged, key=lambda staged: (staged.name, staged.part)):
            if staged.name in self._summed:
                self.deliver(staged.name, read_table(staged.table or b""), done.batch)

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        assert self._connection is not None, "not recovered"
        self._connection.sendall(json_lines(table, {"_query": name}))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
