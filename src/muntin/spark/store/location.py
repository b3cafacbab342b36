"""Where a file of ours lies: a path of a file system, or a key of an object store."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from muntin.model import UsageError

if TYPE_CHECKING:
    from muntin.spark.store.objects import ObjectStore


@dataclass(frozen=True)
class ObjectPath:
    """A key of an object store, joined and taken apart as a path is.

    `spark` is the place of Spark's half of a checkpoint, and goes along: what is below one is below the other.
    """

    store: ObjectStore
    key: str
    spark: Location | None = None

    def __truediv__(self, name: str) -> ObjectPath:
        below = None if self.spark is None else self.spark / name
        return replace(self, key=f"{self.key}/{name}".strip("/"), spark=below)

    @property
    def name(self) -> str:
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.key).stem

    @property
    def parent(self) -> ObjectPath:
        return replace(self, key=self.key.rpartition("/")[0], spark=None if self.spark is None else self.spark.parent)

    def relative_to(self, folder: ObjectPath) -> str:
        """The rest of a key below a folder."""
        return self.key.removeprefix(f"{folder.key}/" if folder.key else "")

    def __str__(self) -> str:
        return f"{self.store.root}/{self.key}".rstrip("/")


Location = Path | ObjectPath


def spark_half(checkpoint: Location) -> Location:
    """The folder of a checkpoint in which Spark keeps its logs and state, and reads our control messages."""
    if isinstance(checkpoint, Path):
        return checkpoint
    if checkpoint.spark is None:
        raise UsageError(
            f"nobody has said where Spark keeps its half of {checkpoint}",
            hint="name the folder with --spark-checkpoint (`spark_checkpoint=`)",
        )
    return checkpoint.spark


def for_spark(place: Location) -> str:
    """A location as Spark's file systems spell it."""
    return str(place) if isinstance(place, Path) else re.sub("^s3:", "s3a:", str(place))
