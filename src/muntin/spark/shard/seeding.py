"""The state of a stopped pipeline over another number of shards, from the tasks of Spark (core/resharding.py).

    state of the old shards --split--> parts in files --exchange by new shard--> unite --> state of the new shards

The parts are the only input of the first micro-batch of the new pipeline, so its state is written as any other.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from muntin.spark.exchange import FrameKind, decode, encode, group_id, place_of
from muntin.spark.shard.processor import JoinProcessor

PIECE_ROWS = 20_000
"""Rows of a part in one frame: Spark holds a hundred frames in memory before it looks at their size."""
DDL = "gid int, frame binary"
SCHEMA = pa.schema([pa.field("gid", pa.int32()), pa.field("frame", pa.binary())])


@dataclass(frozen=True)
class OldJoin:
    """What splitting the chunks of a join needs: whether it has an equality, and how far its results have left."""

    keyed: bool
    release: int


@dataclass(frozen=True)
class Split:
    """The task that splits chunks, for `mapInArrow`: (gid, id, frame) of the old shards in, frames for new ones out."""

    joins: Mapping[int, OldJoin]
    before: int
    after: int

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for gid, name, frame in zip(*(batch.column(n).to_pylist() for n in range(3)), strict=True):
                yield from self._chunk(gid, name, frame)

    def _chunk(self, gid: int, name: str, data: bytes) -> Iterator[pa.RecordBatch]:
        from muntin.core.resharding import split
        from muntin.core.storage import table_bytes

        index, shard = place_of(gid, self.before)
        if index not in self.joins:
            return
        join, table = self.joins[index], decode(data, f"the state chunk {name}").table()
        for target, part in split(name, table, shard, join.keyed, join.release, self.after):
            group = group_id(index, target, self.after)
            for n, start in enumerate(range(0, max(1, part.num_rows), PIECE_ROWS)):
                header = {"of": shard, "chunk": name, "piece": n}
                body = table_bytes(part.slice(start, PIECE_ROWS).combine_chunks(), "lz4")
                frame = encode(FrameKind.PART, header, body)
                yield pa.record_batch([pa.array([group], pa.int32()), pa.array([frame], pa.binary())], schema=SCHEMA)


def seed_frames(index: int, metas: Mapping[int, Any], shards: int) -> Iterator[tuple[int, bytes]]:
    """For each new shard of a join a frame with the small states of all old ones."""
    for shard in range(shards):
        header = {"join": index, "shard": shard, "metas": {str(of): meta for of, meta in metas.items()}}
        yield group_id(index, shard, shards), encode(FrameKind.SEED, header)


class SeedProcessor(JoinProcessor):
    """Puts together the state of one new shard; it has the state variables of the operator that comes after it."""

    def __init__(self) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        frames = [decode(row["frame"], "a part of a chunk") for row in rows]
        moved = unite(frames, self._chunks, self._meta)
        yield Row(part=0, frame=encode(FrameKind.REPORT, {"moved": moved}))


def unite(frames: list[Any], chunks: Any, meta: Any) -> int:
    """Write the chunks and the small state of a new shard; how many rows it has got."""
    from muntin.core.operator_state import OperatorMeta
    from muntin.core.resharding import Union
    from muntin.core.storage import table_bytes
    from muntin.model.records import from_json, to_json
    from muntin.spark.checkpoint import STATE_FORMAT
    from muntin.spark.shard.engines import CHUNK_COMPRESSION

    (seed,) = [frame for frame in frames if frame.kind == FrameKind.SEED]
    pieces: dict[tuple[int, str], list[Any]] = {}
    for frame in sorted((f for f in frames if f.kind == FrameKind.PART), key=lambda f: f.header["piece"]):
        pieces.setdefault((frame.header["of"], frame.header["chunk"]), []).append(frame)
    parts = {name: pa.concat_tables([frame.table() for frame in found]) for name, found in pieces.items()}
    metas = {int(of): from_json(OperatorMeta, stored) for of, stored in seed.header["metas"].items()}
    union = Union(seed.header["shard"], metas)
    small, tables = union.take(parts)
    for name, table in tables.items():
        body = table_bytes(table.combine_chunks(), CHUNK_COMPRESSION)
        chunks.updateValue((name,), (encode(FrameKind.CHUNK, {"id": name}, body),))
    header = {
        "format": STATE_FORMAT,
        "nonce": secrets.token_hex(16),
        "epoch": 0,
        "operator": to_json(small),
        "above": {},
    }
    meta.update((encode(FrameKind.META, header),))
    return union.rows
