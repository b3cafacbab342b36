"""Rows that a promise freed lie in the chunks and tables of rows that stay; here their room is given back.

Freed rows leave the index at once, so that nothing meets them; but the chunk of a row is immutable, and goes when the
last row in it has left its window. When more rows of a side lie dead in chunks than live, and a few thousand, the live
ones are copied into new chunks and the old ones go: no more than that is ever wasted, and a row is copied at most once
for each row that died. (Where rows are counted, or the last to arrive is looked for, what matters is the order of
arrival, which only the first chunk has: there dead rows go with their window.)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from muntin.core.arrivals import FOREVER, Intake, key_columns
from muntin.core.batch import ARRIVAL, CLASS, H1, H2, MARK, row_schema
from muntin.core.punctuations.join_view import JoinView
from muntin.core.storage import RANGE_BITS, RANGES, ChunkKind, ChunkLog, Memory, SidesImage
from muntin.kernels.arrays import Bools, Int32s, Int64s
from muntin.kernels.hashing import hash_keys
from muntin.kernels.index import CLASS_BITS
from muntin.model import Axis, JoinKind, Side
from muntin.plan import SharedJoin

NUMBER = "_number"
SLACK = 4096
"""Dead rows of a side that are not worth a copy."""
PIECE = 1 << 16
"""Rows of a new chunk at most."""


class DeadRows:
    """The numbers of dead rows in chunks that are still there, by side."""

    def __init__(self, memory: Memory, lists: list[int], image: SidesImage | None = None):
        self._memory = memory
        self.lists = list(lists)
        """How many lists of dead rows have been written."""
        self._numbers = [np.zeros(0, np.int64) for _ in Side]
        self._name: str | None = None
        if image:
            self._name = image.name
            self._numbers = [a.copy() for a in memory.arrays(image.name, [((n,), "int64") for n in image.sizes])]

    @property
    def image(self) -> SidesImage:
        """What another process needs to go on with them."""
        if self._name is not None:
            self._memory.discard(self._name)
        self._name = self._memory.name("dead")
        sizes = [len(numbers) for numbers in self._numbers]
        arrays = self._memory.allocate(self._name, [((n,), "int64") for n in sizes])
        for array, numbers in zip(arrays, self._numbers, strict=True):
            array[:] = numbers
        return SidesImage(self._name, sizes)

    @property
    def nbytes(self) -> int:
        return sum(numbers.nbytes for numbers in self._numbers)

    def numbers(self, side: Side) -> Int64s:
        return self._numbers[side]

    def recall(self, side: Side, numbers: Int64s) -> None:
        self._numbers[side] = np.concatenate([self._numbers[side], numbers])

    def add(self, side: Side, numbers: Int64s, ts: Int64s, retention: Int64s, chunks: ChunkLog) -> None:
        """Note rows that died before their time; `retention` is the age at which each would have left."""
        if len(numbers):
            self.lists[side] += 1
            table = pa.table({NUMBER: numbers})
            chunks.write(ChunkKind.DEAD, side, self.lists[side], table, int(ts.max()), int(retention.max()))
            self.recall(side, numbers)

    def forget(self, side: Side, firsts: Mapping[int, int]) -> None:
        """Let go of rows whose chunks are gone; `firsts` is the first number needed in each range."""
        numbers = self._numbers[side]
        if len(numbers):
            needed = np.array([firsts.get(n, FOREVER) for n in range(RANGES)])
            self._numbers[side] = numbers[numbers >= needed[numbers >> RANGE_BITS]]

    def clear(self, side: Side, chunks: ChunkLog) -> None:
        """Forget all of a side, and remove the lists that say so."""
        self._numbers[side] = self._numbers[side][:0]
        chunks.remove([name for kind, s, _, name in chunks if kind is ChunkKind.DEAD and s is side])


def compact(view: JoinView, side: Side, dead: DeadRows, intake: Intake, chunks: ChunkLog) -> None:
    """Copy the live rows of a side into new chunks if too many of their neighbours are dead; the old ones go.

    Dead rows that may have to be emitted are copied too: no partner can come, but nobody has said so yet.
    """
    old = {
        base: name
        for kind, s, base, name in chunks
        if s is side and kind is ChunkKind.ROWS and chunks.live[name].last_ts <= view.release
    }
    stored, live = sum(chunks.live[name].rows for name in old.values()), view.state.rows(side)
    if stored <= 2 * live + SLACK or _keeps_arrivals(view.join, side):
        return
    waiting_ts, waiting = view.matches.to_emit(side, view.payload[side], view.selections[side].wants, view.release)
    alone = np.isin(waiting, dead.numbers(side))
    if stored <= 2 * (live + int(alone.sum())) + SLACK:
        return
    bases = np.array(sorted(old), np.int64)
    ends = bases + np.array([chunks.live[old[int(base)]].rows for base in bases], np.int64)
    slab, (places, _) = view.state.index.slab, view.state.entries(side)
    numbers = np.concatenate([slab[places, 1] >> CLASS_BITS, waiting[alone]])
    ts = np.concatenate([slab[places, 0], waiting_ts[alone]])
    inside = np.flatnonzero(_within(numbers, bases, ends))
    order, waiting_rows = inside[np.argsort(ts[inside], kind="stable")], []
    for start in range(0, len(order), PIECE):
        piece = order[start : start + PIECE]
        base, classes = _move(view, side, intake, numbers[piece])
        moved, stays = base + np.arange(len(piece)), piece < len(places)
        slab[places[piece[stays]], 1] = moved[stays] << CLASS_BITS | classes[stays]
        waiting_rows.append((moved[~stays], ts[piece[~stays]], view.selections[side].retention[classes[~stays]]))
        by_number = np.argsort(numbers[piece])
        known = numbers[piece[by_number]], moved[by_number]
        view.matches.renumber(side, *known, view.payload[side], view.release, chunks)
    view.state.list_own_ends()
    view.matches.forget(side, lambda rows: _within(rows, bases, ends))
    left = dead.numbers(side)
    left = left[~_within(left, bases, ends)]
    dead.clear(side, chunks)
    chunks.remove(old.values())
    for rows in waiting_rows:
        dead.add(side, *rows, chunks)
    if len(left):  # rows of chunks that are partly held; the clock says when they would have left at last
        last, retention = np.full(len(left), view.release), np.full(len(left), view.join.cuts[side][-1])
        dead.add(side, left, last, retention, chunks)


def _keeps_arrivals(join: SharedJoin, side: Side) -> bool:
    """Whether the order in which rows of a side arrived matters later: for their numbers, or for the latest of them."""
    looked_at = any(q.kind is JoinKind.ASOF and q.subject is side.other for q in join.queries)
    return looked_at or join.axes[side] is Axis.ROWS


def _within(numbers: Int64s, bases: Int64s, ends: Int64s) -> Bools:
    """Which numbers lie in one of the ascending spans."""
    at = np.searchsorted(bases, numbers, side="right") - 1
    return (at >= 0) & (numbers < ends[at.clip(min=0)])


def _move(view: JoinView, side: Side, intake: Intake, numbers: Int64s) -> tuple[int, Int32s]:
    """Give rows, in time order, new numbers, and a chunk of their own; the first number, and the classes of all."""
    join, schema = view.join, row_schema(view.join, side)
    found, at = intake.payload[side].fetch(numbers)
    rows = found.take(pa.array(at))
    h1, h2, valid = hash_keys(key_columns(join, side, rows))
    own = {name: pa.array(np.where(valid, half, side + 1)) for name, half in ((H1, h1), (H2, h2))}
    columns = [own[f.name] if f.name in own else _column(rows, f) for f in schema]
    classes = rows[CLASS].to_numpy()
    return intake.move(side, pa.table(columns, schema=schema), classes), classes


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column of stored rows; those that only travelling rows have are empty of meaning here."""
    if field.name in rows.column_names:
        return rows[field.name]
    assert field.name in (ARRIVAL, MARK)
    return pa.chunked_array([pa.array(np.zeros(rows.num_rows, np.int64)).cast(field.type)])
