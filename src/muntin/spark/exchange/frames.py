"""Frames: everything binary that crosses processes or lies in state.

    magic "MNTN" | version u8 | kind u8 | header bytes u32 | payload bytes u64 | CRC32 u32 | header (JSON) | payload

The checksum covers kind, lengths, header and payload. Payloads are Arrow IPC or bytes of the core; never pickle.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pyarrow as pa

from muntin.core.storage import Payload, read_table
from muntin.model import MuntinError

MAGIC = b"MNTN"
VERSION = 1
_FIXED = struct.Struct("<4sBBIQI")
_CHECKED = struct.Struct("<BIQ")


class FrameKind(IntEnum):
    ROWS = 1  # rows of one stream for one shard, ingest -> operator
    CONTROL = 2  # a control message, control stream -> operator
    DEAD_LETTERS = 3  # anywhere -> sink
    RESULTS = 4  # of one shard, operator -> sink
    REPORT = 5  # what a shard did, operator -> driver
    CHUNK = 6  # rows in state
    META = 7  # the operator's small state
    CLOCK = 8  # event times of all rows of a stream, ingest -> operator
    VALUES = 9  # what one shard knows of the groups of an aggregate query, operator -> sink
    PUNCTUATIONS = 10  # keys of which a query's output brings no more rows, operator -> sink
    DELIVERY = 11  # results while a micro-batch is at work, operator -> driver
    PART = 12  # a part of a chunk, old shard -> new shard
    SEED = 13  # the small states of all old shards of a join, driver -> new shard
    TABLE = 14  # a version of a table, driver -> ingest
    COPIES = 15  # rows of other shards whose keys may be hot, ingest -> operator


class FrameError(MuntinError):
    """A frame that is not what was written."""


@dataclass(frozen=True)
class Frame:
    kind: FrameKind
    header: Mapping[str, Any]
    payload: Payload = b""

    def table(self) -> pa.Table:
        try:
            return read_table(self.payload)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FrameError(f"a frame of {self.kind.name.lower()} is damaged: its rows cannot be read") from error


def encode(kind: FrameKind, header: Mapping[str, Any], payload: Payload = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    body = memoryview(payload)
    checked = _CHECKED.pack(kind, len(text), body.nbytes)
    crc = zlib.crc32(body, zlib.crc32(text, zlib.crc32(checked)))
    return b"".join((_FIXED.pack(MAGIC, VERSION, kind, len(text), body.nbytes, crc), text, body))


def decode(data: bytes | bytearray | memoryview | pa.Buffer, what: str) -> Frame:
    """Read a frame; `what` says in the error message which frame it was."""
    view = memoryview(data)
    if view.nbytes < _FIXED.size:
        raise FrameError(f"{what} is damaged: {view.nbytes} bytes, too short for a frame")
    magic, version, kind, header_size, size, crc = _FIXED.unpack_from(view)
    if magic != MAGIC:
        raise FrameError(f"{what} is damaged: it does not begin as a frame")
    if version != VERSION:
        raise FrameError(f"{what} has frame version {version}, this Muntin reads version {VERSION}")
    if view.nbytes != _FIXED.size + header_size + size:
        raise FrameError(f"{what} is damaged: {view.nbytes} bytes of {_FIXED.size + header_size + size}")
    text = view[_FIXED.size : _FIXED.size + header_size]
    payload = view[_FIXED.size + header_size :]
    if zlib.crc32(payload, zlib.crc32(text, zlib.crc32(_CHECKED.pack(kind, header_size, size)))) != crc:
        raise FrameError(f"{what} is damaged: its checksum does not match")
    try:
        found, header = FrameKind(kind), json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"{what} is damaged: it is of no known kind, or its header is not JSON") from error
    if not isinstance(header, dict):
        raise FrameError(f"{what} is damaged: its header is not an object")
    return Frame(found, header, payload)
