"""The promises of both sides by number: their chunks, their keys, and those that are not in force yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.batch import CLASS, H1, H2, TS
from muntin.core.punctuations.propagation import NewPromises, key_names, punctuation_schema
from muntin.core.punctuations.ranges import Keys
from muntin.core.punctuations.rules import PromiseRules
from muntin.core.storage import (
    ChunkKind,
    ChunkLog,
    Memory,
    QueueImage,
    StoredRows,
    TableImage,
    TimeQueue,
    flat,
    pass_all,
)
from muntin.kernels.arrays import Int64s
from muntin.kernels.promises import NONE
from muntin.model import Side

UNTIL, LAST, NUMBER = "_until", "_last", "_number"
HELD = flat(*("int64",) * 5)
PROMISED = (ChunkKind.UNIQUE, ChunkKind.MARKS, ChunkKind.SPELLED)
"""Kinds of chunks that hold promises, by number; those of one time come into force in this order."""


class Marks(NamedTuple):
    """Punctuations of one side: time, both halves of the key, number, until when they bind."""

    ts: Int64s
    h1: Int64s
    h2: Int64s
    number: Int64s
    until: Int64s


NO_MARKS = Marks(*(np.zeros(0, np.int64) for _ in Marks._fields))


@dataclass(frozen=True)
class LoggedPromises:
    """Promises of one side that were in force when they were logged, with the last row of each (NONE: unknown)."""

    kind: ChunkKind
    marks: Marks
    last: Int64s


@dataclass(frozen=True)
class PromiseLogMeta:
    """What is durable of the log beside its chunks: how many promises and how many lists have been numbered."""

    numbers: list[int] = field(default_factory=lambda: [0, 0])
    lists: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(frozen=True)
class PromiseLogImage:
    """What another process needs, beside `PromiseLogMeta` and the memory, to go on with the log."""

    keys: list[list[TableImage]]
    held: list[list[QueueImage]]


class PromiseLog:
    def __init__(self, rules: PromiseRules, memory: Memory, meta: PromiseLogMeta, image: PromiseLogImage | None = None):
        image = image or PromiseLogImage([[], []], [[], []])
        self._rules = rules
        self._memory = memory
        self._names = key_names(rules.join)
        columns = list(punctuation_schema(rules.join))[: len(self._names)]
        schema = pa.schema([pa.field(TS, pa.int64()), pa.field(CLASS, pa.int32()), *columns])
        self.keys = tuple(StoredRows(schema, memory, image.keys[side]) for side in Side)
        self.next_numbers: Int64s = np.array(meta.numbers, np.int64)
        self._lists = list(meta.lists)
        self._held = tuple([TimeQueue.open(memory, held, HELD) for held in image.held[side]] for side in Side)

    @property
    def meta(self) -> PromiseLogMeta:
        return PromiseLogMeta(self.next_numbers.tolist(), self._lists)

    @property
    def image(self) -> PromiseLogImage:
        held = [[queue.image for queue in queues] for queues in self._held]
        return PromiseLogImage([keys.image for keys in self.keys], held)

    @property
    def nbytes(self) -> int:
        return sum(keys.nbytes for keys in self.keys)

    def change(self, rules: PromiseRules) -> None:
        """Go on with other queries over the same streams and key."""
        self._rules = rules

    # -- promises in ----------------------------------------------------------------------------------------------

    def add(self, kind: ChunkKind, side: Side, columns: Sequence[Any], chunks: ChunkLog) -> Marks:
        """Number and log punctuations, given by time, key, until when they bind, and the key's values."""
        table = pa.table(columns, names=[TS, H1, H2, UNTIL, *self._names])
        base = int(self.next_numbers[side])
        self.next_numbers[side] += table.num_rows
        self._write(kind, side, base, table, chunks)
        return _marks(base, table)

    def _write(self, kind: ChunkKind, side: Side, base: int, table: pa.Table, chunks: ChunkLog) -> None:
        """Log promises and keep their keys in memory: they are needed while they bind or are pending."""
        self._remember(side, base, table)
        last = max(pc.max(table[UNTIL]).as_py(), pc.max(table[TS]).as_py() + self._rules.window(side))
        after = max(self._rules.window(s) for s in Side)  # one of the other side may come as long as this one binds
        chunks.write(kind, side, base, table, last + after)

    def _remember(self, side: Side, base: int, table: pa.Table) -> None:
        self.keys[side].add(base, table.select([TS, *self._names]), np.zeros(table.num_rows, np.int32))

    def hold(self, side: Side, marks: Marks) -> None:
        """Let punctuations wait until the join has come past them."""
        self._held[side].append(TimeQueue.keep(self._memory, marks))

    def add_unique(self, side: Side, new: NewPromises, keys: Sequence[pa.ChunkedArray], chunks: ChunkLog) -> None:
        """Log promises that unique rows made, with the values of their keys."""
        columns = [pa.array(column) for column in (new.tp, new.h1, new.h2, new.until, new.last)]
        table = pa.table([*columns, *keys], names=[TS, H1, H2, UNTIL, LAST, *self._names])
        self._write(ChunkKind.UNIQUE, side, int(new.number[0]), table, chunks)

    def add_last_rows(self, side: Side, new: NewPromises, chunks: ChunkLog) -> None:
        """Log the last rows before punctuations that have come into force."""
        table = pa.table({NUMBER: new.number, LAST: new.last})
        last = int(new.tp.max()) + self._rules.window(side)
        chunks.write(ChunkKind.LAST, side, self.next_list(side), table, last)

    def next_list(self, side: Side) -> int:
        """A number for a chunk whose contents have no numbers of their own."""
        self._lists[side] += 1
        return self._lists[side]

    # -- promises out ---------------------------------------------------------------------------------------------

    def held_keys(self, side: Side, release: int) -> Keys:
        """The keys of punctuations of a side that are about to come into force."""
        held = [Marks(*queue.peek(release - 1)) for queue in self._held[side]]
        marks = Marks._make(np.concatenate(columns) for columns in zip(NO_MARKS, *held, strict=True))
        found, places = self.keys[side].fetch(marks.number)
        return [found[name].take(pa.array(places)) for name in self._names], marks.h1, marks.h2

    def pass_held(self, side: Side, release: int) -> Marks:
        """The punctuations that come into force when the join has come to a release point."""
        return Marks(*pass_all(self._held[side], release - 1, HELD))

    def forget(self, side: Side, chunks: ChunkLog) -> None:
        """Give back the keys that no chunk needs."""
        bases = [base for kind, s, base, _ in chunks if s is side and kind in PROMISED]
        self.keys[side].forget({0: min(bases)} if bases else {})

    def restore(self, chunks: ChunkLog, tables: Mapping[str, pa.Table], release: int) -> list[list[LoggedPromises]]:
        """Keys into memory again; punctuations that are not in force yet are held, the others returned by side.

        Those of one time are in the order in which they came into force: the first of a key is the one that counts.
        """
        last_rows: list[dict[int, int]] = [{}, {}]
        found: list[list[LoggedPromises]] = [[], []]
        for kind, side, _, name in chunks:
            if kind is ChunkKind.LAST:
                columns = (tables[name][c].to_pylist() for c in (NUMBER, LAST))
                last_rows[side].update(zip(*columns, strict=True))
        promised = [(PROMISED.index(kind), base, side, name) for kind, side, base, name in chunks if kind in PROMISED]
        for n, base, side, name in sorted(promised):
            found[side].append(self._recover(PROMISED[n], side, base, tables[name], last_rows[side], release))
        return found

    def _recover(
        self, kind: ChunkKind, side: Side, base: int, table: pa.Table, last_rows: Mapping[int, int], release: int
    ) -> LoggedPromises:
        self._remember(side, base, table)
        marks, in_force = _marks(base, table), table.num_rows
        if kind is ChunkKind.MARKS:
            in_force = int(np.searchsorted(marks.ts, release, side="left"))
            if in_force < table.num_rows:
                self.hold(side, Marks._make(column[in_force:] for column in marks))
        marks = Marks._make(column[:in_force] for column in marks)
        last = np.array([last_rows.get(n, NONE) for n in marks.number.tolist()], np.int64)
        if kind is ChunkKind.UNIQUE:
            last = table[LAST].to_numpy()
        elif kind is ChunkKind.SPELLED:
            marks = marks._replace(number=np.where(last == NONE, -2 - marks.number, marks.number))
        return LoggedPromises(kind, marks, last)


def _marks(base: int, table: pa.Table) -> Marks:
    ts, h1, h2, until = (table[c].to_numpy() for c in (TS, H1, H2, UNTIL))
    return Marks(ts, h1, h2, np.arange(base, base + table.num_rows), until)
