"""From what a user writes to a checkpoint: our half of it, and where Spark's half is."""

from __future__ import annotations

import os
from pathlib import Path

from muntin.model import UsageError
from muntin.spark.checkpoint.durable import FileKind, read_json, write_json
from muntin.spark.checkpoint.identity import FOLDER
from muntin.spark.store import Location, ObjectPath, for_spark, locate, store_of

SPARK = "spark.json"


def open_checkpoint(place: str | os.PathLike[str], spark: str | os.PathLike[str] | None = None) -> Location:
    """A checkpoint by its path or URI.

    In a folder both halves are together. In an object store Spark's half is beside ours, unless `spark` names another
    place for it; a checkpoint remembers that, so that its URI alone is enough later.
    """
    found = locate(place)
    if isinstance(found, Path):
        if spark is not None and _absolute(locate(spark)) != found.absolute():
            raise UsageError(
                f"the checkpoint {found} is a folder: Spark's half is in it",
                hint="leave `spark_checkpoint=` out; it is for a checkpoint in an object store",
            )
        return found.absolute()
    wanted, stored = None if spark is None else _absolute(locate(spark)), _remembered(found)
    if wanted is not None and stored is not None and str(wanted) != str(stored):
        raise UsageError(
            f"Spark's half of {found} is in {stored}, not in {wanted}",
            hint="leave `spark_checkpoint=` out, or start anew with another `checkpoint=` and `output=`",
        )
    return ObjectPath(found.store, found.key, wanted or stored or found)


def with_spark_half(checkpoint: Location) -> Location:
    """A checkpoint as `open_checkpoint` has it, where only our half was needed so far."""
    known = isinstance(checkpoint, Path) or checkpoint.spark is not None
    return checkpoint if known else open_checkpoint(str(checkpoint))


def remember_spark_half(checkpoint: Location) -> None:
    """Write down where Spark's half is, where that cannot be seen."""
    if isinstance(checkpoint, ObjectPath) and _remembered(checkpoint) is None:
        write_json(_file(checkpoint), FileKind.PLACE, str(checkpoint.spark))


def _remembered(checkpoint: ObjectPath) -> Location | None:
    file = _file(checkpoint)
    return locate(read_json(file, FileKind.PLACE)) if store_of(file).exists(file) else None


def _file(checkpoint: ObjectPath) -> ObjectPath:
    return checkpoint / FOLDER / SPARK


def _absolute(place: Location) -> Location:
    return place.absolute() if isinstance(place, Path) else place


def is_for_spark_to_find(checkpoint: Location) -> str | None:
    """The URI of Spark's half where a file system of Spark's must be found for it; None for a folder."""
    half = checkpoint.spark if isinstance(checkpoint, ObjectPath) else None
    return for_spark(half) if isinstance(half, ObjectPath) else None
