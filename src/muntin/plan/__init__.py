"""From a job to shared joins: which queries share a join, where its state is cut, who reads which slice."""

from muntin.plan.choose import make_plan
from muntin.plan.share import Partition, Plan, SharedJoin, Slice, share

__all__ = ["Partition", "Plan", "SharedJoin", "Slice", "make_plan", "share"]
