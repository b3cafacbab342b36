"""Sources that bring their own columns, as rate, Kafka and sockets do: what a stream or table declares is chosen from
these."""

from __future__ import annotations

from collections.abc import Sequence

from muntin.model import DimensionTable, Field, Stream, UsageError
from muntin.model.types import INTEGERS, common_type, decimal_parts


def choose_columns(stream: Stream | DimensionTable, brought: Sequence[Field]) -> list[tuple[str, Field]]:
    """The source's name of each column that is declared, and the column; other columns are left out."""
    named = f"{'table' if isinstance(stream, DimensionTable) else 'stream'} {stream.name}"
    there = {field.name.lower(): field for field in brought}
    listed = ", ".join(f"{field.name} {field.type.upper()}" for field in brought)
    chosen: list[tuple[str, Field]] = []
    for wanted in stream.own if isinstance(stream, Stream) else stream.schema:
        found = there.get(wanted.name.lower())
        if found is None:
            raise UsageError(
                f"{named}: the source {stream.format} brings its own columns, and none is {wanted.name}",
                hint=f"declare some of these: {listed}",
            )
        if found.type != wanted.type and not is_widening(found.type, wanted.type):
            raise UsageError(
                f"{named}: {found.name} of the source {stream.format} is {found.type}, not {wanted.type}",
                hint=f"declare {found.name} {found.type.upper()} and write CAST({found.name} AS {wanted.type.upper()}) "
                f"in queries; the source has {listed}",
            )
        chosen.append((found.name, wanted))
    return chosen


def is_widening(have: str, want: str) -> bool:
    """Whether every value of one type of numbers is a value of the other."""
    if want == "double":
        return have in ("float", "tinyint", "smallint", "int")
    if have in INTEGERS and want in INTEGERS:
        return INTEGERS.index(have) < INTEGERS.index(want)
    wide, narrow = decimal_parts(want), decimal_parts(have)
    fits = wide is not None and (narrow is None or narrow[1] <= wide[1])
    return fits and have not in ("float", "double") and common_type(have, want) == want
