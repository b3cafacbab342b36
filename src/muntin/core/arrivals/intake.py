"""Rows between their arrival and the join: numbered, written to the log, kept in memory, and held until their time.

What it **is**, with R the release point and J[side] how far the rows of a side have been joined:

    payload[side]    the rows of all live chunks, by number
    waiting[side]    time, key, class and number of the rows with  ts > R: those up to J are taken, the others held

Numbers come from ranges by how long rows stay, so that those that have left lie together, in memory and in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from muntin.core.arrivals.arrival_times import ArrivalTimes, ChunkArrival
from muntin.core.arrivals.row_numbers import NumberedRows
from muntin.core.batch import ARRIVAL, CAME, H1, H2, KEPT, TS, Counters, own_columns, row_schema, stored_schema
from muntin.core.selections import Selections, own_times, times_width
from muntin.core.storage import (
    RANGE_BITS,
    ChunkKind,
    ChunkLog,
    Memory,
    QueueImage,
    StoredRows,
    TableImage,
    TimeQueue,
    flat,
    leave_all,
    take_all,
)
from muntin.kernels.arrays import Bools, Int32s, Int64s
from muntin.kernels.join import Rows
from muntin.model import JoinKind, Side
from muntin.plan import SharedJoin

GROUPS = 8
"""Ranges of row numbers for rows that stay: where there are more slices than that, neighbours share one."""
VISITORS, MOVED = GROUPS, GROUPS + 1
"""The ranges of rows that only probe here, and of those that were moved away from dead ones
(core/punctuations/compaction.py)."""
COLUMNS = flat("int64", "int64", "int64", "int64", "int32", "int64", "bool")
CLASS, ROW = 4, 5
"""Of waiting rows: time, arrival, both halves of the key, class, row number, whether it is kept here."""
ROW_BYTES = sum(np.dtype(kind).itemsize for _, kind in COLUMNS)


@dataclass(frozen=True)
class IntakeMeta:
    """What is durable of the intake."""

    next_rows: list[list[int]] = field(default_factory=lambda: [[n << RANGE_BITS for n in range(MOVED + 1)]] * 2)
    """For each side the next row number of each range."""
    arrivals: list[ChunkArrival] = field(default_factory=list)


@dataclass(frozen=True)
class IntakeImage:
    """What another process needs, beside `IntakeMeta` and the memory, to go on with the rows of both sides."""

    payload: list[list[TableImage]]
    waiting: list[list[QueueImage]]


class Intake:
    def __init__(
        self,
        join: SharedJoin,
        selections: tuple[Selections, Selections],
        chunks: ChunkLog,
        memory: Memory,
        meta: IntakeMeta,
        image: IntakeImage | None = None,
        words: int = 0,
    ):
        """`words`: of bits that are kept for each row (core/matches)."""
        image = image or IntakeImage([[], []], [[], []])
        self._join = join
        self._selections = selections
        self._chunks = chunks
        self._memory = memory
        self._next = [list(numbers) for numbers in meta.next_rows]
        self.payload = tuple(
            StoredRows(stored_schema(join, side), memory, image.payload[side], words, times_width(join, side))
            for side in Side
        )
        self.arrival_times = ArrivalTimes(meta.arrivals)
        self._waiting = tuple(
            [TimeQueue.open(memory, queue, COLUMNS) for queue in image.waiting[side]] for side in Side
        )

    @property
    def meta(self) -> IntakeMeta:
        return IntakeMeta(self._next, self.arrival_times.known)

    @property
    def image(self) -> IntakeImage:
        waiting = [[queue.image for queue in queues] for queues in self._waiting]
        return IntakeImage([payload.image for payload in self.payload], waiting)

    @property
    def next_rows(self) -> list[list[int]]:
        """The next number in each range of each side."""
        return [list(numbers) for numbers in self._next]

    # -- rows arrive ----------------------------------------------------------------------------------------------

    def begin(self, moment: int) -> None:
        """A micro-batch has arrived, at a moment of the wall clock."""
        self.arrival_times.begin(moment, not any(self._waiting))

    def receive(self, side: Side, rows: pa.Table, everything: bool, counters: Counters) -> None:
        """Classify rows that were accepted, and keep those that some query wants, or `everything`, as chunks."""
        selections = self._selections[side]
        classes = selections.classify(rows)
        selections.count(classes)
        wanted = selections.wanted[classes]
        counters.unwanted[side] += rows.num_rows - int(wanted.sum())
        order = np.flatnonzero(wanted | everything)
        order = order[np.argsort(rows[TS].to_numpy()[order], kind="stable")]
        self._keep(side, rows.take(pa.array(order)), classes[order])

    def _keep(self, side: Side, table: pa.Table, classes: Int32s) -> None:
        """Number rows in time order and hold them back, in chunks of those that leave at about the same age."""
        selections, came = self._selections[side], None
        if CAME in table.column_names:
            came, table = np.asarray(table[CAME]), table.drop_columns([CAME])
        times = own_times(self._join, side, table, TS)
        stays = selections.stays(classes, times)
        ranges = _groups(self._join, side, selections, classes, stays)
        if KEPT in table.column_names:
            ranges = np.where(np.asarray(table[KEPT]), ranges, VISITORS)
            table = table.select(row_schema(self._join, side).names)  # where keys are hot, it is for the moment only
        ranges = np.where(selections.wanted[classes], ranges, VISITORS)
        for number in np.unique(ranges):
            chosen = ranges == number
            part = (table if chosen.all() else table.filter(pa.array(chosen))).combine_chunks()
            base = self._log(side, int(number), part, stays[chosen])
            self.arrival_times.add(side, base, None if came is None else came[chosen])
            kind = ChunkKind.VISITORS if number == VISITORS else ChunkKind.ROWS
            self._hold(kind, side, base, part, classes[chosen], times[chosen])

    @staticmethod
    def only_visit(numbers: Int64s) -> Bools:
        """Which rows are gone once they have been joined: nobody wanted to keep them when they came."""
        return numbers >> RANGE_BITS == VISITORS

    def _log(self, side: Side, number: int, part: pa.Table, stays: Int64s) -> int:
        """Give rows in time order the next numbers of a range, and the log a chunk of them; returns the first."""
        base = self._next[side][number]
        self._next[side][number] += part.num_rows
        kind = ChunkKind.VISITORS if number == VISITORS else ChunkKind.ROWS
        self._chunks.write(kind, side, base, part, int(part[TS][-1].as_py()), int(stays.max()))
        return base

    def move(self, side: Side, part: pa.Table, classes: Int32s) -> int:
        """Give rows in time order that were joined long ago new numbers and a chunk of their own; returns the first."""
        times = own_times(self._join, side, part, TS)
        base = self._log(side, MOVED, part, self._selections[side].stays(classes, times))
        self.payload[side].add(base, self._without_own(side, part), classes, times)
        return base

    def hold(self, kind: ChunkKind, side: Side, base: int, table: pa.Table, classes: Int32s) -> None:
        """Take the rows of a chunk into memory, and let them wait."""
        self._hold(kind, side, base, table, classes, own_times(self._join, side, table, TS))

    def _hold(self, kind: ChunkKind, side: Side, base: int, table: pa.Table, classes: Int32s, times: Int64s) -> None:
        self.payload[side].add(base, self._without_own(side, table), classes, times)
        numbers = np.arange(base, base + table.num_rows, dtype=np.int64)
        ts, h1, h2 = (np.asarray(table[c]) for c in (TS, H1, H2))
        arrivals = np.asarray(table[ARRIVAL]) if ARRIVAL in table.column_names else numbers
        kept = np.full(len(ts), kind is ChunkKind.ROWS)
        self._waiting[side].append(TimeQueue.keep(self._memory, (ts, arrivals, h1, h2, classes, numbers, kept)))

    def _without_own(self, side: Side, table: pa.Table) -> pa.Table:
        """Rows without what they carry beside their payload and their time."""
        return table.drop_columns([f.name for f in own_columns(self._join, side) if f.name != TS])

    # -- rows go on to the join -----------------------------------------------------------------------------------

    def take(self, bounds: Sequence[int], numbered: Sequence[NumberedRows | None], unique: Sequence[bool]) -> Rows:
        """The held rows of each side up to its bound, in (ts, left first, arrival) order.

        `unique`: sides of which the first row with a key counts, also among those of the same time.
        """
        sides = []
        for side in Side:
            ts, arrivals, *others = take_all(self._waiting[side], bounds[side], COLUMNS)
            if unique[side]:
                first = np.lexsort((arrivals, ts))
                ts, arrivals, *others = (column[first] for column in (ts, arrivals, *others))
            mine, theirs = numbered[side], numbered[side.other]
            at = mine.numbers(arrivals) if mine else ts
            now = theirs.reached(ts, inclusive=side is Side.RIGHT) if theirs else ts
            others[-1] &= self._selections[side].retention[others[2]] > 0  # of no use to anyone since a query has left
            sides.append((np.full(len(ts), side, np.uint8), ts, at, now, *others))
        joined = [np.concatenate(columns) for columns in zip(*sides, strict=True)]
        order = np.lexsort((joined[2], joined[0], joined[1])) if any(numbered) else np.argsort(joined[1], kind="stable")
        return Rows._make(a[order] for a in joined)

    def leave(self, until: int) -> None:
        """The release point has passed rows: they wait no more."""
        for queues in self._waiting:
            leave_all(queues, until)

    def put_back(self) -> None:
        """Hold again all that was taken and has not left."""
        for queue in (*self._waiting[0], *self._waiting[1]):
            queue.put_back()

    def waiting(self, side: Side) -> tuple[Int64s, Int64s, Int64s]:
        """Times, classes and numbers of the rows of a side that wait; those that have been taken have numbers < 0."""
        found = [np.zeros((3, 0), np.int64)]
        for queue in self._waiting[side]:
            columns = np.stack([queue.arrays[n].astype(np.int64) for n in (0, CLASS, ROW)])
            columns[2, : queue.taken] = ~columns[2, : queue.taken]
            found.append(columns)
        ts, classes, numbers = np.concatenate(found, axis=1)
        return ts, classes, numbers

    def held(self, side: Side) -> int:
        """Rows that have not been joined."""
        return sum(len(queue) for queue in self._waiting[side])

    @property
    def held_bytes(self) -> int:
        size = 0
        for side in Side:
            if rows := self.held(side):
                size += rows * (ROW_BYTES + self.payload[side].nbytes // max(1, len(self.payload[side])))
        return size

    # -- rows change and go ---------------------------------------------------------------------------------------

    def change(
        self, join: SharedJoin, selections: tuple[Selections, Selections]
    ) -> list[Callable[[Int64s], Int32s] | None]:
        """Go on with other queries; for each side the classes of rows by number where predicates are new."""
        for side in Side:
            self.payload[side].widen(stored_schema(join, side))
        found = [self._adopt(side, selections[side]) for side in Side]
        if join.own_windows.untils != self._join.own_windows.untils:
            for side in Side:
                self.payload[side].change_times(times_width(join, side), partial(own_times, join, side, ts=TS))
        self._join = join
        self._selections = selections
        return found

    def _adopt(self, side: Side, selections: Selections) -> Callable[[Int64s], Int32s] | None:
        """Classify the rows of a side anew where predicates are new."""
        new = selections.adopt(self._selections[side])
        if not new:
            return None
        payload = self.payload[side]
        payload.reclassify(selections.refined(new))
        by_number = payload.class_by_number()
        for queue in self._waiting[side]:
            queue.update(CLASS, lambda columns: by_number(columns[ROW]))
        return by_number

    def update_retentions(self) -> None:
        """Say anew of each chunk at which age its last row leaves."""
        self._chunks.update_retentions(self._retention)

    def _retention(self, kind: ChunkKind, side: Side, base: int, rows: int) -> int:
        if kind is ChunkKind.CLOCK:
            return self._join.reach(side)
        if not kind.has_rows:
            return self._join.cuts[side][-1]
        payload = self.payload[side]
        return int(self._selections[side].stays(payload.classes_of(base, rows), payload.times_from(base, rows)).max())

    def tidy(self, needed: Sequence[Mapping[int, int]]) -> None:
        """Give back the rows that no chunk needs, given by the first number needed in each range of each side."""
        self.arrival_times.forget({side: [queue.first(ROW) for queue in self._waiting[side]] for side in Side})
        for side in Side:
            self.payload[side].forget(needed[side])


def _groups(join: SharedJoin, side: Side, selections: Selections, classes: Int32s, stays: Int64s) -> Int64s:
    """The range of row numbers of each row: that of its slice, or with many slices one shared by ends of the same
    magnitude; where rows stay for times of their own, that of the magnitude of these.

    Where an as-of join looks for the latest row, all have one: of rows with equal times the last to arrive counts.
    """
    cuts = join.cuts[side]
    if any(q.kind is JoinKind.ASOF and q.subject is side.other for q in join.queries):
        return np.zeros(len(classes), np.int64)
    if selections.has_own_windows:
        halvings = np.log2(cuts[-1] / np.maximum(stays, 1))
        return GROUPS - 1 - np.clip(halvings, 0, GROUPS - 1).astype(np.int64)
    slices = selections.last_slices[classes]
    if len(cuts) <= GROUPS:
        return slices
    sizes = np.log(np.array(cuts, float))
    groups = ((sizes - sizes[0]) / (sizes[-1] - sizes[0]) * GROUPS).astype(np.int64)
    return np.minimum(groups, GROUPS - 1)[slices]
