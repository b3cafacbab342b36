"""What goes with a pipeline that has ended."""

from __future__ import annotations

from muntin.spark.checkpoint import CommitLog, identity
from muntin.spark.control import control_stream
from muntin.spark.store import Location, crash_points, spark_half, store_of

OWN_FOLDERS = "plans", "held", "tables"
"""Those of ours that a pipeline needs only while it runs."""


def remove_folder(folder: Location) -> None:
    """Remove a pipeline's folder, and Spark's half of it."""
    for half in (folder, spark_half(folder)):
        store_of(half).remove_all(half)


def remove_state(folder: Location) -> None:
    """Remove what a pipeline that has ended for good needs no more."""
    half = spark_half(folder)
    crash_points.before("state removed")
    for name in ("offsets", "commits", "sources", "state", control_stream.FOLDER):
        store_of(half).remove_all(half / name)
    for name in ("metadata", ".metadata.crc"):
        store_of(half).remove(half / name)
    for name in OWN_FOLDERS:
        store_of(folder).remove_all(folder / identity.FOLDER / name)
    CommitLog(folder).forget(1)
    crash_points.after("state removed")
