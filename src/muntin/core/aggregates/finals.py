"""EMIT FINAL: groups of a join key whose values go out once, when they can get no more pairs (semantics, section 7).

Unlike live pairs, those of a group's whole life cannot be found again from the rows that the join keeps. So their
totals are durable (`durable_totals.py`), and rows may be freed by promises: nobody needs them for the totals.

A query that comes begins without pairs, in a family of its own (`final_state.py`); when one goes, the others of its
family go on with the same log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.core.aggregates.final_state import FinalState, FinalStateImage, FinalStateMeta, Keys
from muntin.core.aggregates.groups import GroupValues, WantedPairs
from muntin.core.aggregates.key_ends import KeyEnds
from muntin.core.arrivals import key_columns
from muntin.core.batch import Counters
from muntin.core.results import OutputColumns, ResultBatch
from muntin.core.selections import everybody, query_flags
from muntin.core.storage import ChunkKind, ChunkLog, Memory
from muntin.kernels.arrays import Bools, Int64s, UInt64s
from muntin.kernels.hashing import hash_keys
from muntin.model import Side
from muntin.plan import SharedJoin
from muntin.plan.families import Family, final_families

NO_NUMBERS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class FinalsMeta:
    """What is durable beside the chunks: the number of the next chunk, and each family; by default, of no family."""

    next: int = 0
    states: list[FinalStateMeta] = field(default_factory=list)


@dataclass(frozen=True)
class FinalsImage:
    """What another process needs, beside the memory, to go on."""

    next: int
    states: list[FinalStateImage]


class Finals:
    """All families of a join with EMIT FINAL."""

    def __init__(self, join: SharedJoin, memory: Memory, image: FinalsImage | None = None):
        self._memory = memory
        self._obsolete: list[str] = []
        self._next = image.next if image else 0
        if image is None:
            found = final_families(q for q in join.queries if q.final)
            self.states = [FinalState(join, family, memory) for family in found]
        else:
            self.states = [FinalState(join, _family(join, part.queries), memory, part) for part in image.states]

    def __bool__(self) -> bool:
        return bool(self.states)

    @property
    def image(self) -> FinalsImage:
        return FinalsImage(self._next, [state.image for state in self.states])

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for state in self.states)

    @property
    def groups(self) -> int:
        return sum(state.groups.live for state in self.states)

    def change(self, join: SharedJoin, new: Mapping[str, Any]) -> None:
        """Go on with other queries; those that are `new` begin without pairs, each on its own.

        Each on its own: promises of the time before may bind for a shorter time than its window.
        """
        states, there = [], {q.name for q in join.queries}
        for state in self.states:
            names = [q.name for q in state.family.queries]
            stay = [name for name in names if name not in new and name in there]
            if not stay:
                self._obsolete += state.discard()
            elif stay == names:
                state.join, state.family = join, _family(join, stay)
                states.append(state)
            else:
                narrowed, obsolete = state.narrowed(join, _family(join, stay))
                self._obsolete += obsolete
                states.append(narrowed)
        begun = [q for q in join.queries if q.final and q.name in new]
        self.states = states + [FinalState(join, family, self._memory) for q in begun for family in final_families([q])]

    def open_keys(self) -> list[tuple[list[pa.ChunkedArray], Int64s, Int64s]]:
        """For each family the keys of groups that are not final yet: values column by column, and both halves."""
        return [state.open_keys() for state in self.states]

    def wanted(self, join: SharedJoin, side: Side, wants: UInt64s) -> list[Bools]:
        """For each family, which classes of rows of a side it wants; `wants` are the queries of each class, as bits."""
        flags = query_flags(wants, len(join.queries)).astype(bool)
        numbers = {q.name: n for n, q in enumerate(join.queries)}
        return [np.ascontiguousarray(flags[:, numbers[state.family.first.name]]) for state in self.states]

    def advance(
        self, batch: ResultBatch, settled: bool, ends: Sequence[KeyEnds], end: int | None, counters: Counters
    ) -> list[GroupValues]:
        """Take in pairs; the values of the groups that are over, of all where the streams have come to their `end`.

        Inner joins take the pairs that were found, the others what is `settled`: who has a match, and who has none.
        """
        taking = [of for of in zip(self.states, ends, strict=True) if of[0].family.first.is_inner != settled]
        if not taking:
            return []
        columns, found = OutputColumns(batch), dict[str, list[pa.Table]]()
        wanted, keys = (WantedPairs(batch), _keys(batch)) if len(batch) else (None, (NO_NUMBERS, NO_NUMBERS))
        for state, own in taking:
            query = state.family.first
            choose = wanted and (wanted.routed if state.family.is_routed else wanted.places)
            chosen = choose(query) if choose else NO_NUMBERS
            for values in state.advance(columns, chosen, keys, own, end, counters):
                found.setdefault(values.query, []).append(values.table)
        return [GroupValues(name, pa.concat_tables(tables)) for name, tables in found.items()]

    @property
    def wait_for_matches(self) -> bool:
        """Whether some queries look at what is settled."""
        return any(not state.family.first.is_inner for state in self.states)

    # -- durability -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> FinalsMeta:
        return FinalsMeta(self._next, [state.meta for state in self.states])

    def log(self, chunks: ChunkLog) -> None:
        """Write what has changed, and remove the chunks that are needed no more."""
        obsolete, self._obsolete = self._obsolete, []
        for state in self.states:
            for log, render in state.logs:
                obsolete += log.log(chunks, self._next, render)
                self._next += 1
        chunks.remove(obsolete)

    def restore(self, join: SharedJoin, meta: FinalsMeta, chunks: ChunkLog, tables: Mapping[str, Any]) -> None:
        """Everything again from the chunks; those that belong to nobody go with the next micro-batch."""
        self._next = meta.next
        self.states = []
        for part in meta.states:
            state = FinalState(join, _family(join, part.queries), self._memory)
            state.restore(part, tables)
            self.states.append(state)
        known = {segment.name for state in self.states for log, _ in state.logs for segment in log.segments}
        self._obsolete = [name for kind, _, _, name in chunks if kind is ChunkKind.TOTALS and name not in known]


def _keys(batch: ResultBatch) -> Keys:
    """The join key of each pair as 128 bits: that of its left row, or of the right one that has no partner."""
    h1, h2 = _row_keys(batch, Side.LEFT)
    alone = batch.tags == 2 * everybody(batch.join) + Side.RIGHT
    if alone.any():
        r1, r2 = _row_keys(batch, Side.RIGHT)
        return np.where(alone, r1, h1), np.where(alone, r2, h2)
    return h1, h2


def _row_keys(batch: ResultBatch, side: Side) -> Keys:
    """Of each pair the join key of its row of a side; one without a key has one that nobody else has."""
    h1, h2, valid = hash_keys(key_columns(batch.join, side, batch.rows[side]))
    at = batch.pairs[side]
    return np.where(valid, h1, side + 1)[at], np.where(valid, h2, side + 1)[at]


def _family(join: SharedJoin, names: Sequence[str]) -> Family:
    (family,) = final_families(q for q in join.queries if q.name in names)
    return family
