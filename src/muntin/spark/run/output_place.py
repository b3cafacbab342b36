"""Where a run keeps its checkpoint and where its rows go."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from muntin.spark.checkpoint import open_checkpoint
from muntin.spark.sink import RoutedSink
from muntin.spark.store import Location


@dataclass(frozen=True)
class OutputPlace:
    checkpoint: Location
    sink: RoutedSink
    temporary: bool
    """Nobody named the checkpoint; it goes when the run ends."""

    @classmethod
    def of(
        cls,
        sink: RoutedSink,
        checkpoint: str | os.PathLike[str] | None,
        spark_checkpoint: str | os.PathLike[str] | None = None,
    ) -> OutputPlace:
        """The checkpoint that a user names, or else the one that goes with the sink."""
        named = sink.default_checkpoint() if checkpoint is None else checkpoint
        place = None if named is None else open_checkpoint(named, spark_checkpoint)
        if place is not None:
            return cls(place, sink, temporary=False)
        return cls(Path(tempfile.mkdtemp(prefix="muntin-")), sink, temporary=True)
