"""All slices that one side's state could have, and what each of them costs (wang2006, sections 5 and 6).

A chain of N windows is a path over N + 1 nodes, 0 and the windows; the edge from node i to node j is a slice of the
ages from window i to window j. What a slice costs depends on nothing but its ends, so the cheapest chain is a shortest
path. Slices are not operators here but ages in one state, which changes what there is to pay:

    probing    a row that survives past window i stays until window j, so a longer slice means more rows to look at
    purge      a row is taken out once, at the end of the slice of its largest window; it never moves between slices
    system     a probing row steps over a cut if one of its partners lies beyond: `slice_ns`
    routing    in a merged slice, pairs beyond its first window are located among its windows: `route_ns`; a pair that
               no query wants is dropped before that
    insertion  once per row, in the first slice

A probing row stops at its own reach, also in the middle of a slice. It is charged for each slice up to there; where it
has few partners it really goes no further than the last of them, so that with rare keys steps are overestimated. Costs
are nanoseconds per second of stream; rows, comparisons and pairs are averages of a steady state.

Partners are taken to come at random: a probing row has one among `n` expected ones with the chance 1 - exp(-n).

Without selections every row stays to the end and looks to the end, and the choice falls apart into one for each window
but the last: a cut saves the routing of the pairs between it and the next window and costs the steps over it.
With selections it also saves rows, and gaps depend on each other; hence the path.
"""

from __future__ import annotations

import numpy as np

from muntin.kernels.arrays import Floats, Int64s
from muntin.plan.cost import Constants
from muntin.plan.joins import Cuts
from muntin.plan.traffic import Survivors

Nodes = Int64s | int
"""One node or many: what holds for an edge is computed for any number of them at once."""


class Edges:
    """All slices that one side's state can have, by their nodes: what each holds, what work it makes, what that costs.

    Arrays of nodes give arrays, by numpy's rules; the end of an edge is always beyond its start.
    """

    def __init__(self, state: Survivors, constants: Constants):
        self.state, self.constants = state, constants
        self._ends = np.concatenate([[0.0], state.seconds])
        self._kept = np.concatenate([state.kept, [0.0]])
        self._probing = np.concatenate([state.probing, [0.0]])
        self._depth = np.concatenate([[0.0], np.cumsum(state.probing * np.diff(self._ends))])
        self._found = np.concatenate([[0.0], np.cumsum(state.wanted * np.diff(self._ends))])
        self._pairs = state.rate * state.other_rate * state.match
        self._steps = state.other_rate * self._crossing()

    def _crossing(self) -> Floats:
        """For each node, the fraction of the probing rows that step over a cut there; none does at 0."""
        partners = np.concatenate([[0.0], np.cumsum(self._kept[:-1] * np.diff(self._ends))])
        partners *= self.state.rate * self.state.match
        beyond = np.maximum(partners[None, 1:] - partners[:, None], 0.0)
        stopping = self._probing[:-1] - self._probing[1:]
        crossing = -np.expm1(-beyond) @ stopping
        crossing[0] = 0.0
        return np.asarray(crossing)

    @property
    def last(self) -> int:
        """The node of the largest window."""
        return len(self.state.windows)

    def rows(self, i: Nodes, j: Nodes) -> Floats:
        return self.state.rate * self._kept[i] * (self._ends[j] - self._ends[i])

    def comparisons(self, i: Nodes, j: Nodes) -> Floats:
        """Rows of the slice that are looked at per second."""
        return self._pairs * self._kept[i] * (self._depth[j] - self._depth[i])

    def routed(self, i: Nodes, j: Nodes) -> Floats:
        """Those that lie beyond the slice's first window and make a pair for some query: it is located by its age."""
        return self._pairs * (self._found[j] - self._found[i + 1])

    def steps(self, i: Nodes) -> Floats:
        """Rows of the other side that step into the slice, per second."""
        return self._steps[i]

    def removed(self, i: Nodes, j: Nodes) -> Floats:
        """Rows that leave the state at the end of the slice, per second."""
        return self.state.rate * (self._kept[i] - self._kept[j])

    def inserted(self, i: Nodes) -> Floats:
        """Rows that enter the state by this slice, per second."""
        return self.state.rate * self._kept[i] * np.equal(i, 0)

    def length(self, i: Nodes, j: Nodes) -> Floats:
        """What the slice costs."""
        c = self.constants
        return (
            c.scan_ns * self.comparisons(i, j)
            + c.route_ns * self.routed(i, j)
            + c.slice_ns * self.steps(i)
            + c.invalidate_ns * self.removed(i, j)
            + c.insert_ns * self.inserted(i)
        )

    def path(self, cuts: Cuts) -> tuple[Int64s, Int64s]:
        """Starts and ends of the slices of a chain."""
        nodes = np.searchsorted(self.state.windows, cuts) + 1
        return np.concatenate([[0], nodes[:-1]]), nodes
