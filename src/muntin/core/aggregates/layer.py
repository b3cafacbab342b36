"""What an aggregate keeps of its groups, window by window, and of the cells of pairs that have yet to go.

What the state of a layer **is**, after all instants up to `since`, times counted in panes:

    sums[slot, window]   over the pairs of the group that are live at `since` in the window
    waiting            cells of pairs that come after `since`
    runs               cells of pairs that are not gone from the largest window; each in order of the pairs' anchors

A cell that comes is added to all windows that its age lets it into, and one that goes is subtracted from one window,
when its size has passed since the anchor. So nothing is looked at but what comes and what goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from muntin.core.storage import (
    Arrays,
    Layout,
    Memory,
    QueueImage,
    Slotted,
    TimeQueue,
    first_to_merge,
    flat,
    leave_all,
    pass_all,
    slot_layout,
)
from muntin.kernels.aggregate import (
    BEFORE,
    Events,
    Out,
    Sums,
    fill_cells,
    number_cells,
    sweep_changes,
    sweep_presence,
    sweep_ticks,
    write_standing,
)
from muntin.kernels.arrays import Bools, Floats, Int32s, Int64s
from muntin.kernels.skyline import count_steps, gather_keys, repack_skylines, replace_keys, reserve
from muntin.kernels.slots import CLOCK, SKYLINES_END, USED, Slots, drop_cells

BLOCK = 1 << 16
"""Rows that a sweep writes before they are taken away."""
FIRST_SLOTS, FIRST_STEPS = 16, 64
STEP = 2
"""Numbers of a step: anchor and key."""


@dataclass(frozen=True)
class Shape:
    """How a layer's values lie: sizes of the windows, whole numbers, sums of doubles (which of the whole numbers counts
    the values of each), and extremes, of each of which a slot has a skyline."""

    windows: Int64s
    ints: int
    counts: Int64s
    extremes: int

    @property
    def doubles(self) -> int:
        return len(self.counts)


class GroupedPairs(NamedTuple):
    """Pairs for a layer: slot, when they come, anchor, the first window that they are in, and their values."""

    slot: Int32s
    time: Int64s
    anchor: Int64s
    window: Int32s
    ints: Int64s
    doubles: Floats
    keys: Int64s
    has: Bools


@dataclass(frozen=True)
class LayerImage:
    """What another process needs, beside the memory, to go on with a layer."""

    names: dict[str, str]
    room: int
    steps: int
    runs: list[QueueImage]
    waiting: list[QueueImage]


class Layer(Slotted):
    _names: dict[str, str]

    def __init__(self, shape: Shape, memory: Memory, image: LayerImage | None = None, step: int = STEP):
        self.shape, self._step = shape, step
        self._memory = memory
        if image:
            self._names, self._room, self._steps = dict(image.names), image.room, image.steps
            slots, sums, skylines = self._layouts()
            self.slots = Slots(*memory.arrays(self._names["slots"], slots))
            kept = memory.arrays(self._names["sums"], sums)
            self.sums = Sums(*kept, *memory.arrays(self._names["skylines"], skylines))
        else:
            self._room, self._steps = FIRST_SLOTS, FIRST_STEPS
            self._allocate()
        going, coming = self._cell_columns()
        self._runs = [TimeQueue.open(memory, run, going) for run in image.runs] if image else []
        self._waiting = [TimeQueue.open(memory, run, coming) for run in image.waiting] if image else []

    def _layouts(self) -> tuple[Layout, Layout, Layout]:
        room, shape, windows = self._room, self.shape, len(self.shape.windows)
        sums = [
            ((room, windows, shape.ints), "int64"),
            ((room, windows, 2 * shape.doubles), "float64"),
            ((room, windows), "int64"),
            ((windows,), "int64"),
            ((room, shape.extremes, 4), "int64"),
        ]
        return slot_layout(room), sums, [((self._steps, self._step), "int64")]

    def _cell_columns(self) -> tuple[Layout, Layout]:
        """Of cells that go: anchor, slot, window, values. Of cells that come: time, then the same, and keys."""
        shape = self.shape
        going = [*flat("int64", "int32", "int32"), ((shape.ints,), "int64"), ((2 * shape.doubles,), "float64")]
        return going, [*flat("int64"), *going, ((shape.extremes,), "int64"), ((shape.extremes,), "bool")]

    def _allocate(self) -> None:
        slots, sums, skylines = self._layouts()
        self._names = {what: self._memory.name(what) for what in ("slots", "sums", "skylines")}
        self.slots = Slots(*self._memory.allocate(self._names["slots"], slots))
        kept = self._memory.allocate(self._names["sums"], sums)
        self.sums = Sums(*kept, *self._memory.allocate(self._names["skylines"], skylines))
        self._clear()

    @property
    def image(self) -> LayerImage:
        queues = ([run.image for run in runs] for runs in (self._runs, self._waiting))
        return LayerImage(self._names, self._room, self._steps, *queues)

    def discard(self) -> None:
        for name in self._names.values():
            self._memory.discard(name)
        for run in (*self._runs, *self._waiting):
            run.discard()

    @property
    def clock(self) -> int:
        """Instants gone through."""
        return int(self.slots.control[CLOCK])

    @property
    def cells(self) -> int:
        return sum(len(run) for run in (*self._runs, *self._waiting))

    @property
    def nbytes(self) -> int:
        arrays = sum(a.nbytes for a in (*self.slots, *self.sums))
        return arrays + sum(run.nbytes for run in (*self._runs, *self._waiting))

    # -- groups ---------------------------------------------------------------------------------------------------

    def find(self, h1: Int64s, h2: Int64s) -> tuple[Int32s, Int64s]:
        """The slot of each key, and the places of the keys that are new, the first of each."""
        return self._find(h1, h2)

    def _grow(self) -> None:
        names, slots, sums = self._names, self.slots, self.sums
        self._room *= 2
        self._allocate()
        self._carry_over(slots)
        for was, now in zip(sums, self.sums, strict=True):
            now[: len(was)] = was
        for name in names.values():
            self._memory.discard(name)

    # -- cells ----------------------------------------------------------------------------------------------------

    def take(self, pairs: GroupedPairs) -> int:
        """Take in pairs that come after all instants so far; how many additions that took."""
        if not len(pairs.slot):
            return 0
        coming = self._coming_cells(pairs)
        self._waiting.append(TimeQueue.keep(self._memory, [coming.time, coming.anchor, coming.slot, *coming[3:]]))
        going = self._cells(pairs, pairs.anchor, pairs.window.astype(np.int64))
        np.add.at(self.slots.refs, going.slot, 1)
        self._append([going.anchor, going.slot, *going[3:6]])
        return 2 * len(pairs.slot)

    def _coming_cells(self, pairs: GroupedPairs) -> GroupedPairs:
        """In order of time; the anchor of what comes matters where skylines are kept."""
        return self._cells(pairs, pairs.time, pairs.anchor if self.shape.extremes else pairs.window.astype(np.int64))

    def _cells(self, pairs: GroupedPairs, first: Int64s, second: Int64s) -> GroupedPairs:
        """Pairs of the same slot, `first` and `second` as one, in order of `first`."""
        ids, at = number_cells(pairs.slot, first, second)
        shape, cells = self.shape, len(at)
        order = np.argsort(first[at], kind="stable")
        place = np.empty(cells, np.int64)
        place[order] = np.arange(cells)
        at = at[order]
        ints, doubles = np.zeros((cells, shape.ints), np.int64), np.zeros((cells, 2 * shape.doubles))
        keys, has = np.zeros((cells, shape.extremes), np.int64), np.zeros((cells, shape.extremes), bool)
        fill_cells(place[ids], pairs.ints, pairs.doubles, pairs.keys, pairs.has, ints, doubles, keys, has)
        return GroupedPairs(
            pairs.slot[at], pairs.time[at], pairs.anchor[at], pairs.window[at], ints, doubles, keys, has
        )

    def _append(self, run: Arrays) -> None:
        """Keep a run, merged with those before it that are not much larger: each cell is moved O(log n) times."""
        first = first_to_merge([len(known) for known in self._runs], len(run[0]))
        merged = self._runs[first:]
        if merged:
            joined = [np.concatenate(columns) for columns in zip(*(m.arrays for m in merged), run, strict=True)]
            order = np.argsort(joined[0], kind="stable")
            run = [column[order] for column in joined]
        for known in merged:
            known.discard()
        self._runs[first:] = [TimeQueue.keep(self._memory, run)]

    # -- through time ---------------------------------------------------------------------------------------------

    def events(self, since: int, until: int) -> list[Events]:
        """What comes and goes after `since`, up to `until`; each part in order of time."""
        return [self._coming(until), *self._going(since, until)]

    def _coming(self, until: int) -> Events:
        _, columns = self._cell_columns()
        time, anchor, slot, window, ints, doubles, keys, has = pass_all(self._waiting, until, columns)
        return Events(
            time, slot, window, np.full(len(time), len(self.shape.windows), np.int32), anchor, ints, doubles, keys, has
        )

    def _going(self, since: int, until: int) -> Iterator[Events]:
        for n, size in enumerate(self.shape.windows):
            for run in self._runs:
                anchor, slot, window, ints, doubles = run.arrays
                low, high = np.searchsorted(anchor, [since - size, until - size], side="right")
                chosen = low + np.flatnonzero(window[low:high] <= n)
                if len(chosen):
                    own, nothing = np.full(len(chosen), n, np.int32), (len(chosen), self.shape.extremes)
                    yield Events(
                        anchor[chosen] + size,
                        slot[chosen],
                        own,
                        own + np.int32(1),
                        anchor[chosen],
                        -ints[chosen],
                        -doubles[chosen],
                        np.zeros(nothing, np.int64),
                        np.zeros(nothing, bool),
                    )

    def adjustments(self, time: Int64s, window: Int32s, slot: Int32s, column: int, step: Int64s) -> Events:
        """Events that change one of the whole numbers."""
        shape, rows = self.shape, len(time)
        ints = np.zeros((rows, shape.ints), np.int64)
        ints[:, column] = step
        nothing = np.zeros((rows, shape.extremes), np.int64), np.zeros((rows, shape.extremes), bool)
        return Events(
            time, slot, window, window + np.int32(1), time, ints, np.zeros((rows, 2 * shape.doubles)), *nothing
        )

    def changes(self, events: Events, since: int) -> Out:
        """Go through the events; rows for each instant, slot and window touched, after one that says what was."""
        self._reserve(events)
        control, shape, parts = self.slots.control, self.shape, []
        base = self.clock + 1
        for start, stop, rows in blocks(events):
            out = self._out(rows)
            args = (shape.windows, shape.counts, since, base, self.sums, control, out)
            found = sweep_changes(events, start, stop, *args)
            parts.append(Out._make(a[:found] for a in out))
        return self._joined(parts)

    def ticks(self, events: Events, since: int, until: int, every: int, most: int) -> Out:
        """Go through the events; rows for each slot and window with pairs at each multiple of `every`.

        Stops when there are more than `most` rows, a block of them at the most.
        """
        self._reserve(events)
        shape, parts, found = self.shape, list[Out](), 0
        cursor = np.array([0, (since // every + 1) * every, 0], np.int64)
        done = False
        while not done and found <= most:
            out = self._out(max(BLOCK, len(self.shape.windows) * self._room))
            cursor[2] = 0
            args = (shape.windows, shape.counts, every, until, cursor, self.sums, self.slots.control, out)
            done = sweep_ticks(events, *args)
            parts.append(Out._make(a[: cursor[2]].copy() for a in out))
            found += int(cursor[2])
        return self._joined(parts)

    def presence(self, events: Events) -> tuple[Int64s, Int32s, Int32s, Int64s]:
        """Go through the events; when, in which window, for whom (`rows` of the slot) something came or went."""
        room = int((events.hi - events.lo).sum())
        time, step = np.zeros(room, np.int64), np.zeros(room, np.int64)
        window, owner = np.zeros(room, np.int32), np.zeros(room, np.int32)
        found = sweep_presence(events, self.sums, self.slots.rows, time, window, owner, step)
        return time[:found], window[:found], owner[:found], step[:found]

    def present(self) -> tuple[Int64s, Int64s]:
        """The slots and windows with pairs."""
        slots, windows = np.nonzero(self.sums.ints[: int(self.slots.control[USED]), :, 0] > 0)
        return slots.astype(np.int64), windows.astype(np.int64)

    def standing(self, since: int) -> Out:
        """The values at `since` of all slots with pairs, as rows that say what was before."""
        slots, windows = self.present()
        out = self._out(len(slots))
        write_standing(slots, windows, since, BEFORE, self.shape.windows, self.sums, out)
        return out

    def forget(self, until: int) -> None:
        """Let go of the cells that are gone from all windows."""
        gone = until - int(self.shape.windows[-1])
        for run in self._runs:
            drop_cells(self.slots, self.sums.spots, run.take(gone)[1].copy())
        leave_all(self._runs, gone)

    def keys(self, column: int) -> Int64s:
        """The keys that are kept of one of the skylines, and of what comes for it."""
        found = np.empty(int(count_steps(self.sums.spots, self.slots.control)), np.int64)
        end = gather_keys(self.sums.spots, self.sums.skylines, self.slots.control, column, found)
        return np.concatenate([found[:end], *(run.arrays[-2][:, column] for run in self._waiting)])

    def relabel(self, column: int, moved: Callable[[Int64s], Int64s]) -> None:
        """Replace all these keys by others in the same order."""
        old = np.unique(self.keys(column))
        replace_keys(self.sums.spots, self.sums.skylines, self.slots.control, column, old, moved(old))
        for run in self._waiting:
            keys = run.arrays[-2]
            keys[:, column] = moved(keys[:, column])

    def _out(self, rows: int) -> Out:
        shape = self.shape
        values = np.empty((rows, shape.ints), np.int64), np.empty((rows, 2 * shape.doubles))
        places = np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(rows, np.int64)
        return Out(*places, *values, np.empty((rows, shape.extremes), np.int64), np.empty((rows, shape.extremes), bool))

    def _joined(self, parts: list[Out]) -> Out:
        return Out._make(np.concatenate(columns) for columns in zip(self._out(0), *parts, strict=True))

    def _reserve(self, events: Events) -> None:
        """Room on the skylines for all that comes."""
        if not self.shape.extremes:
            return
        slots, more = np.unique(events.slot[events.has.any(axis=1)], return_counts=True)
        if not reserve(self.sums.spots, self.sums.skylines, self.slots.control, slots, more):
            steps = int(count_steps(self.sums.spots, self.slots.control))
            self._steps = 4 * (steps + self.shape.extremes * int(more.sum())) + FIRST_STEPS
            name = self._memory.name("skylines")
            (wider,) = self._memory.allocate(name, [((self._steps, self._step), "int64")])
            repack_skylines(self.sums.spots, self.sums.skylines, wider, self.slots.control)
            self._memory.discard(self._names["skylines"])
            self._names["skylines"], self.sums = name, self.sums._replace(skylines=wider)
            enough = reserve(self.sums.spots, self.sums.skylines, self.slots.control, slots, more)
            assert enough and self.slots.control[SKYLINES_END] <= self._steps


def in_order(parts: Sequence[Events]) -> Events:
    """All events in order of time."""
    joined = Events._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(joined.time, kind="stable")
    return Events._make(column[order] for column in joined)


def blocks(events: Events) -> Iterator[tuple[int, int, int]]:
    """Stretches of whole instants, with the rows that each can write at most."""
    if not len(events.time):
        return
    ends = np.append(np.flatnonzero(np.diff(events.time)) + 1, len(events.time))
    rows = np.cumsum(2 * (events.hi - events.lo).astype(np.int64))[ends - 1]
    cuts = [0, *(np.flatnonzero(np.diff(rows // BLOCK)) + 1), len(ends)]
    stops = [0, *(int(ends[cut - 1]) for cut in cuts[1:])]
    written = [0, *(int(rows[cut - 1]) for cut in cuts[1:])]
    for (start, stop), (low, high) in zip(pairwise(stops), pairwise(written), strict=True):
        yield start, stop, high - low
