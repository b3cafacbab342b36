"""Ingest: the rows of one input partition become one Arrow frame per (join, side, shard).

Every shard gets a frame from every partition, an empty one too, with the least and the greatest event time of the
whole partition: so all shards compute the same frontiers from the same micro-batch. Rows without an event time, those
with one outside of the years 1 to 9999, and lines that the source could not parse become dead letters here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals import copies_of, data_of, look_up, marked, outside_calendar, shard_rows, spans_of
from muntin.core.batch import MARK, TS, event_times, own_schema
from muntin.core.storage import table_bytes
from muntin.model import Axis, Side, Stream
from muntin.plan import SharedJoin
from muntin.plan.punctuation import punctuates_no_key
from muntin.spark.exchange import FrameKind, Topology, briefing, encode
from muntin.spark.ingest import dead_letters
from muntin.spark.ingest.arrival import by_arrival
from muntin.spark.ingest.decoding import decoded
from muntin.spark.worker import set_aside

CORRUPT = "_corrupt_record"
CLOCK = "_clock"
"""The time of the micro-batch, where rows must not be too far ahead of it: Spark's, so that a replay has the same."""
FRAME_BYTES = 16 << 20
"""Frames are cut at about this size, so that no single value strains the exchange."""
GATHER_BYTES = 128 << 20
"""A partition larger than this is packed in several rounds."""

SCHEMA = pa.schema([pa.field("gid", pa.int32(), nullable=False), pa.field("frame", pa.binary(), nullable=False)])
DDL = "gid int, frame binary"

Packed = tuple[int, bytes]
"""A group id and a frame for it."""


@dataclass(frozen=True)
class Ingest:
    """The task function of one stream, for `mapInArrow`."""

    topology: Topology
    stream: Stream

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        came_apart = (piece for table in gather(batches) for piece in by_arrival(table, self.topology.began_us))
        for sequence, (table, moment) in enumerate(came_apart):
            yield from as_batches(pack(self.topology, self.stream, table, partition, sequence, moment))
        set_aside()


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The batches of a partition as few tables: packing costs per table, not only per row."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size > GATHER_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def as_batches(packed: Iterable[Packed]) -> Iterator[pa.RecordBatch]:
    """Group ids and frames as Arrow batches of moderate size."""
    held: list[Packed] = []
    size = 0
    for item in packed:
        held.append(item)
        size += len(item[1])
        if size > FRAME_BYTES:
            yield _batch(held)
            held, size = [], 0
    if held:
        yield _batch(held)


def _batch(held: list[Packed]) -> pa.RecordBatch:
    gids, frames = zip(*held, strict=True)
    return pa.record_batch([pa.array(gids, pa.int32()), pa.array(frames, pa.binary())], schema=SCHEMA)


def pack(
    topology: Topology, stream: Stream, table: pa.Table, partition: int, sequence: int, arrived_us: int = 0
) -> Iterator[Packed]:
    """Frames of one table of input rows, which have come together, for all shards of all joins that read the stream."""
    rows, turned_away = admit(stream, table, topology.ahead_of_clock_us)
    rows = marked(stream, rows)
    if punctuates_no_key(topology.epoch(topology.latest()).plan, stream):
        marks = rows.filter(rows[MARK]).drop_columns([TS, MARK])
        turned_away = pa.concat_tables([turned_away, dead_letters.unheard(stream, marks)])
    place = {"stream": stream.name, "partition": partition, "sequence": sequence}
    reporter = topology.reporter(stream)
    if turned_away.num_rows and reporter is not None:
        group = topology.group(reporter.home, partition % topology.shards)
        yield group, encode(FrameKind.DEAD_LETTERS, place, table_bytes(turned_away))
    if not rows.num_rows:
        return
    times = rows[TS].to_numpy()
    place |= {"min_ts": int(times.min()), "max_ts": int(times.max()), "arrived_us": arrived_us}
    if topology.policy.max_ahead_us is not None:
        place["spans"] = spans_of(times, topology.policy.max_ahead_us)
    looking = topology.looking_up(stream)
    rows = look_up(looking, rows, topology.tables(looking))
    for join, side in topology.readers(stream):
        yield from _pack_side(topology, join, side, rows, place)


