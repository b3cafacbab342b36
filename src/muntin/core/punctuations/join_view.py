"""What promises read of the join that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.core.aggregates import Finals
from muntin.core.join import JoinState
from muntin.core.matches import Matches
from muntin.core.selections import Selections, own_windows, per_class
from muntin.core.storage import StoredRows, distinct
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.chains import last_before, last_rows, list_rows
from muntin.kernels.join import Rows
from muntin.kernels.promises import NONE, count_rows
from muntin.model import Query, Side
from muntin.plan import SharedJoin
from muntin.plan.own_windows import NONE as NO_TIME


@dataclass(frozen=True)
class JoinView:
    """The rows of a join and what its queries keep of them, at one release point."""

    join: SharedJoin
    state: JoinState
    payload: tuple[StoredRows, ...]
    selections: tuple[Selections, Selections]
    finals: Finals
    matches: Matches
    release: int
    frontier: int
    """What both streams have come to; results leave up to here, or where ties must be complete, up to just before."""

    @property
    def retentions(self) -> Int64s:
        """For how long rows of each class of each side stay."""
        return per_class(self.selections[0].retention, self.selections[1].retention)

    @property
    def wanted(self) -> Bools:
        """Whether some query wants rows of each class of each side."""
        left, right = (selections.wanted.astype(np.int64) for selections in self.selections)
        return per_class(left, right) > 0

    def last_rows(
        self,
        side: Side,
        h1: Int64s,
        h2: Int64s,
        until: Int64s,
        joining: Rows | None = None,
        heeded: Bools | None = None,
    ) -> Int64s:
        """For each family of groups that are final once, the last rows that it wants with keys, not after a time each.

        They are those of the state, and of the rows that are `joining` it as far as they are `heeded`.
        """
        found = np.full((len(self.finals.states), len(h1)), NONE)
        if not found.size:
            return found
        mine = np.zeros(0, np.int64) if joining is None else np.flatnonzero((joining.side == side) & heeded)
        for n, classes in enumerate(self.finals.wanted(self.join, side, self.selections[side].wants)):
            query = self.finals.states[n].family.first
            number = self.join.own_windows.of_query[[q.name for q in self.join.queries].index(query.name)][side]
            if number == NO_TIME:
                last_rows(self.state.index, int(side), h1, h2, until, classes, found[n])
            else:
                self._find_ends(side, query, number, (h1, h2, until), classes, found[n])
            if joining is not None:
                own = mine[classes[joining.cls[mine]]]
                ts, last = joining.ts[own], joining.ts[own]
                if number != NO_TIME:
                    last = self._as_last(side, query, number, joining.row[own])
                last_before(joining.h1[own], joining.h2[own], ts, last, h1, h2, until, found[n])
        return found

    def _find_ends(
        self,
        side: Side,
        query: Query,
        number: int,
        keys: tuple[Int64s, Int64s, Int64s],
        classes: Bools,
        found: Int64s,
    ) -> None:
        """The same where rows wait until times of their own: not the last one counts, but the last end of any."""
        rows = count_rows(self.state.index, int(side), *keys[:2])
        numbers, times, by = (np.zeros(rows, np.int64) for _ in range(3))
        count = list_rows(self.state.index, int(side), *keys, classes, numbers, times, by)
        np.maximum.at(found, by[:count], self._as_last(side, query, number, numbers[:count]))

    def _as_last(self, side: Side, query: Query, number: int, numbers: Int64s) -> Int64s:
        """The times of rows that would leave the query's window when these leave theirs."""
        rows, places = distinct(numbers)
        times, window = self.payload[side].times_of(rows), query.window.side(side)
        return (times[:, 0] + own_windows(window, times, number) - window)[places]
