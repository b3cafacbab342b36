"""Reading a job file: what can go wrong before the SQL begins is a wrong request, not a failure."""

from __future__ import annotations

import sys
from pathlib import Path

from muntin.model import JobSpec, UsageError


def read_job(path: Path) -> JobSpec:
    from muntin.sql import parse_job

    spec = parse_job(read_text(path), source=str(path))
    for note in spec.notes:
        print(f"muntin: note: {note}", file=sys.stderr)
    return spec


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "`muntin generate sensors DIR` writes one to begin with"
        raise UsageError(f"there is no job file {path}", hint=hint) from None
    except (IsADirectoryError, PermissionError, UnicodeDecodeError) as error:
        reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"cannot read the job file {path}: {reason}") from None
