"""Arrow tables as bytes, and several pieces of bytes as one: what crosses processes or lies in state."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

import pyarrow as pa

Payload: TypeAlias = "bytes | memoryview | pa.Buffer"


def table_bytes(table: pa.Table, compression: str | None = None) -> pa.Buffer:
    """A table as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read_table(payload: Payload) -> pa.Table:
    """The table that `table_bytes` made these bytes of."""
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return reader.read_all()


def pack(parts: Sequence[Payload]) -> bytes:
    """Pieces of bytes one after the other, their sizes before them."""
    return struct.pack(f"<{len(parts)}q", *map(len, parts)) + b"".join(parts)


def unpack(payload: Payload, count: int) -> list[memoryview]:
    """So many pieces that were packed, without a copy."""
    view = memoryview(payload)
    bounds = accumulate(struct.unpack_from(f"<{count}q", view), initial=8 * count)
    return [view[start:end] for start, end in pairwise(bounds)]