def admit(stream: Stream, table: pa.Table, max_ahead_us: int | None = None) -> tuple[pa.Table, pa.Table]:
    """Rows with an event time, `_ts` first, and the dead letters of the others."""
    turned_away = []
    clock = table[CLOCK].cast(pa.int64()) if CLOCK in table.column_names else None
    now = clock[0].as_py() if clock is not None and len(clock) else None
    if CORRUPT in table.column_names and stream.schema.find(CORRUPT) is None:
        broken = pc.is_valid(table[CORRUPT])
        if pc.any(broken).as_py():
            turned_away.append(dead_letters.malformed(stream, table[CORRUPT].filter(broken)))
            table = table.filter(pc.invert(broken))
    if stream.value is not None:
        table, undecodable = decoded(stream, table)
        turned_away.append(undecodable)
    wanted = own_schema(stream)
    table = table.select(wanted.names).cast(wanted)
    times = event_times(stream, table)
    if times.null_count:
        missing = pc.is_null(times)
        turned_away.append(dead_letters.null_time(stream, table.filter(missing)))
        table, times = table.filter(pc.invert(missing)), times.drop_null()
    rows = table.add_column(0, pa.field(TS, pa.int64(), nullable=False), times)
    outside = outside_calendar(rows[TS])
    if pc.any(outside).as_py():
        turned_away.append(dead_letters.time_range(stream, rows.filter(outside)))
        rows = rows.filter(pc.invert(outside))
    if max_ahead_us is not None and now is not None:
        far = pc.greater(rows[TS], now + max_ahead_us)
        if pc.any(far).as_py():
            found = rows.filter(far)
            limits = pa.chunked_array([pa.array([now] * found.num_rows, pa.int64())])
            turned_away.append(dead_letters.ahead(stream, found.drop_columns([TS]), limits, "the clock"))
            rows = rows.filter(pc.invert(far))
    return rows, pa.concat_tables(turned_away) if turned_away else dead_letters.SCHEMA.empty_table()


def _pack_side(
    topology: Topology, join: SharedJoin, side: Side, rows: pa.Table, place: dict[str, object]
) -> Iterator[Packed]:
    head = place | {"join": join.index, "side": int(side)}
    parts = shard_rows(join, side, rows, topology.shards)
    for shard, part in enumerate(parts):
        if not shard or part is not parts[shard - 1]:  # what goes to every shard is packed once
            pieces = [(piece.num_rows, table_bytes(piece) if piece.num_rows else b"") for piece in _pieces(part)]
        for n, (count, body) in enumerate(pieces):
            yield topology.group(join.home, shard), encode(FrameKind.ROWS, head | {"piece": n, "rows": count}, body)
    hot = [key for index, key in briefing().hot_keys if index == join.index]
    for shard, part in enumerate(copies_of(parts, hot)) if hot else ():
        for n, piece in enumerate(_pieces(part) if part.num_rows else ()):
            header = head | {"piece": n, "rows": piece.num_rows}
            yield topology.group(join.home, shard), encode(FrameKind.COPIES, header, table_bytes(piece))
    if join.axes[side] is Axis.ROWS:
        data = data_of(rows).select([TS])
        times = table_bytes(data)
        for shard in range(topology.shards):
            yield topology.group(join.home, shard), encode(FrameKind.CLOCK, head | {"rows": data.num_rows}, times)


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    count = max(1, -(-rows.nbytes // FRAME_BYTES))
    step = max(1, -(-rows.num_rows // count))
    for start in range(0, max(1, rows.num_rows), step):
        yield rows.slice(start, step)
