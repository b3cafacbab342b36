"""Versions of tables, the worker's half: a task asks the driver for one that its process does not have yet.

The driver says with each micro-batch which version of each table its rows look into (`Briefing`). A version never
changes, so a process keeps the last one of each table.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

import pyarrow as pa

from muntin.core.storage import read_table
from muntin.model import MuntinError
from muntin.spark.exchange.address import Address
from muntin.spark.exchange.connection import receive_frame, send_frame
from muntin.spark.exchange.frames import FrameKind

REACH_S, TIMEOUT_S = 20.0, 600.0
"""How long the driver may take to answer a call, and to send a table."""


@dataclass(frozen=True)
class TableVersion:
    """A table as it was read once, numbered from 1."""

    table: str
    number: int


_KEPT: dict[tuple[str, str], tuple[int, pa.Table]] = {}
"""By checkpoint and table, the version that this process has."""


def fetched(address: Address | None, checkpoint_id: str, version: TableVersion) -> pa.Table:
    """A version of a table; from the driver, where this process has another one or none."""
    place = checkpoint_id, version.table
    if place not in _KEPT or _KEPT[place][0] != version.number:
        assert address is not None
        _KEPT[place] = version.number, _asked(address, version)
    return _KEPT[place][1]


def _asked(address: Address, version: TableVersion) -> pa.Table:
    try:
        with socket.create_connection((address.host, address.port), timeout=REACH_S) as connection:
            connection.settimeout(TIMEOUT_S)
            asked = {"token": address.token, "table": version.table, "number": version.number}
            send_frame(connection, asked, kind=FrameKind.TABLE)
            answer = receive_frame(connection)
    except OSError as error:
        raise MuntinError(
            f"{socket.gethostname()} does not reach the driver at {address.host}, port {address.port}: {error}",
            hint="tables need that: set spark.muntin.hub.host and spark.muntin.hub.port to what executors can reach",
        ) from error
    if answer is None or answer.kind != FrameKind.TABLE:
        why = "it hung up" if answer is None else answer.header.get("refused")
        raise MuntinError(f"the driver did not hand out version {version.number} of {version.table}: {why}")
    return read_table(answer.payload)
