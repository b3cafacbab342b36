"""CPU-Opt (wang2006 5.2 and 6.2): the slices that together cost least, a shortest path over all that there could be."""

from __future__ import annotations

import numpy as np

from muntin.plan.chains.chain import Chain
from muntin.plan.chains.edges import Edges
from muntin.plan.joins import Cuts


class CpuOpt(Chain):
    name = "cpu-opt"
    paper = "wang2006, sections 5.2 and 6.2"
    summary = "cuts where they cost least: slices are merged where routing pairs is cheaper than another slice"
    follows_traffic = True

    def cuts(self, edges: Edges) -> Cuts:
        """Of chains with equal costs, one with short slices."""
        best, previous = np.zeros(edges.last + 1), np.zeros(edges.last + 1, np.int64)
        nodes = np.arange(edges.last)
        for node in range(1, edges.last + 1):
            costs = best[:node] + edges.length(nodes[:node], node)
            previous[node] = node - 1 - int(np.argmin(costs[::-1]))
            best[node] = costs[previous[node]]
        cuts, node = [], edges.last
        while node > 0:
            cuts.append(edges.state.windows[node - 1])
            node = int(previous[node])
        return tuple(reversed(cuts))
