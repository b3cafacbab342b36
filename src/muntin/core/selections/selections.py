"""The selections of one side of a shared join, evaluated once for each row that arrives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from muntin.core.selections.classes import Classes, named
from muntin.core.selections.own_windows import own_windows
from muntin.kernels.arrays import Bools, Int32s, Int64s
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.own_windows import NONE
from muntin.plan.punctuation import leave_at_own_ends

TALLIED = 256
"""Classes whose rows are remembered over a restart, the most frequent ones: they are for estimates only."""


class ClassTally(NamedTuple):
    """How many rows of a class have arrived; the class is named by the predicates that hold, as hexadecimal bits."""

    name: str
    rows: int


class Selections(Classes):
    """The selections of a shared join on one side: which queries want a row, how far it probes, how long it stays."""

    def __init__(self, join: SharedJoin, side: Side):
        self.side = side
        self._selects = join.selects
        self._own = np.array([q.window.side(side) for q in join.queries], np.int64)
        self._theirs = np.array([q.window.side(side.other) for q in join.queries], np.int64)
        self._begins = np.array([q.window.starts[side.other] for q in join.queries], np.int64)
        self._ends = np.array(join.cuts[side], np.int64)
        leave = leave_at_own_ends(join, side)
        self._untils = np.array([n[side] if leave else NONE for n in join.own_windows.of_query], np.int64)
        self._times = len(join.own_windows.untils[side]) if leave else 0
        partition = join.partitions[side]
        self._truths = None if partition is None else np.array(partition.truths, bool)
        self.wanted: Bools = np.zeros(0, bool)
        """Per class: whether some query wants its rows."""
        self.reach: Int64s = np.zeros(0, np.int64)
        """Per class: the age of a partner on the other side from which no query wants the pair."""
        self.begin: Int64s = np.zeros(0, np.int64)
        """Per class: the age of a partner on the other side up to which no query wants the pair."""
        self.retention: Int64s = np.zeros(0, np.int64)
        """Per class: the age at which its rows leave the state, the end of a slice; 0 where they do not enter it."""
        self._longest: Int64s = np.zeros((0, 1 + self._times), np.int64)
        """Per class: the largest window of the queries that want its rows and name no time of their own, and of those
        that name each of these times."""
        self.rows: Int64s = np.zeros(0, np.int64)
        """Per class: how many rows have arrived."""
        self._schema = join.streams[side].schema
        wheres = [q.where[side] for q in join.queries] if partition is None else partition.predicates
        super().__init__(wheres, len(join.queries), self._schema, side.prefix)

    def classify(self, rows: pa.Table) -> Int32s:
        """The class of each row of the side."""
        return self.numbers(named(rows, self.columns(self.side), self._prefix))

    def count(self, classes: Int32s) -> None:
        """Count rows that have arrived."""
        self.rows += np.bincount(classes, minlength=len(self.rows))

    @property
    def tally(self) -> list[ClassTally]:
        """The most frequent classes by name, with the rows that have arrived."""
        names, top = self.image, np.argsort(-self.rows, kind="stable")[:TALLIED]
        return [ClassTally(names[n], int(self.rows[n])) for n in np.sort(top)]

    def recall(self, tally: Sequence[tuple[str, int]]) -> None:
        """Go on counting from a tally."""
        if tally:
            numbers = self._learn(self._unpacked([name for name, _ in tally]))
            self.rows[:] = 0
            np.add.at(self.rows, numbers, [rows for _, rows in tally])

    def adopt(self, old: Selections) -> list[int]:
        """Take over the classes of the queries before, with their numbers; which of the predicates are new.

        Classes say nothing of new predicates: they count as not true, until the rows are evaluated (`refined`).
        """
        numbers = {p.sql: n for n, p in enumerate(old.predicates)}
        columns = [numbers.get(p.sql, -1) for p in self.predicates]
        known = np.concatenate([old.holds, np.zeros((len(old.holds), 1), bool)], axis=1)
        self._classes.clear()
        self.holds = self.holds[:0]
        self.wants = self.wants[:0]
        self.retention = self.retention[:0]
        self.wanted = self.wanted[:0]
        self.reach = self.reach[:0]
        self.begin = self.begin[:0]
        self._longest = self._longest[:0]
        self.rows = self.rows[:0]
        self._append(known[:, columns])
        self.rows[:] = old.rows
        if not len(self.holds) and not self.predicates:
            self._learn(np.ones((1, 0), bool))
        return [n for n, column in enumerate(columns) if column < 0]

    def refined(self, new: Sequence[int]) -> Callable[[pa.Table, Int32s], Int32s]:
        """The classes of rows that were classified before some of the predicates were there."""
        added = Classes([self.predicates[n] for n in new], len(new), self._schema, self._prefix)

        def becomes(rows: pa.Table, classes: Int32s) -> Int32s:
            outcomes = added.numbers(named(rows, added.columns(self.side), self._prefix))
            found, inverse = np.unique(classes * np.int64(len(added.holds)) + outcomes, return_inverse=True)
            holds = self.holds[found // len(added.holds)]
            holds[:, new] = added.holds[found % len(added.holds)]
            return self._learn(holds)[inverse.ravel()]

        return becomes

    @property
    def has_own_windows(self) -> bool:
        """Whether rows may leave before others of their class, at times of their own."""
        return self._times > 0

    def stays(self, classes: Int32s | Int64s, times: Int64s) -> Int64s:
        """The ages at which rows leave the state: as their class says, or before, where all that want one let it go.

        `times` are those of the rows (core/selections/own_windows.py).
        """
        retention = self.retention[classes]
        if not self._times:
            return retention
        longest = self._longest[classes]
        stays = longest[:, 0]
        for number in range(self._times):
            stays = np.maximum(stays, own_windows(longest[:, 1 + number], times, number))
        return np.where(stays < longest.max(axis=1), stays, retention)

    @property
    def last_slices(self) -> Int64s:
        """Per class: the slice with whose end its rows leave."""
        return np.searchsorted(self._ends, self.retention)

    def _wanted(self, holds: Bools) -> Bools:
        if self._truths is None:
            return super()._wanted(holds)
        return np.repeat((holds == self._truths).all(axis=1)[:, None], len(self._own), axis=1)

    def _extend(self, flags: Bools) -> None:
        super()._extend(flags)
        stored = flags if self._selects else np.ones_like(flags)
        longest = np.where(stored, self._own, 0).max(axis=1)
        kept = np.where(longest > 0, self._ends[np.searchsorted(self._ends, longest).clip(max=len(self._ends) - 1)], 0)
        self.retention = np.concatenate([self.retention, kept])
        self.wanted = np.concatenate([self.wanted, stored.any(axis=1)])
        self.reach = np.concatenate([self.reach, np.where(stored, self._theirs, 0).max(axis=1)])
        begin = np.where(stored & (self._begins < self._theirs), self._begins, np.iinfo(np.int64).max).min(axis=1)
        self.begin = np.concatenate([self.begin, np.minimum(begin, self.reach[-len(flags) :])])
        by = [np.where(stored & (self._untils == n), self._own, 0).max(axis=1) for n in range(-1, self._times)]
        self._longest = np.concatenate([self._longest, np.stack(by, axis=1)])
        self.rows = np.concatenate([self.rows, np.zeros(len(flags), np.int64)])
