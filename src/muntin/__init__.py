"""Many continuous window-join queries over the same streams, run as one shared Spark job.

`muntin.Job` is loaded on first use: importing the package must not cost the import of pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muntin.spark.run import Job, Run, read_status
    from muntin.spark.session import open_session

__version__ = "0.1.0"
__all__ = ["Job", "Run", "__version__", "open_session", "read_status"]

_HOMES = {
    "Job": "muntin.spark.run",
    "Run": "muntin.spark.run",
    "read_status": "muntin.spark.run",
    "open_session": "muntin.spark.session",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
