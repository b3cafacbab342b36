"""From a job to shared joins: which queries share a join, where its state is cut, who reads which slice."""

from muntin.plan.choose import make_plan
from muntin.plan.evolve import covers, evolve, redivides, reporting, settled_orders
from muntin.plan.joins import Partition, Plan, SharedJoin, Slice
from muntin.plan.strategies import share

__all__ = [
    "Partition",
    "Plan",
    "SharedJoin",
    "Slice",
    "covers",
    "evolve",
    "make_plan",
    "redivides",
    "reporting",
    "settled_orders",
    "share",
]
