"""Messages between tasks and the driver: a frame after its length."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

from muntin.core.storage import Payload
from muntin.spark.exchange.frames import Frame, FrameKind, decode, encode

_LENGTH = struct.Struct("<Q")


def send_frame(
    connection: socket.socket, header: Mapping[str, Any], payload: Payload = b"", kind: FrameKind = FrameKind.DELIVERY
) -> None:
    data = encode(kind, header, payload)
    connection.sendall(_LENGTH.pack(len(data)))
    connection.sendall(data)


def receive_frame(connection: socket.socket, most: int = 1 << 34) -> Frame | None:
    """The next frame; None where the other side has closed."""
    head = _receive(connection, _LENGTH.size)
    if head is None:
        return None
    (size,) = _LENGTH.unpack(head)
    data = _receive(connection, size) if size <= most else None
    return None if data is None else decode(data, "a message")


def _receive(connection: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        more = connection.recv_into(view[got:])
        if not more:
            return None
        got += more
    return data
