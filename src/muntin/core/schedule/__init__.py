"""What is joined next: the units of work of a micro-batch, in the order of a scheduler."""

from muntin.core.schedule.outbox import Delivery, merged
from muntin.core.schedule.work import Done, ScheduledWork

__all__ = ["Delivery", "Done", "ScheduledWork", "merged"]
