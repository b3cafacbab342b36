"""Many continuous window-join queries over the same streams, run as one shared Spark job.

`muntin.Job` is loaded on first use: importing the package must not cost the import of pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from muntin.model import MuntinError, SqlError, UsageError

if TYPE_CHECKING:
    from muntin.spark.checkpoint import Answer, DamageError
    from muntin.spark.run import Job, Run, read_status
    from muntin.spark.session import open_session
    from muntin.spark.sink import Callback, create_views, read

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Callback",
    "DamageError",
    "Job",
    "MuntinError",
    "Run",
    "SqlError",
    "UsageError",
    "__version__",
    "create_views",
    "open_session",
    "read",
    "read_status",
]

_HOMES = {
    "Answer": "muntin.spark.checkpoint",
    "Callback": "muntin.spark.sink",
    "DamageError": "muntin.spark.checkpoint",
    "Job": "muntin.spark.run",
    "Run": "muntin.spark.run",
    "create_views": "muntin.spark.sink",
    "open_session": "muntin.spark.session",
    "read": "muntin.spark.sink",
    "read_status": "muntin.spark.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
