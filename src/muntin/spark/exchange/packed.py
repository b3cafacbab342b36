"""Values that go to tasks within Spark's own messages: plans, and what belongs to them.

A plan is a tree of our own values with parts in common, so it travels as a pickle. Here is the only place that
reads one, and it makes nothing but such values: a class that is not ours, or a function, is refused before it is
called. What lies in files and state, and what comes over our own sockets, are frames and JSON.
"""

from __future__ import annotations

import io
import pickle
import zlib
from typing import Any

from muntin.model import MuntinError

HOMES = "muntin.model.", "muntin.plan.", "muntin.core.", "muntin.spark.checkpoint.plans", "muntin.spark.exchange."
"""Where the classes of plans, policies and frontiers are; none of them does anything when it is made."""


def packed(value: Any) -> bytes:
    return zlib.compress(pickle.dumps(value))


def unpacked(data: bytes) -> Any:
    """What `packed` was given."""
    return _PlanReader(io.BytesIO(zlib.decompress(data))).load()


class _PlanReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module.startswith(HOMES) else None
        if isinstance(found, type):
            return found
        raise MuntinError(f"a task was told something that is no plan: {module}.{name}")
