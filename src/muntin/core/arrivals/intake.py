"""Rows between their arrival and the join: numbered, written to the log, kept in memory, and held until their time.

What it **is**, with J[side] how far the rows of a side have been joined:

    payload[side]    the rows of all live chunks, by number
    waiting[side]    time, key, class and number of the rows with  ts > R: those up to J are taken, the others held

Numbers come from ranges by how long rows stay, so that those that have left lie together, in memory and in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from muntin.core.arrivals.arrival_times import ArrivalTimes
from muntin.core.arrivals.row_numbers import NumberedRows
from muntin.core.batch import ARRIVAL, H1, H2, KEPT, TS, Counters, own_columns, stored_schema
from muntin.core.selections import Selections
from muntin.core.storage import RANGE_BITS, ChunkKind, ChunkLog, Memory, StoredRows, TimeRun, flat, leave_all, take_all
from muntin.kernels.join import Rows
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.joins import Cuts

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Puts = dict[str, pa.Table]
GROUPS = 8
"""Ranges of row numbers for rows that stay: where there are more slices than that, neighbours share one."""
VISITORS, MOVED = GROUPS, GROUPS + 1
"""The ranges of rows that only probe here, and of those that were moved away from dead ones (core/punctuations/compaction.py)."""
COLUMNS = flat("int64", "int64", "int64", "int64", "int32", "int64", "bool")
CLASS, ROW = 4, 5
"""Of waiting rows: time, arrival, both halves of the key, class, row number, whether it is kept here."""
ROW_BYTES = sum(np.dtype(kind).itemsize for _, kind in COLUMNS)
_FIRST_ROWS = [n << RANGE_BITS for n in range(MOVED + 1)]
NEW: dict[str, Any] = {"next_row": [_FIRST_ROWS, _FIRST_ROWS], "came": ()}


class Intake:
    payload: tuple[StoredRows, ...]
    came: ArrivalTimes
    """When rows arrived."""

    def __init__(
        self,
        join: SharedJoin,
        selections: tuple[Selections, Selections],
        chunks: ChunkLog,
        memory: Memory,
        meta: Mapping[str, Any],
        image: Mapping[str, Any] | None = None,
    ):
        self._join, self._selections, self._chunks, self._memory = join, selections, chunks, memory
        rows = image["payload"] if image else ((), ())
        self.payload = tuple(StoredRows(stored_schema(join, side), memory, rows[side]) for side in Side)
        self.came = ArrivalTimes(meta.get("came", ()))
        self._next = [list(numbers) for numbers in meta["next_row"]]
        held = image["held"] if image else ((), ())
        self._waiting = tuple([TimeRun.open(memory, run, COLUMNS) for run in held[side]] for side in Side)

    @property
    def meta(self) -> dict[str, Any]:
        return {"next_row": self._next, "came": self.came.known}

    @property
    def image(self) -> dict[str, Any]:
        """What another process needs, beside `meta` and the memory, to go on with these rows."""
        return {
            "payload": [payload.image for payload in self.payload],
            "held": [[run.image for run in runs] for runs in self._waiting],
        }

    @property
    def following(self) -> list[list[int]]:
        """The next number in each range of each side."""
        return [list(numbers) for numbers in self._next]

    # -- rows come ------------------------------------------------------------------------------------------------

    def begin(self, moment: int) -> None:
        """A micro-batch has come, at a moment of the wall clock."""
        self.came.begin(moment, not any(self._waiting))

    def receive(self, side: Side, rows: pa.Table, everything: bool, counters: Counters, puts: Puts) -> None:
        """Classify rows that were accepted, and keep those that some query wants, or `everything`, as chunks."""
        selections = self._selections[side]
        classes = selections.classify(rows)
        selections.note(classes)
        wanted = selections.reach[classes] > 0
        counters.unwanted[side] += rows.num_rows - int(wanted.sum())
        order = np.flatnonzero(wanted | everything)
        order = order[np.argsort(rows[TS].to_numpy()[order], kind="stable")]
        self._keep(side, rows.take(pa.array(order)), classes[order], puts)

    def _keep(self, side: Side, table: pa.Table, classes: Int32s, puts: Puts) -> None:
        """Number rows in time order and hold them back, in chunks of those that leave at about the same age."""
        selections = self._selections[side]
        ranges = _groups(self._join.cuts[side])[selections.lanes()[classes]]
        if KEPT in table.column_names:
            ranges = np.where(np.asarray(table[KEPT]), ranges, VISITORS)
        ranges = np.where(selections.reach[classes] > 0, ranges, VISITORS)
        for number in np.unique(ranges):
            chosen = ranges == number
            part, own = (table, classes) if chosen.all() else (table.filter(pa.array(chosen)), classes[chosen])
            part = part.combine_chunks()
            base = self._log(side, int(number), part, own, puts)
            self.came.note(side, base)
            self.hold(ChunkKind.VISITORS if number == VISITORS else ChunkKind.ROWS, side, base, part, own)

    def _log(self, side: Side, number: int, part: pa.Table, classes: Int32s, puts: Puts) -> int:
        """Give rows in time order the next numbers of a range, and the log a chunk of them; returns the first."""
        base = self._next[side][number]
        self._next[side][number] += part.num_rows
        kind, keep = (
            ChunkKind.VISITORS if number == VISITORS else ChunkKind.ROWS,
            int(self._selections[side].keep[classes].max()),
        )
        puts[self._chunks.add(kind, side, base, int(part[TS][-1].as_py()), keep, part.num_rows)] = part
        return base

    def log_moved(self, side: Side, part: pa.Table, classes: Int32s, puts: Puts) -> int:
        """The same for rows that were joined long ago."""
        return self._log(side, MOVED, part, classes, puts)

    def hold(self, kind: ChunkKind, side: Side, base: int, table: pa.Table, classes: Int32s) -> None:
        """Take the rows of a chunk into memory, and let them wait."""
        own = [f.name for f in own_columns(self._join, side) if f.name != TS]
        self.payload[side].add(base, table.drop_columns(own), classes)
        numbers = np.arange(base, base + table.num_rows, dtype=np.int64)
        ts, h1, h2 = (np.asarray(table[c]) for c in (TS, H1, H2))
        arrivals = np.asarray(table[ARRIVAL]) if ARRIVAL in own else numbers
        kept = np.full(len(ts), kind is ChunkKind.ROWS)
        self._waiting[side].append(TimeRun.keep(self._memory, (ts, arrivals, h1, h2, classes, numbers, kept)))

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
            others[-1] &= self._selections[side].keep[others[2]] > 0  # of no use to anyone since a query has left
            sides.append((np.full(len(ts), side, np.uint8), ts, at, now, *others))
        joined = [np.concatenate(columns) for columns in zip(*sides, strict=True)]
        order = np.lexsort((joined[2], joined[0], joined[1])) if any(numbered) else np.argsort(joined[1], kind="stable")
        return Rows._make(a[order] for a in joined)

    def leave(self, until: int) -> None:
        """The release point has passed rows: they wait no more."""
        for runs in self._waiting:
            leave_all(runs, until)

    def put_back(self) -> None:
        """Hold again all that was taken and has not left."""
        for run in (*self._waiting[0], *self._waiting[1]):
            run.put_back()

    def held(self, side: Side) -> int:
        """Rows that have not been joined."""
        return sum(len(run) for run in self._waiting[side])

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
        found = [self._adopt(side, selections[side]) for side in Side]
        self._join, self._selections = join, selections
        return found

    def _adopt(self, side: Side, selections: Selections) -> Callable[[Int64s], Int32s] | None:
        """Classify the rows of a side anew where predicates are new."""
        new = selections.adopt(self._selections[side])
        if not new:
            return None
        payload = self.payload[side]
        payload.reclassify(selections.refined(new))
        by_number = payload.class_by_number()
        for run in self._waiting[side]:
            run.update(CLASS, lambda columns: by_number(columns[ROW]))
        return by_number

    def restay(self) -> None:
        """Say anew of each chunk at which age its last row leaves."""
        self._chunks.restay(self._stay)

    def _stay(self, kind: ChunkKind, side: Side, base: int, rows: int) -> int:
        if kind is ChunkKind.CLOCK:
            return self._join.reach(side)
        if not kind.has_rows:
            return self._join.cuts[side][-1]
        return int(self._selections[side].keep[self.payload[side].classes_of(base, rows)].max())

    def tidy(self, needed: Sequence[Mapping[int, int]]) -> None:
        """Give back the rows that no chunk needs, given by the first number needed in each range of each side."""
        self.came.forget({side: [run.first(ROW) for run in self._waiting[side]] for side in Side})
        for side in Side:
            self.payload[side].forget(needed[side])


def _groups(cuts: Cuts) -> Int64s:
    """The range of row numbers of each slice: its own, or with many slices one shared by ends of the same magnitude."""
    if len(cuts) <= GROUPS:
        return np.arange(len(cuts))
    sizes = np.log(np.array(cuts, float))
    return np.minimum(((sizes - sizes[0]) / (sizes[-1] - sizes[0]) * GROUPS).astype(np.int64), GROUPS - 1)
