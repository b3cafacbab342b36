"""A query of an output that keeps slices, as a view: SQL for DuckDB and for Spark.

    SELECT "k", "a", "_ts" FROM read_parquet(['/out/_slices/A_B-5f/000/*.parquet', ...]) WHERE ("_queries" & 4) <> 0

Folders that are read in the same way are read as one. A view is over all files that are in them when it is asked, so
it stays true while the job goes on; the order of rows is for whoever asks to say (`ORDER BY _ts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from muntin.core.results import OUTPUT_TS, SlicedQuery
from muntin.kernels.evaluate import duckdb_type


@dataclass(frozen=True)
class Piece:
    """A folder with rows of a query: for each of its columns the one that is stored, and the bit, None for all rows."""

    folder: str
    columns: Mapping[str, str]
    reads: SlicedQuery | None = None
    stored: tuple[str, ...] = ()
    """All columns of a slice; none of a folder of the query's own, where they may have come and gone."""

    def is_read_as(self, other: Piece) -> bool:
        """Whether one statement reads both: they lie side by side, and have the same columns."""
        mine, theirs = (piece.folder.rpartition("/")[0] for piece in (self, other))
        return (mine, self.columns, self.reads, self.stored) == (theirs, other.columns, other.reads, other.stored)


def view_for_duckdb(name: str, types: Mapping[str, str], pieces: Sequence[Piece]) -> str:
    """The statement for DuckDB; `types` are the columns of the query."""

    def files(piece: Piece, folders: Sequence[str]) -> str:
        plain = [re.sub(r"([*?\[])", r"[\1]", folder) for folder in folders]
        globs = ", ".join(_text(f"{folder}/*.parquet") for folder in plain)
        by_name = "" if piece.stored else ", union_by_name = true"
        return f"read_parquet([{globs}], hive_partitioning = false{by_name})"

    return _view("CREATE OR REPLACE VIEW", name, types, pieces, files, _double, duckdb_type)


def view_for_spark(name: str, types: Mapping[str, str], pieces: Sequence[Piece]) -> str:
    """The statement for Spark."""

    def files(_: Piece, folders: Sequence[str]) -> str:
        parent = folders[0].rpartition("/")[0]
        names = [
            re.sub(r"([*?\[\]{},\\])", r"\\\1", name) for name in (parent, *(f.rpartition("/")[2] for f in folders))
        ]
        few = names[1] if len(folders) == 1 else f"{{{','.join(names[1:])}}}"
        return f"parquet.{_backticks(f'{names[0]}/{few}/*.parquet')}"

    return _view("CREATE OR REPLACE TEMPORARY VIEW", name, types, pieces, files, _backticks, str.upper)


def _view(
    begin: str,
    name: str,
    types: Mapping[str, str],
    pieces: Sequence[Piece],
    files: Callable[[Piece, Sequence[str]], str],
    quoted: Callable[[str], str],
    type_name: Callable[[str], str],
) -> str:
    selects = []
    for piece, folders in _together(pieces):
        values = {
            c: quoted(piece.columns[c]) if c in piece.columns else f"CAST(NULL AS {type_name(types[c])})" for c in types
        }
        columns = [*(f"{value} AS {quoted(c)}" for c, value in values.items()), quoted(OUTPUT_TS.name)]
        where = "" if piece.reads is None else f"\nWHERE {_has_bit(piece.reads, quoted)}"
        selects.append(f"SELECT {', '.join(columns)}\nFROM {files(piece, folders)}{where}")
    return f"{begin} {quoted(name)} AS\n" + "\nUNION ALL\n".join(selects) + ";\n"


def _together(pieces: Sequence[Piece]) -> list[tuple[Piece, list[str]]]:
    """Pieces that are read in the same way and lie side by side, with their folders."""
    found: list[tuple[Piece, list[str]]] = []
    for piece in pieces:
        if found and found[-1][0].is_read_as(piece):
            found[-1][1].append(piece.folder)
        else:
            found.append((piece, [piece.folder]))
    return found


def _has_bit(reads: SlicedQuery, quoted: Callable[[str], str]) -> str:
    word = quoted(reads.bits)
    return f"({word} & {reads.bit}) <> 0" if reads.bit > 0 else f"{word} < 0"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _double(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
