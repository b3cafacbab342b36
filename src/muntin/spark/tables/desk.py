"""Where tasks get tables: the driver hands out a version to each process that asks for it, once."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable

from muntin.spark.exchange import Address, FrameError, FrameKind, receive_frame, send_frame
from muntin.spark.sink import HubPlace, serve

LONGEST_QUESTION = 1 << 16
PATIENCE_S = 10.0
"""How long a question may take."""


class TableDesk:
    """Listens as long as the run lasts; `content` gives a version of a table as Arrow."""

    def __init__(self, at: HubPlace, content: Callable[[str, int], bytes]):
        self._content = content
        self._server = at.listen()
        self.address = Address(at.host, self._server.getsockname()[1], secrets.token_hex(32))
        serve(self._server, self._serve, "muntin-tables")

    def close(self) -> None:
        self._server.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(PATIENCE_S)
                asked = receive_frame(connection, LONGEST_QUESTION)
                if asked is None:
                    return
                if not hmac.compare_digest(str(asked.header.get("token")), self.address.token):
                    send_frame(connection, {"refused": "not a task of this run"})
                    return
                connection.settimeout(None)
                table, number = str(asked.header["table"]), int(asked.header["number"])
                try:
                    content = self._content(table, number)
                except Exception as error:  # whoever asks should know, and the driver goes on
                    send_frame(connection, {"refused": str(error)})
                    return
                send_frame(connection, {"table": table, "number": number}, content, FrameKind.TABLE)
        except (OSError, FrameError, KeyError, TypeError, ValueError):
            return  # a task that has died, or somebody who is none
