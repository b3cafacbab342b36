"""The server: a thread beside a run, or a process of its own."""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
from dataclasses import dataclass

from muntin.model import MuntinError, UsageError
from muntin.spark.store import Location
from muntin.web.live import LiveJob

PORT = 8420
INSTALL = 'pip install "muntin[web]"'
LINGER_S = 2.0
"""How long a server may take to end."""


@dataclass(frozen=True)
class WebOptions:
    """What a user asks for. Port 0 is any that is free; None the usual one, or any where that is taken."""

    port: int | None = None
    host: str = "127.0.0.1"
    read_only: bool = False


def check_installed() -> None:
    """Refuse where the packages of the page are missing."""
    for name in ("starlette", "uvicorn", "prometheus_client"):
        if importlib.util.find_spec(name) is None:
            raise UsageError(f"the page needs {name}, which is not installed", hint=INSTALL)


class WebServer:
    """Serves one checkpoint until it is closed. It has a thread of its own, which no job waits for."""

    def __init__(self, checkpoint: Location, options: WebOptions):
        check_installed()
        import uvicorn

        from muntin.web.app import make_app
        from muntin.web.guard import Access

        self._access = Access(options.host, None) if options.read_only else Access(options.host)
        self._socket = _bound(options)
        app = make_app(LiveJob(checkpoint), self._access)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="muntin-web", daemon=True)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def start(self) -> WebServer:
        self._thread.start()
        while self._thread.is_alive() and not self._server.started:
            time.sleep(0.01)
        if not self._server.started:
            raise MuntinError("the server of the page could not start")
        return self

    def __enter__(self) -> WebServer:
        return self.start()

    def __exit__(self, *about: object) -> None:
        self.close()

    def wait(self) -> None:
        """Until somebody closes it."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(LINGER_S)

    @property
    def is_loopback(self) -> bool:
        return self._access.is_loopback

    @property
    def url(self) -> str:
        """Where the page is; the token is in the part that a browser does not send."""
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        token = f"#token={self._access.token}" if self._access.token else ""
        return f"http://{shown}:{port}/{token}"


def _bound(options: WebOptions) -> socket.socket:
    """A socket that listens; the usual port gives way where it is taken, one that was asked for does not."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    for port in (PORT, 0) if options.port is None else (options.port,):
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((options.host, port))
            made.listen(64)
            return made
        except OSError as error:
            made.close()
            reason = error.strerror or str(error)
    raise UsageError(f"cannot serve on {options.host}:{options.port}: {reason}", hint="name another port, or port 0")
