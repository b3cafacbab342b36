"""The example of brokers: its server sends what its jobs read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.formats import format_named
from muntin.spark.brokers import BROKERS, Broker
from muntin.spark.ingest.decoding import value_columns
from muntin.spark.ingest.sources import check_source
from muntin.sql import parse_job
from servers import free_port

EXAMPLE = Path(__file__).parents[3] / "examples" / "brokers"


@pytest.mark.parametrize("kind", sorted(BROKERS))
def test_the_server_of_the_example_sends_what_its_job_reads(kind: str, monkeypatch: pytest.MonkeyPatch):
    spec = parse_job((EXAMPLE / f"{kind}.sql").read_text())
    port = free_port()
    command = [sys.executable, str(EXAMPLE / "server.py"), kind, "--port", str(port), "--rate", "40"]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLE.parents[1] / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            name, _, address = server.stdout.readline().removeprefix("export ").strip().partition("=")
            monkeypatch.setenv(name, address)
            for stream in spec.streams.values():
                check_source(stream)
                with BROKERS[kind](stream.options) as broker:
                    values = read_some(broker)
                assert stream.value is not None
                found = format_named(stream.value).decode(value_columns(stream), values)
                assert found.rows.num_rows and not found.faults and not found.rows["ts"].null_count
        finally:
            server.terminate()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def read_some(broker: Broker) -> list[bytes]:
    """The first messages, once there are some."""
    for _ in range(1000):
        for log, extent in broker.bounds().items():
            if extent.high > extent.low:
                rows = broker.read(log, extent.low, extent.high, ["value"])
                return [value for found in rows for value in found["value"]]
    raise AssertionError("nothing was sent")
