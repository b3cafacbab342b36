"""What the queries of a join ask of the matches of a row, as bits of queries."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from muntin.core.matches.own_departures import OwnEmission
from muntin.core.selections import Classes, query_bits
from muntin.kernels.arrays import Int64s, UInt64s
from muntin.model import JoinKind, Query, Side
from muntin.plan import SharedJoin


class MatchNeeds:
    def __init__(self, join: SharedJoin):
        self.words = -(-len(join.queries) // 64) if any(not q.is_inner for q in join.queries) else 0
        """Words of bits that are kept of each row; 0 where no query asks for its matches."""
        self.names = [q.name for q in join.queries]
        queries, self._count = join.queries, len(join.queries)
        self.anti = self._bits([q.kind is JoinKind.ANTI for q in queries])
        self.once, self.latest, self.preserved, self.emitted = [], [], [], []
        self.emitted_at_own_ends: list[list[OwnEmission]] = []
        for side in Side:
            self.once.append(self._bits([q.kind is JoinKind.SEMI and q.subject is side for q in queries]))
            self.latest.append(self._bits([q.kind is JoinKind.ASOF and q.subject is side for q in queries]))
            self.preserved.append(self._bits([side in q.preserved for q in queries]))
            own = [q.emitted_at_own_end(side) for q in queries]
            by_age = [
                None if mine or side not in q.preserved else q.emitted_after(side)
                for q, mine in zip(queries, own, strict=True)
            ]
            ages = sorted({age for age in by_age if age is not None})
            self.emitted.append([(age, self._bits([mine == age for mine in by_age])) for age in ages])
            self.emitted_at_own_ends.append(self._own_emissions(join, side))
        self.tracked = [self.once[side] | self.preserved[side] for side in Side]
        self.reach = max((q.window.side(side) for q in queries if not q.is_inner for side in Side), default=0)
        """How long something may be asked of a row at most."""
        self.after = Classes([q.after for q in queries], len(queries))
        """What queries ask of the rows that would go out."""

    def _own_emissions(self, join: SharedJoin, side: Side) -> list[OwnEmission]:
        """The queries that emit rows of a side at the ends of windows of their own, those alike together."""
        numbers = [pair[side] if q.emitted_at_own_end(side) else -1 for q, pair in self._with_times(join)]
        alike = dict.fromkeys((n, q.window.side(side)) for n, q in zip(numbers, join.queries, strict=True) if n >= 0)
        return [
            OwnEmission(
                join.own_windows.untils[side][number].sql,
                number,
                window,
                self._bits(
                    [n == number and q.window.side(side) == window for n, q in zip(numbers, join.queries, strict=True)]
                ),
            )
            for number, window in alike
        ]

    @staticmethod
    def _with_times(join: SharedJoin) -> Iterable[tuple[Query, tuple[int, int]]]:
        return zip(join.queries, join.own_windows.of_query, strict=True)

    def _bits(self, flags: list[bool]) -> UInt64s:
        return query_bits(np.array([flags], bool).reshape(1, self._count))[0]

    def last_ages(self, side: Side, wants: UInt64s) -> Int64s:
        """For each class of rows of a side the last age at which some query may have to emit one; -1: never."""
        last = np.full(len(wants), -1, np.int64)
        for age, queries in self.emitted[side]:
            last[(wants & queries).any(axis=1)] = age
        return last

    def longest(self, side: Side) -> int:
        """The age after which no row of a side is emitted any more."""
        return max((age for age, _ in self.emitted[side]), default=0)

    def moved(self, old: MatchNeeds, new: set[str], bits: UInt64s) -> UInt64s:
        """Bits of the queries before as bits of these; of the queries that are new, nothing is known."""
        found = np.zeros((len(bits), self.words), np.uint64)
        places = {name: n for n, name in enumerate(old.names) if name not in new} if old.words else {}
        for n, name in enumerate(self.names if self.words else ()):
            if (was := places.get(name)) is not None:
                flag = bits[:, was // 64] >> np.uint64(was % 64) & np.uint64(1)
                found[:, n // 64] |= flag << np.uint64(n % 64)
        return found
