"""Results that wait until their time has come (hammad2005).

Under Filter-Order rows are joined ahead of the other stream, and their pairs wait in the `HoldBuffer`.
It holds pairs by row numbers, in time order, and lets them go when the release point has passed them.
Where too much is held, all of it may leave early; what has left so is remembered until its time is over.
"""

from muntin.core.order.hold_buffer import EarlyRelease, HoldBuffer

__all__ = ["EarlyRelease", "HoldBuffer"]
