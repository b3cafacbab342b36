"""What a check of a checkpoint finds: one thing that is not as it should be, what that means, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from muntin.spark.store import Location

RESTORE = "restore checkpoint and output from one back-up, or begin anew with another `checkpoint=` and `output=`"
ROLL_BACK = "`muntin doctor --repair` goes back to the last whole micro-batch"


class Level(StrEnum):
    BROKEN = "broken"
    """A start would refuse it, or a run fail with it."""
    LEFT_OVER = "left over"
    """Nobody needs it; a process died."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One thing about one file."""

    level: Level
    file: str
    what: str
    means: str
    do: str
    removable: Location | None = None
    """A file that may simply go."""
    undoes: int | None = None
    """The micro-batch that is not whole because of it: with those after it, it must be done again."""

    @property
    def is_repairable(self) -> bool:
        return self.removable is not None or self.undoes is not None


@dataclass
class PipelineFindings:
    """What was found in one pipeline."""

    number: int
    folder: Location
    findings: list[Finding] = field(default_factory=list)
    last: int = -1
    """The last micro-batch that our half has committed."""
    begun: int = -1
    """The last that anything names."""
    back_to: int | None = None
    """The last whole micro-batch, where it is not the last one; None where nothing has to be undone."""

    def broken(self, file: object, what: str, means: str, do: str = RESTORE, undoes: int | None = None) -> None:
        self.findings.append(Finding(Level.BROKEN, str(file), what, means, do, undoes=undoes))

    def removable(self, file: Location, what: str, means: str, level: Level = Level.BROKEN) -> None:
        do = "remove it; `muntin doctor --repair` does"
        self.findings.append(Finding(level, str(file), what, means, do, removable=file))

    def note(self, file: object, what: str, means: str, do: str = "nothing") -> None:
        self.findings.append(Finding(Level.NOTE, str(file), what, means, do))


def is_aside(file: Path) -> bool:
    """Whether a name is that of a file that was being written when its process died, ours or Spark's, or its sums."""
    return file.name[0] == "." and file.name.endswith((".tmp", ".tmp.crc"))
