"""Mem-Opt (wang2006 5.1): a slice for each window."""

from __future__ import annotations

from muntin.plan.chains.chain import Chain
from muntin.plan.chains.edges import Edges
from muntin.plan.joins import Cuts


class MemOpt(Chain):
    name = "mem-opt"
    paper = "wang2006, section 5.1"
    summary = "a cut at every window: no row stays longer than some query wants it"
    follows_traffic = False

    def cuts(self, edges: Edges) -> Cuts:
        return edges.state.windows
