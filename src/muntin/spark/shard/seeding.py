"""The state of a stopped pipeline over another number of shards, from the tasks of Spark (core/resharding.py).

    state of the old shards --split--> parts in files --exchange by new shard--> unite --> state of the new shards

The parts are the only input of the first micro-batch of the new pipeline, so its state is written as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row

from muntin.model.records import from_json, to_json
from muntin.spark.exchange import FrameKind, decode, encode, group_id, place_of
from muntin.spark.processor import JoinProcessor

if TYPE_CHECKING:
    from muntin.core.operator_state import OperatorMeta
    from muntin.core.resharding import OldJoin

PIECE_ROWS = 20_000
"""Rows of a part in one frame: Spark holds a hundred frames in memory before it looks at their size."""
DDL = "gid int, frame binary"
SCHEMA = pa.schema([pa.field("gid", pa.int32()), pa.field("frame", pa.binary())])


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

        home, shard = place_of(gid, self.before)
        above, _, own = name.rpartition("/")
        index = int(above) if above else home
        if index not in self.joins:
            return
        table = decode(data, f"the state chunk {name}").table()
        for target, part in split(own, table, shard, self.joins[index], self.after):
            group = group_id(home, target, self.after)
            for n, start in enumerate(range(0, max(1, part.num_rows), PIECE_ROWS)):
                header = {"of": shard, "join": index, "chunk": own, "piece": n}
                body = table_bytes(part.slice(start, PIECE_ROWS).combine_chunks(), "lz4")
                frame = encode(FrameKind.PART, header, body)
                yield pa.record_batch([pa.array([group], pa.int32()), pa.array([frame], pa.binary())], schema=SCHEMA)


def seed_frames(home: int, metas: Mapping[int, Mapping[int, OperatorMeta]], shards: int) -> Iterator[tuple[int, bytes]]:
    """For each new shard of a join a frame with the small states of all old ones, and of the joins that live there."""
    joins = {str(index): {str(of): to_json(meta) for of, meta in old.items()} for index, old in metas.items()}
    for shard in range(shards):
        yield group_id(home, shard, shards), encode(FrameKind.SEED, {"home": home, "shard": shard, "joins": joins})


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
    from muntin.spark.shard.engines import CHUNK_COMPRESSION
    from muntin.spark.shard.shard_meta import ShardMeta

    (seed,) = [frame.header for frame in frames if frame.kind == FrameKind.SEED]
    pieces: dict[int, dict[tuple[int, str], list[Any]]] = {}
    for frame in sorted((f for f in frames if f.kind == FrameKind.PART), key=lambda f: f.header["piece"]):
        of_join = pieces.setdefault(frame.header["join"], {})
        of_join.setdefault((frame.header["of"], frame.header["chunk"]), []).append(frame)
    small: dict[int, OperatorMeta] = {}
    rows = 0
    for index in map(int, seed["joins"]):
        found = pieces.get(index, {}).items()
        parts = {name: pa.concat_tables([frame.table() for frame in frames]) for name, frames in found}
        union = Union(
            seed["shard"], {int(of): from_json(OperatorMeta, was) for of, was in seed["joins"][str(index)].items()}
        )
        state, tables = union.take(parts)
        small[index], rows = state, rows + union.rows
        prefix = "" if index == seed["home"] else f"{index}/"
        for name, table in tables.items():
            body = table_bytes(table.combine_chunks(), CHUNK_COMPRESSION)
            chunks.updateValue((prefix + name,), (encode(FrameKind.CHUNK, {"id": prefix + name}, body),))
    meta.update((ShardMeta.of(seed["home"], small, 0).frame,))
    return rows
