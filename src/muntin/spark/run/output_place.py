"""Where a run keeps its checkpoint and where its rows go."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from muntin.model import UsageError
from muntin.spark.sink import SCHEME, sink


@dataclass(frozen=True)
class OutputPlace:
    """Rows go to a folder, to a callable, to a socket, or are only counted where all three are None."""

    checkpoint: Path
    folder: Path | None = None
    callback: sink.Callback | None = None
    socket: str | None = None
    """`tcp://host:port`, where eager delivery sends lines of JSON."""
    temporary: bool = False
    """Nobody named the checkpoint; it goes when the run ends."""

    @classmethod
    def of(
        cls,
        output: str | os.PathLike[str] | None,
        checkpoint: str | os.PathLike[str] | None,
        callback: sink.Callback | None,
    ) -> OutputPlace:
        """The place for the arguments of a user; refuses what does not go together."""
        if output is not None and os.fspath(output).startswith(SCHEME):
            if checkpoint is None or callback:
                raise UsageError("a run that sends its rows to a socket needs a checkpoint, and no sink beside it")
            return cls(Path(checkpoint).absolute(), socket=os.fspath(output))
        folder = None if output is None or os.fspath(output) == "none" else Path(output).absolute()
        if callback and folder:
            raise UsageError("rows go either to an output folder or to a sink, not to both")
        if checkpoint is not None:
            return cls(Path(checkpoint).absolute(), folder, callback)
        if folder:
            return cls(folder / "_checkpoint", folder)
        if callback:
            raise UsageError("a run with a sink needs a checkpoint", hint="start(sink=..., checkpoint='...')")
        return cls(Path(tempfile.mkdtemp(prefix="muntin-")), temporary=True)

    @property
    def is_none(self) -> bool:
        """Whether nobody gets the rows."""
        return self.folder is None and self.callback is None and self.socket is None

    def __str__(self) -> str:
        """As `job.json` has it."""
        if self.callback:
            return "a sink"
        return self.socket or (str(self.folder) if self.folder else "none")
