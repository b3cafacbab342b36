"""Aggregates over pairs: live groups, finals, the first n, and the rows made of them."""

from muntin.core.aggregates.aggregates import Aggregates
from muntin.core.aggregates.finals import NO_FINALS, Finals
from muntin.core.aggregates.groups import GroupState, GroupValues
from muntin.core.aggregates.key_ends import KeyEnds
from muntin.core.aggregates.values import FAULT, finish

__all__ = ["FAULT", "NO_FINALS", "Aggregates", "Finals", "GroupState", "GroupValues", "KeyEnds", "finish"]
