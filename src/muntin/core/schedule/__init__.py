"""What is joined next, where results are delivered while a micro-batch is at work (hammad2003).

`ScheduledWork` cuts the rows of a micro-batch into units: a run of rows and some levels of windows.
A scheduler says which unit is next; the state joins it.
How finely they are cut follows from what rows have cost (`Density`).
`Outbox` says which queries may have the pairs of a unit, so that each gets its own in timestamp order.
Where work may take no longer (`WorkLimit`), `LeftWork` is what a later micro-batch goes on with.
"""

from muntin.core.schedule.density import Density, MeasuredRows
from muntin.core.schedule.left_work import LeftWork, LeftWorkMeta
from muntin.core.schedule.limits import HELD_BYTES, WorkLimit, why_at_once
from muntin.core.schedule.outbox import Delivery, merged
from muntin.core.schedule.work import Done, ScheduledWork, WorkSpan, find_again

__all__ = [
    "HELD_BYTES",
    "Delivery",
    "Density",
    "Done",
    "LeftWork",
    "LeftWorkMeta",
    "MeasuredRows",
    "ScheduledWork",
    "WorkLimit",
    "WorkSpan",
    "find_again",
    "merged",
    "why_at_once",
]
