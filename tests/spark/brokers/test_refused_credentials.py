"""Credentials that a broker refuses: the message says who refuses and where to look, never the secret."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muntin.model import Settings
from muntin.plan import share
from muntin.spark.brokers.broker import BrokerError
from muntin.spark.brokers.kafka import KafkaBroker
from muntin.spark.checkpoint import Publisher
from muntin.spark.sink.registry import open_sink
from muntin.spark.sink.sink import OutputRequest
from muntin.sql import parse_job
from servers import running_nats

pytestmark = pytest.mark.slow
WORD = "open-sesame"
API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
PLAN = share(
    parse_job(
        "CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'a');"
        "CREATE QUERY q AS SELECT A.k FROM A, A B WHERE A.k = B.k WINDOW 1 s;"
    )
)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Gatekeeper:
    """Speaks as much of Kafka's protocol as it takes to refuse everybody by SASL, and keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as read:
            while head := read.read(4):
                asked = read.read(struct.unpack(">i", head)[0])
                kind, version, number, client = struct.unpack(">hhih", asked[:10])
                answer = struct.pack(">i", number) + self._answer(kind, version, asked[10 + client :])
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, kind: int, version: int, body: bytes) -> bytes:
        if kind == API_VERSIONS:
            known = ((API_VERSIONS, 0), (HANDSHAKE, 1), (AUTHENTICATE, 0), (3, 1))
            kinds = b"".join(struct.pack(">hhh", name, 0, most) for name, most in known)
            return struct.pack(">hi", 35 if version else 0, len(known)) + kinds
        if kind == HANDSHAKE:
            return struct.pack(">hi", 0, 1) + text("PLAIN")
        self.shown.append(body[4:])
        return struct.pack(">h", 58) + text("nobody of this name and password") + struct.pack(">i", 0)

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gatekeeper]:
    monkeypatch.setenv("WORD", WORD)
    keeper = Gatekeeper()
    yield keeper
    keeper.close()


SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "muntin",
    "sasl.password": "env:WORD",
}


def is_told(error: BrokerError, who: str) -> None:
    assert who in error.message and "nobody of this name and password" in error.message
    assert "env:VARIABLE" in (error.hint or "") and WORD not in error.render()


def test_kafka_refuses_a_source(gate: Gatekeeper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("muntin.spark.brokers.kafka.ANSWER_S", 1.0)
    options = {f"kafka.{name}": value for name, value in SASL.items()}
    broker = KafkaBroker({"kafka.bootstrap.servers": gate.address, "subscribe": "t", **options})
    with broker, pytest.raises(BrokerError) as refused:
        broker.bounds()
    is_told(refused.value, f"Kafka at {gate.address} refuses")
    assert gate.shown[0] == b"\0muntin\0" + WORD.encode(), "it was the secret that was refused"


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_kafka_refuses_a_sink(gate: Gatekeeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, delivery: str):
    monkeypatch.setattr("muntin.spark.sink.kafka.ANSWER_S", 1.0)
    (tmp_path / "client.json").write_text(json.dumps(SASL))
    request = OutputRequest(f"kafka:{gate.address}/out.?delivery={delivery}&config={tmp_path}/client.json")
    sink = open_sink(request).attached(0, Publisher(tmp_path / "ckpt", None))
    with pytest.raises(BrokerError) as refused:
        sink.recover()
        sink.prepare(PLAN, Settings())
    is_told(refused.value, f"Kafka at {gate.address} refuses")


def test_nats_refuses_a_sink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("WORD", WORD)
    with running_nats(tmp_path / "nats", "--user", "muntin", "--pass", "right") as nats:
        place = nats.address.removeprefix("nats://")
        request = OutputRequest(f"nats:{place}/out.?user=muntin&password=env:WORD")
        sink = open_sink(request).attached(0, Publisher(tmp_path / "ckpt", None))
        with pytest.raises(BrokerError, match="refuses") as refused:
            sink.recover()
        sink.close()
    assert place in refused.value.message and WORD not in refused.value.render()
