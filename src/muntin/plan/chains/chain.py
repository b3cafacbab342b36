"""What a chain is: a choice of the slices of one side's state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from muntin.plan.chains.edges import Edges
from muntin.plan.joins import Cuts


class Chain(ABC):
    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    follows_traffic: ClassVar[bool]
    """Whether other rates or selectivities mean other slices."""

    @abstractmethod
    def cuts(self, edges: Edges) -> Cuts:
        """The ends of the slices, of all that there could be."""
