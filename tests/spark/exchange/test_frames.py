"""Frames come back as they were written, or not at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.core.storage import table_bytes
from muntin.spark.exchange.frames import FrameError, FrameKind, decode, encode


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_a_frame_carries_header_and_table(compression: str | None):
    table = pa.table({"a": [1, None, 3], "s": ["x", "ü", None]})
    frame = decode(encode(FrameKind.ROWS, {"stream": "Ä", "rows": 3}, table_bytes(table, compression)), "it")
    assert (frame.kind, frame.header, frame.table()) == (FrameKind.ROWS, {"stream": "Ä", "rows": 3}, table)


def test_every_damaged_byte_is_noticed():
    data = encode(FrameKind.META, {"nonce": "abc"}, b"payload")
    for n in range(len(data)):
        broken = bytearray(data)
        broken[n] ^= 0x40
        with pytest.raises(FrameError, match="the chunk l7"):
            decode(broken, "the chunk l7")


@pytest.mark.parametrize("cut", [0, 5, 25, -1])
def test_a_cut_frame_is_noticed(cut: int):
    with pytest.raises(FrameError, match="is damaged"):
        decode(encode(FrameKind.META, {"nonce": "abc"}, b"payload")[:cut], "it")
