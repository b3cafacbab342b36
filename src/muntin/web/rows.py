"""The last rows of a query and examples of dead letters, from the output of a job; never more than a few of either."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.model import UsageError
from muntin.spark.checkpoint import stored_job
from muntin.spark.sink import SlicedRows, layout_of, read
from muntin.spark.store import Location

ROWS = 20
FILES = 4
"""Newest files that are looked at."""
TAIL_BYTES = 1 << 18
"""Of a file of lines only its end is read."""
LONGEST = 400
"""Characters of a value that are shown."""
DEAD_LETTERS = "_dead_letters"
SCAN_ROWS = 20_000
"""Dead letters that are looked through for examples."""
Row = dict[str, str | None]


def output_folder(checkpoint: Location) -> Path | None:
    """The folder of a job's output; None where its rows go elsewhere."""
    stored = stored_job(checkpoint)
    if stored is None:
        return None
    folder = Path(stored.output.removeprefix("csv:").removeprefix("sliced:"))
    return folder if folder.is_absolute() and folder.is_dir() else None


def last_rows(checkpoint: Location, query: str, known: Iterable[str]) -> dict[str, Any]:
    """The last rows of a query, the newest first, as texts."""
    if query not in set(known):  # also: no name leads out of the output folder
        raise UsageError(f"there is no query {query}")
    folder = output_folder(checkpoint)
    if folder is None:
        return {"rows": [], "why_not": "the rows of this job do not go to a folder"}
    found: list[Row] = []
    if layout_of(str(folder)) == "sliced" and isinstance(kept := read(folder, query), SlicedRows):
        found = [_texts(row) for row in reversed(kept.tail(ROWS).to_pylist())]
        return {"rows": found, "why_not": "" if found else "no rows so far"}
    for file in newest(folder / query):
        found += reversed(tail(file))
        if len(found) >= ROWS:
            break
    return {"rows": found[:ROWS], "why_not": "" if found else "no rows so far"}


def dead_letters(checkpoint: Location) -> list[Row]:
    """The newest dead letters, at most a few of each reason."""
    folder = output_folder(checkpoint)
    seen: dict[str, int] = {}
    found: list[Row] = []
    left = SCAN_ROWS
    for file in newest(folder / DEAD_LETTERS) if folder is not None else ():
        for row in reversed(tail(file, min(left, SCAN_ROWS))):
            kind = str(row.get("reason") or "").partition(":")[0]
            seen[kind] = seen.get(kind, 0) + 1
            if seen[kind] <= 3:
                found.append(row)
            left -= 1
        if left <= 0 or len(found) >= ROWS:
            break
    return found[:ROWS]


def newest(folder: Path) -> list[Path]:
    """The last files of a folder: their names sort in output order."""
    names = (p for p in folder.glob("*b*") if p.suffix in (".parquet", ".csv", ".jsonl"))
    return sorted(names, key=lambda p: p.name, reverse=True)[:FILES]


def tail(file: Path, rows: int = ROWS) -> list[Row]:
    """The last rows of a file; one that has gone since, or is being written, has none."""
    try:
        if file.suffix == ".parquet":
            return [_texts(row) for row in _last_of_parquet(file, rows)]
        if file.suffix == ".jsonl":
            return [_texts(json.loads(line)) for line in deque(_last_lines(file), maxlen=rows)]
        with file.open(encoding="utf-8", newline="") as opened:
            return [_texts(row) for row in deque(csv.DictReader(opened), maxlen=rows)]
    except (OSError, ValueError, pa.ArrowException):
        return []


def _last_of_parquet(file: Path, rows: int) -> list[dict[str, Any]]:
    with pq.ParquetFile(file) as opened:
        if not opened.metadata.num_rows:
            return []
        group = opened.read_row_group(opened.num_row_groups - 1)
        found: list[dict[str, Any]] = group.slice(max(0, group.num_rows - rows)).to_pylist()
        return found


def _last_lines(file: Path) -> Iterator[bytes]:
    size = file.stat().st_size
    with file.open("rb") as opened:
        opened.seek(max(0, size - TAIL_BYTES))
        lines = opened.read(TAIL_BYTES).split(b"\n")
    yield from (line for line in lines[1 if size > TAIL_BYTES else 0 : -1] if line)


def _texts(row: dict[str, Any]) -> Row:
    return {name: None if value is None else _text(value) for name, value in row.items()}


def _text(value: Any) -> str:
    shown = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return shown if len(shown) <= LONGEST else shown[:LONGEST] + "…"
