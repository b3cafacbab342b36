"""Where the driver listens for results of eager delivery.

Executors have to reach it, so it is where they reach the driver itself, unless settings of Spark say otherwise:

    spark.muntin.hub.host           the address that executors are given        (spark.driver.host)
    spark.muntin.hub.bindAddress    the address that the driver listens on      (spark.driver.bindAddress, or the host)
    spark.muntin.hub.port           the first port that is tried                (any that is free)

Each pipeline of a job has a hub, so with a port the next ones are tried as well.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from muntin.model import UsageError

PREFIX = "spark.muntin.hub."
TRIES = 16
"""So many ports, as Spark does with its own (`spark.port.maxRetries`)."""
LAST_PORT = 65535


class ConfReader(Protocol):
    """What is used of Spark's settings."""

    get: Callable[[str, Any], Any]


@dataclass(frozen=True)
class HubPlace:
    """Host, address to listen on, and the first port; port 0 is any."""

    host: str = "127.0.0.1"
    bind: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def of(cls, settings: ConfReader) -> HubPlace:
        host = settings.get(f"{PREFIX}host", None) or settings.get("spark.driver.host", "127.0.0.1")
        bind = settings.get(f"{PREFIX}bindAddress", None) or settings.get("spark.driver.bindAddress", None) or host
        port = str(settings.get(f"{PREFIX}port", None) or "0")
        if not port.isdecimal() or int(port) > LAST_PORT:
            raise UsageError(f"{PREFIX}port is {port!r}", hint=f"write a port, from 1 to {LAST_PORT}, or 0 for any")
        return cls(host, bind, int(port))

    def listen(self) -> socket.socket:
        """A socket on the first port that is free."""
        ports = range(self.port, min(self.port + TRIES, LAST_PORT + 1)) if self.port else (0,)
        for port in ports:
            try:
                return socket.create_server((self.bind, port), backlog=256)
            except OSError as error:
                last = error
        raise UsageError(
            f"the driver cannot listen for results on {self.bind}, port {_span(ports)}: {last.strerror or last}",
            hint=f"set {PREFIX}bindAddress to an address of this machine, and {PREFIX}port to a free port",
        )


def serve(server: socket.socket, answer: Callable[[socket.socket], None], name: str) -> None:
    """Answer each connection in a thread of its own, until the server is closed."""

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), name=f"{name}-task", daemon=True).start()

    threading.Thread(target=listen, name=name, daemon=True).start()


def _span(ports: range | tuple[int, ...]) -> str:
    return "any" if ports[0] == 0 else f"{ports[0]} to {ports[-1]}"
