"""What promises read of the join that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muntin.core.aggregates import Finals
from muntin.core.join import JoinState
from muntin.core.matches import Matches
from muntin.core.selections import Selections, per_class
from muntin.core.storage import StoredRows
from muntin.kernels.arrays import Bools, Int64s
from muntin.kernels.chains import last_before, last_rows
from muntin.kernels.join import Rows
from muntin.kernels.promises import NONE
from muntin.model import Side
from muntin.plan import SharedJoin


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
            last_rows(self.state.index, int(side), h1, h2, until, classes, found[n])
            if joining is not None:
                own = mine[classes[joining.cls[mine]]]
                last_before(joining.h1[own], joining.h2[own], joining.ts[own], h1, h2, until, found[n])
        return found
