"""What the frames of one micro-batch bring to one shard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.arrivals import united
from muntin.core.batch import ARRIVAL, CAME, TS, Arrivals, Spans, row_schema
from muntin.kernels.arrays import Int64s
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.spark.exchange import Frame, FrameKind


def control_messages(frames: list[Frame], kind: str) -> list[Mapping[str, Any]]:
    """Messages of one type in the order in which they were sent."""
    found = [f.header for f in frames if f.kind == FrameKind.CONTROL and f.header["type"] == kind]
    return sorted(found, key=lambda message: message["sequence"])


def sorted_frames(frames: list[Frame], kind: FrameKind) -> list[Frame]:
    """Frames of a kind in an order that does not depend on how the exchange delivered them."""
    wanted = [f for f in frames if f.kind == kind]
    return sorted(wanted, key=lambda f: tuple(f.header.get(k, 0) for k in ("stream", "partition", "sequence", "piece")))


def read_arrivals(
    join: SharedJoin, frames: list[Frame], max_ahead_us: int | None = None, place: tuple[int, int] = (0, 1)
) -> Arrivals:
    """What the frames of one micro-batch bring to one shard."""
    frames = [f for f in frames if f.kind == FrameKind.CONTROL or f.header.get("join", join.index) == join.index]
    left, right = (_side_arrivals(join, side, frames) for side in Side)
    ends = (left[1], right[1]), (left[2], right[2])
    ended, idle = (_named(join, control_messages(frames, kind)) for kind in ("end", "idle"))
    spans = [_spans(side, frames, max_ahead_us) for side in Side]
    now = time.time_ns() // 1000  # a message of the driver comes when it comes
    moment = min(_moments(frames) or [f.header["arrived_us"] for f in frames if f.kind == FrameKind.ROWS], default=now)
    return Arrivals((left[0], right[0]), *ends, ended, (left[3], right[3]), idle, (spans[0], spans[1]), moment,
                    (_copies(join, Side.LEFT, frames), _copies(join, Side.RIGHT, frames)), place)  # fmt: skip


def _moments(frames: list[Frame]) -> set[int]:
    """When the rows of a micro-batch have arrived at their sources."""
    return {f.header["arrived_us"] for f in frames if f.kind == FrameKind.ROWS and f.header["rows"]}


def _rows(schema: pa.Schema, frame: Frame, apart: bool) -> pa.Table:
    """The rows of a frame; where they have not all come together, with the moment at which they came."""
    rows = frame.table().select(schema.names)  # columns that are new come before the plan that has them
    if not apart:
        return rows
    return rows.append_column(CAME, pa.array(np.full(rows.num_rows, frame.header["arrived_us"], np.int64)))


def _empty(schema: pa.Schema, apart: bool) -> pa.Table:
    return (schema.append(pa.field(CAME, pa.int64())) if apart else schema).empty_table()


def _copies(join: SharedJoin, side: Side, frames: list[Frame]) -> pa.Table | None:
    """Rows of other shards whose keys may be hot."""
    found = [f for f in sorted_frames(frames, FrameKind.COPIES) if f.header["side"] == side]
    schema, apart = row_schema(join, side), len(_moments(frames)) > 1
    if not found:
        return _empty(schema, apart) if apart else None
    return pa.concat_tables([_rows(schema, frame, apart) for frame in found])


def _named(join: SharedJoin, messages: list[Mapping[str, Any]]) -> tuple[bool, bool]:
    """Whether messages name the left and the right stream."""
    names = {name for message in messages for name in message["streams"]}
    return join.streams[0].name in names, join.streams[1].name in names


def _spans(side: Side, frames: list[Frame], max_ahead_us: int | None) -> Spans:
    """The spans of the whole stream; each frame has those of its partition."""
    if max_ahead_us is None:
        return ()
    rows = [f.header for f in frames if f.kind == FrameKind.ROWS and f.header["side"] == side]
    return united([header["spans"] for header in rows if header["piece"] == 0], max_ahead_us)


def _side_arrivals(
    join: SharedJoin, side: Side, frames: list[Frame]
) -> tuple[pa.Table, int | None, int | None, Int64s | None]:
    """Rows of one side, the span of the stream in this micro-batch, and its clock where rows are counted."""
    arrived = [f for f in sorted_frames(frames, FrameKind.ROWS) if f.header["side"] == side]
    ticks = [f for f in sorted_frames(frames, FrameKind.CLOCK) if f.header["side"] == side]
    starts = np.cumsum([0, *(f.header["rows"] for f in ticks)])
    first = {_origin(f): int(start) for f, start in zip(ticks, starts, strict=False)}
    schema, apart = row_schema(join, side), len(_moments(frames)) > 1
    tables = [_empty(schema, apart)]
    for frame in arrived:
        if frame.header["rows"]:
            table = _rows(schema, frame, apart)
            if ticks:
                at = table.column_names.index(ARRIVAL)
                table = table.set_column(at, ARRIVAL, pc.add(table[ARRIVAL], first[_origin(frame)]))
            tables.append(table)
    low = min((f.header["min_ts"] for f in arrived), default=None)
    high = max((f.header["max_ts"] for f in arrived), default=None)
    clock = np.concatenate([f.table()[TS].to_numpy() for f in ticks]) if ticks else None
    return pa.concat_tables(tables), low, high, clock


def _origin(frame: Frame) -> tuple[int, int]:
    """The input rows that a frame was made from."""
    return frame.header["partition"], frame.header["sequence"]
