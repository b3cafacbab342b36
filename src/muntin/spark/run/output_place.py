"""Where a run keeps its checkpoint and where its rows go."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from muntin.spark.checkpoint import folder_of
from muntin.spark.sink import RoutedSink


@dataclass(frozen=True)
class OutputPlace:
    checkpoint: Path
    sink: RoutedSink
    temporary: bool
    """Nobody named the checkpoint; it goes when the run ends."""

    @classmethod
    def of(cls, sink: RoutedSink, checkpoint: str | os.PathLike[str] | None) -> OutputPlace:
        """The checkpoint that a user names, or else the one that goes with the sink."""
        place = sink.default_checkpoint() if checkpoint is None else folder_of(checkpoint)
        if place is not None:
            return cls(place, sink, temporary=False)
        return cls(Path(tempfile.mkdtemp(prefix="muntin-")), sink, temporary=True)
