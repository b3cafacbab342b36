"""Results that wait until their time has come."""

from muntin.core.order.hold_buffer import HoldBuffer

__all__ = ["HoldBuffer"]
