"""What to join next, and when a query gets what was found (hammad2003 3): one file for each scheduler.

A scheduler says which queue of waiting runs comes next (`queues`), what of a unit's pairs may go to the queries at once
(core/schedule/outbox.py carries that out), and how long a query then waits after a burst (plan/response_times.py).
"""

from muntin.plan.registry import Registry
from muntin.plan.schedulers.lwo import LargestWindowOnly
from muntin.plan.schedulers.mqt import MaximumQueryThroughput, stretches, throughputs
from muntin.plan.schedulers.queues import RunQueues, Unit
from muntin.plan.schedulers.scheduler import Scheduler
from muntin.plan.schedulers.swf import SmallestWindowFirst

__all__ = ["SCHEDULERS", "RunQueues", "Scheduler", "Unit", "stretches", "throughputs"]

SCHEDULERS: Registry[Scheduler] = Registry(LargestWindowOnly(), SmallestWindowFirst(), MaximumQueryThroughput())
