"""One shared join over one shard: arrivals in, results in timestamp order and chunks to keep out.

What the state **is**, after each micro-batch, with R the release point, min over both streams of `max ts seen - lateness`:

    held[side]    rows that arrived on time with  ts > R: the other stream may still bring earlier ones
    joined[side]  rows with  R - reach < ts <= R, reach the side's largest window: later rows can still match them

Rows wait until both frontiers have passed them and are then joined in (ts, left first) order: hammad2005's Sync-Filter,
so that results leave in timestamp order and the join itself never sees disorder. A row is written to the durable log
once, when it arrives; that it moves from held to joined and out follows from R alone, so `restore` needs only the chunks
and R. Rows that no query wants are not stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.batch import CLASS, H1, H2, TS, Arrivals, Counters, stored_schema
from muntin.core.memory import Heap, Layout, Memory
from muntin.core.payload import Payload
from muntin.core.results import Found
from muntin.core.selection import Classes, Selections, slicing
from muntin.core.state import JoinState
from muntin.kernels.join import Pairs, Rows
from muntin.model import Side
from muntin.plan import SharedJoin

FOREVER = 1 << 62
"""Later than any event time; its negative is earlier than any."""
FRONTIER = "_frontier"


@dataclass
class Step:
    """What one micro-batch did to one shard."""

    run: Found
    late: tuple[pa.Table, pa.Table]
    """Late rows: payload and the frontier they missed."""
    puts: dict[str, pa.Table]
    deletes: list[str]
    counters: Counters
    span: tuple[int, int] | None
    """Event times between which the results of *all* shards of this micro-batch lie, both ends included."""


class _Held:
    """Rows of one chunk in time order, of which a prefix has been passed by the release point."""

    def __init__(self, memory: Memory, name: str, rows: Rows, start: int):
        self._memory, self._name, self._rows, self._start = memory, name, rows, start

    @classmethod
    def keep(cls, memory: Memory, rows: Rows) -> _Held:
        name = memory.name("held")
        arrays = memory.allocate(name, _held_layout(len(rows.ts)))
        for array, values in zip(arrays, rows, strict=True):
            array[:] = values
        return cls(memory, name, Rows(*arrays), 0)

    @classmethod
    def open(cls, memory: Memory, name: str, rows: int, start: int) -> _Held:
        return cls(memory, name, Rows(*memory.arrays(name, _held_layout(rows))), start)

    @property
    def image(self) -> tuple[str, int, int]:
        return self._name, len(self._rows.ts), self._start

    @property
    def left(self) -> int:
        """Rows that are still held."""
        return len(self._rows.ts) - self._start

    def pass_until(self, release: int) -> Rows:
        """The rows up to the release point; gives the memory back with the last of them."""
        start = self._start
        self._start += int(np.searchsorted(self._rows.ts[start:], release, side="right"))
        if not self.left:
            self._memory.discard(self._name)
        return Rows(*(a[start : self._start] for a in self._rows))


def _held_layout(rows: int) -> Layout:
    return [((rows,), kind.dtype.name) for kind in _TYPED_EMPTY]


class Operator:
    def __init__(self, join: SharedJoin, memory: Memory | None = None, image: Mapping[str, Any] | None = None):
        self.join = join
        self._memory = memory or Heap()
        self.selections = (Selections(join, Side.LEFT), Selections(join, Side.RIGHT))
        self.verdicts = Classes([q.residual for q in join.queries])
        for classes, known in zip((*self.selections, self.verdicts), image["classes"] if image else (), strict=False):
            classes.remember(known)
        self.state = JoinState(join, self.selections, "probe-insert", self._memory, image and image["state"])
        self.payload = tuple(
            Payload(stored_schema(join.streams[side]), self._memory, image["payload"][side] if image else ())
            for side in Side
        )
        self.counters = Counters()
        self.max_ts = [-FOREVER, -FOREVER]
        self.min_ts = FOREVER
        self.ended = [False, False]
        self.release = -FOREVER
        self._held: tuple[list[_Held], list[_Held]] = ([], [])
        self._next_row = [0, 0]
        self._chunks: dict[str, int] = {}
        if image:
            self._recall(image["meta"])
            for side in Side:
                self._held[side].extend(_Held.open(self._memory, *held) for held in image["held"][side])

    # -- one micro-batch ------------------------------------------------------------------------------------------

    def advance(self, arrivals: Arrivals) -> Step:
        """Take in a micro-batch, join what both streams have passed, forget what nobody can need."""
        late, puts = [], {}
        for side in Side:
            late.append(self._receive(side, arrivals.rows[side], puts))
        for side in Side:
            self._note_progress(side, arrivals)
        before, self.release = self.release, min(self.frontier(side) for side in Side)
        pairs = self.state.insert(self._ready(), self.counters, self._judge if self.verdicts.predicates else None)
        self.counters.pairs += len(pairs.ts)
        # Expiry touches the index only: the payload of the pairs just found is fetched before it is given back.
        for side in Side:
            self.state.forget(side, self.release - self.join.reach(side), self.counters)
        self._note_levels()
        deletes = self._expired_chunks()
        span = max(before, self.min_ts), min(self.release, max(self.max_ts))
        wants = (self.selections[0].wants, self.selections[1].wants, self.verdicts.wants)
        found = Found(self.join, self.payload, wants, pairs)
        return Step(found, (late[0], late[1]), puts, deletes, self.counters, span if span[0] <= span[1] else None)

    def frontier(self, side: Side) -> int:
        """No row older than this is accepted any more."""
        if self.ended[side]:
            return FOREVER
        return self.max_ts[side] - self.join.streams[side].lateness_us if self.max_ts[side] > -FOREVER else -FOREVER

    def _receive(self, side: Side, rows: pa.Table, puts: dict[str, pa.Table]) -> pa.Table:
        """Sort out late, keyless and unwanted rows, keep the others as one chunk; returns the late ones."""
        counters, frontier = self.counters, self.frontier(side)
        counters.arrived[side] += rows.num_rows
        is_late = pc.less(rows[TS], frontier)
        late = rows.filter(is_late)
        counters.late[side] += late.num_rows
        kept = rows.filter(pc.invert(is_late)) if late.num_rows else rows
        keyed = kept.filter(pc.is_valid(kept[H1])) if kept[H1].null_count else kept
        counters.null_key[side] += kept.num_rows - keyed.num_rows
        classes = self.selections[side].classify(keyed)
        wanted = self.selections[side].reach[classes] > 0
        counters.unwanted[side] += keyed.num_rows - int(wanted.sum())
        ts = keyed[TS].to_numpy()
        order = np.argsort(ts[wanted], kind="stable") if wanted.any() else np.zeros(0, np.int64)
        order = np.flatnonzero(wanted)[order]
        if len(order):
            table = keyed.take(pa.array(order)).combine_chunks()
            puts[self._keep(side, table, classes[order])] = table
        return late.drop_columns([TS, H1, H2]).append_column(FRONTIER, pa.array([frontier] * late.num_rows, pa.int64()))

    def _keep(self, side: Side, table: pa.Table, classes: np.ndarray) -> str:
        """Number the rows of a chunk and hold them back; returns the chunk's name."""
        base = self._next_row[side]
        name = f"{'lr'[side]}{base:016d}"
        self._next_row[side] += table.num_rows
        self._chunks[name] = int(table[TS][-1].as_py())
        self._hold(side, base, table, classes)
        return name

    def _hold(self, side: Side, base: int, table: pa.Table, classes: np.ndarray) -> None:
        stored = table.drop_columns([H1, H2]).add_column(1, CLASS, pa.array(classes))
        self.payload[side].add(base, stored)
        numbers = np.arange(base, base + table.num_rows, dtype=np.int64)
        ts, h1, h2 = (np.asarray(table[c]) for c in (TS, H1, H2))
        sides = np.full(len(ts), side, np.uint8)
        rows = Rows(sides, ts, ts, ts, h1, h2, classes, numbers, np.ones(len(ts), bool))
        self._held[side].append(_Held.keep(self._memory, rows))

    def _note_progress(self, side: Side, arrivals: Arrivals) -> None:
        low, high = arrivals.min_ts[side], arrivals.max_ts[side]
        if low is not None and high is not None:
            self.max_ts[side] = max(self.max_ts[side], high)
            self.min_ts = min(self.min_ts, low)
        self.ended[side] |= arrivals.ended[side]

    def _ready(self) -> Rows:
        """The held rows that the release point has passed, in (ts, left first, arrival) order; the others stay held."""
        ready = []
        for side in Side:
            ready += [run.pass_until(self.release) for run in self._held[side]]
            self._held[side][:] = [run for run in self._held[side] if run.left]
        joined = Rows(*(np.concatenate([_TYPED_EMPTY[i], *(r[i] for r in ready)]) for i in range(len(_TYPED_EMPTY))))
        order = np.argsort(joined.ts, kind="stable")
        return Rows(*(a[order] for a in joined))

    def _judge(self, pairs: Pairs) -> Pairs:
        """Evaluate the predicates over both sides; only pairs that some query wants go on."""
        table, wanted = {}, ~np.uint64(0)
        for side in Side:
            rows, places = self.payload[side].fetch(pairs.rows[side])
            classes = rows[CLASS].to_numpy()[places]
            wanted = wanted & self.selections[side].wants[classes]
            for name in self.verdicts.columns(side):
                table[side.prefix + name] = rows[name].take(pa.array(places))
        verdicts = self.verdicts.numbers(pa.table(table))
        readers = slicing(self.join, [s.wants for s in self.selections]).readers
        wanted &= self.verdicts.wants[verdicts] & readers[pairs.tag & 1, pairs.tag >> 1]
        kept = wanted.any(axis=1)
        return Pairs(pairs.rows[:, kept], pairs.ts[kept], pairs.tag[kept], verdicts[kept])

    def _expired_chunks(self) -> list[str]:
        """Chunks whose every row has left its window: nothing of them is needed again."""
        gone = []
        for side in Side:
            horizon = self.release - self.join.reach(side)
            gone += [name for name, last in self._chunks.items() if name[0] == "lr"[side] and last <= horizon]
        for name in gone:
            del self._chunks[name]
        return gone

    def _note_levels(self) -> None:
        self.counters.keys = self.state.keys
        for side in Side:
            self.counters.state_rows[side] = self.state.rows(side)
            self.counters.held_rows[side] = sum(run.left for run in self._held[side])

    # -- durability -----------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Give back the rows that no chunk needs any more; call once the results have been fetched."""
        for side in Side:
            live = [int(name[1:]) for name in self._chunks if name[0] == "lr"[side]]
            self.payload[side].forget(min(live, default=self._next_row[side]))

    def slice_rows(self, side: Side) -> list[int]:
        """Live rows per slice of one side, from young to old, as of the release point."""
        now = min(self.release, max(self.max_ts))
        older = [self.state.times[side].rows_until(now - s.lo) for s in self.join.slices(side)]
        return [a - b for a, b in zip(older, [*older[1:], 0], strict=True)]

    @property
    def meta(self) -> dict[str, Any]:
        """All that `restore` needs beside the chunks."""
        return {
            "max_ts": self.max_ts,
            "min_ts": self.min_ts,
            "ended": self.ended,
            "release": self.release,
            "next_row": self._next_row,
            "chunks": self._chunks,
            "counters": dataclasses.asdict(self.counters),
        }

    @property
    def image(self) -> dict[str, Any]:
        """All that another process needs, beside the memory, to go on from here."""
        return {
            "meta": self.meta,
            "state": self.state.image,
            "payload": [p.image for p in self.payload],
            "classes": [c.image for c in (*self.selections, self.verdicts)],
            "held": [[run.image for run in runs] for runs in self._held],
        }

    def _recall(self, meta: Mapping[str, Any]) -> None:
        self.max_ts, self.min_ts = list(meta["max_ts"]), meta["min_ts"]
        self.ended, self.release = list(meta["ended"]), meta["release"]
        self._next_row, self._chunks = list(meta["next_row"]), dict(meta["chunks"])
        self.counters = Counters(**meta["counters"])

    @classmethod
    def restore(
        cls, join: SharedJoin, meta: Mapping[str, Any], chunks: Mapping[str, pa.Table], memory: Memory | None = None
    ) -> Operator:
        """The operator that had this `meta` and these chunks."""
        self = cls(join, memory)
        self._recall(meta)
        for name in sorted(self._chunks):
            side, table = Side("lr".index(name[0])), chunks[name]
            self._hold(side, int(name[1:]), table, self.selections[side].classify(table))
        self.state.load(self._unexpired())
        return self

    def _unexpired(self) -> Rows:
        rows = self._ready()
        reach = np.array([self.join.reach(side) for side in Side], np.int64)
        live = rows.ts > self.release - reach[rows.side]
        return Rows(*(a[live] for a in rows))


_I64, _I32 = np.int64, np.int32
_TYPED_EMPTY = tuple(np.zeros(0, t) for t in (np.uint8, _I64, _I64, _I64, _I64, _I64, _I32, _I64, np.bool_))
