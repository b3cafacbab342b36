"""Where an output keeps slices, and what a query is the union of there.

DIR/_slices/<layout>.json, DIR/_slices/<layout>/<slice>/        a layout, and the files of its slices
DIR/_slices/_queries/<query>/                                   the columns of a query
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from muntin.core.results import SliceLayout
from muntin.spark.checkpoint import FileKind, read_record
from muntin.spark.sink.parquet import SCHEMA_FILE, schema_of
from muntin.spark.sink.views import Piece
from muntin.spark.store import Location

SLICES = "_slices"
QUERIES = f"{SLICES}/_queries"


def slice_folder(layout: SliceLayout, number: int) -> str:
    """Where the files of a slice lie, relative to the output."""
    return f"{SLICES}/{layout.name}/{number:03d}"


def keeps_slices(output: Location) -> bool:
    """Whether an output has the layout of slices."""
    return isinstance(output, Path) and (output / SLICES).is_dir()


def layout_of(output: str) -> str:
    """The `output_layout` of an output as `--output` spells it."""
    return "sliced" if ":" not in output and keeps_slices(Path(output)) else "queries"


def layout_file(output: Path, name: str) -> Path:
    return output / SLICES / f"{name}.json"


def layouts_of(output: Path) -> list[SliceLayout]:
    """All layouts that an output has had."""
    files = sorted((output / SLICES).glob("*.json"))
    return [read_record(file, FileKind.SLICES, SliceLayout) for file in files]


def pieces_of(output: Path, query: str) -> Iterator[Piece]:
    """What a query is the union of: its own folder, if it has had one, and the slices that it reads or has read."""
    own = schema_of(output / query)
    if own is not None:
        yield Piece(str(output / query), {name: name for name in own.names[:-1]})
    for layout in layouts_of(output):
        if (reads := layout.queries.get(query)) is not None:
            for number, stored in enumerate(layout.slices):
                if query in stored.readers:
                    folder = str(output / slice_folder(layout, number))
                    yield Piece(folder, reads.columns, reads, tuple(stored.columns))


def sliced_names(output: Path) -> list[str]:
    """The queries of an output that keeps slices."""
    return sorted(file.parent.name for file in (output / QUERIES).glob(f"*/{SCHEMA_FILE}"))
