"""Numbers for values that are not numbers: a value that comes later in the order has a greater one.

A *label* is a whole number that stands for octets (`kernels.order`): whoever keeps labels compares values without
having them. New values get labels between those of their neighbours. Where there is no room between two, all labels are
spread out again, and whoever keeps some gets to know which have become which.

Values lie in tables that are merged when they are of similar size; in each, labels and octets ascend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.core.storage import Memory, first_to_merge
from muntin.kernels.arrays import Int64s
from muntin.kernels.order import places

LABEL, OCTETS = "_label", "_octets"
LOWEST, HIGHEST = -(1 << 61), 1 << 61
STEP = 1 << 32
"""How far from its neighbour a label is where there is room enough."""
SPARE = 1024


class MovedLabels(NamedTuple):
    """Labels that have changed, ascending, and what they are now."""

    old: Int64s
    new: Int64s

    def now(self, labels: Int64s) -> Int64s:
        """What these have become; whatever for a number that was no label."""
        return self.new[np.minimum(np.searchsorted(self.old, labels), len(self.new) - 1)]


@dataclass(frozen=True)
class LabelsImage:
    """What another process needs, beside the memory, to go on with labels; by default, nothing has any."""

    names: list[str] = field(default_factory=list)
    kept: int = 0


class Labels:
    """The values of one order, each with columns that come with it."""

    def __init__(self, fields: Sequence[pa.Field], memory: Memory, image: LabelsImage | None = None):
        self._schema = pa.schema([pa.field(LABEL, pa.int64()), pa.field(OCTETS, pa.large_binary()), *fields])
        self._memory = memory
        image = image or LabelsImage()
        self._tables = [(name, memory.table(name)) for name in image.names]
        self._kept = image.kept

    @property
    def image(self) -> LabelsImage:
        return LabelsImage([name for name, _ in self._tables], self._kept)

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for _, table in self._tables)

    def __len__(self) -> int:
        return sum(table.num_rows for _, table in self._tables)

    def discard(self) -> None:
        for name, _ in self._tables:
            self._memory.discard(name)
        self._tables = []

    def add(self, octets: pa.Array, columns: Sequence[pa.ChunkedArray]) -> tuple[Int64s, MovedLabels | None]:
        """The label of each value, none being NULL, and which labels have changed for that."""
        if not len(octets):
            return np.zeros(0, np.int64), None
        encoded = octets.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary)
        ordered, codes = encoded.dictionary.take(order), encoded.indices.to_numpy()
        labels, below, above = (np.full(len(ordered), limit, np.int64) for limit in (0, LOWEST, HIGHEST))
        known = np.zeros(len(ordered), bool)
        for _, table in self._tables:
            at, same = places(table[OCTETS], ordered)
            padded = np.concatenate([[LOWEST], table[LABEL].to_numpy(), [HIGHEST]])
            below, above = np.maximum(below, padded[at]), np.minimum(above, padded[at + 1])
            labels = np.where(same, padded[at + 1], labels)
            known |= same
        new, moved = np.flatnonzero(~known), None
        if len(new):
            given = _between(below[new], above[new])
            if given is None:
                moved = self._spread()
                return self.add(octets, columns)[0], moved
            labels[new] = given
            first = np.zeros(len(ordered), np.int64)
            first[codes[::-1]] = np.arange(len(codes))[::-1]
            at = pa.array(first[order.to_numpy()[new]])
            parts = [pa.array(given), ordered.take(pa.array(new)), *(column.take(at) for column in columns)]
            self._append(pa.table(parts, schema=self._schema))
        place = np.empty(len(ordered), np.int64)
        place[order.to_numpy()] = np.arange(len(ordered))
        return labels[place[codes]], moved

    def _append(self, table: pa.Table) -> None:
        first = first_to_merge([known.num_rows for _, known in self._tables], table.num_rows)
        merged = self._tables[first:]
        if merged:
            table = _in_order(pa.concat_tables([*(known for _, known in merged), table]))
        for name, _ in merged:
            self._memory.discard(name)
        name = self._memory.name("labels")
        self._tables[first:] = [(name, self._memory.keep(name, table.combine_chunks()))]

    def _spread(self) -> MovedLabels:
        """Let there be room between all labels."""
        table = _in_order(pa.concat_tables([table for _, table in self._tables]))
        count = table.num_rows
        moved = MovedLabels(
            table[LABEL].to_numpy(), (np.arange(count) - count // 2) * min(STEP, HIGHEST // (count + 1))
        )
        self.discard()
        self._append(table.set_column(0, self._schema.field(0), pa.array(moved.new)))
        return moved

    def take(self, labels: Int64s) -> pa.Table:
        """The values of these labels, with what comes with them."""
        found = self.among(labels)
        return found.take(pa.array(np.searchsorted(found[LABEL].to_numpy(), labels)))

    def among(self, labels: Int64s) -> pa.Table:
        """The values of these labels, each once, in order."""
        wanted, parts = np.sort(labels), [self._schema.empty_table()]
        wanted = wanted[np.diff(wanted, prepend=LOWEST) != 0]
        for _, table in self._tables:
            own = table[LABEL].to_numpy()
            at = np.searchsorted(own, wanted)
            at = at[(at < len(own)) & (own[np.minimum(at, len(own) - 1)] == wanted)]
            parts.append(table.take(pa.array(at)))
        return _in_order(pa.concat_tables(parts))

    def settle(self, used: Callable[[], Int64s]) -> None:
        """Let go of values whose labels nobody keeps, once they may be the larger part."""
        if len(self) <= 2 * self._kept + SPARE:
            return
        kept = self.among(used())
        self.discard()
        self._kept = kept.num_rows
        if self._kept:
            self._append(kept)


def _in_order(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.argsort(table[LABEL].to_numpy(), kind="stable")))


def _between(below: Int64s, above: Int64s) -> Int64s | None:
    """Labels for values in order, each after one label and before another; None where they have no room."""
    begins = np.flatnonzero(np.concatenate([[True], below[1:] != below[:-1]]))
    counts = np.diff(np.append(begins, len(below)))
    rank = np.arange(1, len(below) + 1) - np.repeat(begins, counts)
    last = np.repeat(counts, counts) + 1
    step = (above - below) // last
    if not step.all():
        return None
    short, at_end, at_start = np.minimum(step, STEP), above == HIGHEST, below == LOWEST
    inside = below + rank * step
    outside = np.where(at_start, 0, below) + rank * short
    return np.where(at_end, outside, np.where(at_start, above - (last - rank) * short, inside))
