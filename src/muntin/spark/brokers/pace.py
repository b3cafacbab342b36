"""How fast a stream of a broker is read: the driver says it in a file, the source looks there before each micro-batch.

Spark runs the planning half of a source in a process of its own, which takes no messages from us. A file on the same
machine is enough, and nothing has to start again. It says nothing that must outlive the run.
"""

from __future__ import annotations

import os
from pathlib import Path

PACE = "muntin.pace"
"""The option with the path of the file."""
SLOW_ROWS = 1000
"""Messages of a micro-batch of a stream that is far ahead: enough for its promises and its clock to go on."""


def set_pace(file: Path, rows: int | None) -> None:
    """Let a stream be read with so many messages in a micro-batch; None: as its options say."""
    aside = file.with_suffix(".tmp")
    aside.write_text("" if rows is None else str(rows))
    os.replace(aside, file)


def pace_of(file: str | None) -> int | None:
    """What was set last; None where nothing is."""
    try:
        text = Path(file).read_text() if file else ""
    except OSError:
        return None
    return int(text) if text.isdigit() else None
