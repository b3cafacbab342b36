"""What is joined next, where results are delivered while a micro-batch is at work (hammad2003).

`ScheduledWork` cuts the rows of a micro-batch into units: a run of rows and some levels of windows.
A scheduler says which unit is next; the state joins it.
How finely they are cut follows from what rows have cost (`Density`).
`Outbox` says which queries may have the pairs of a unit, so that each gets its own in timestamp order.
"""

from muntin.core.schedule.density import Density, MeasuredRows
from muntin.core.schedule.outbox import Delivery, merged
from muntin.core.schedule.work import Done, ScheduledWork

__all__ = ["Delivery", "Density", "Done", "MeasuredRows", "ScheduledWork", "merged"]
