"""What a format is: options, a decoder of values into columns and, where it has one, an encoder of rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from muntin.formats.columns import Misfit, column
from muntin.model import UsageError

Record = Mapping[str, Any]
Parse = Callable[[bytes], Record]
"""One value as a record; raises `Misfit` with the reason where it is none."""


@dataclass(frozen=True)
class Decoded:
    """The rows of those values that are records of the schema, and the others with their reasons."""

    rows: pa.Table
    places: list[int]
    """Which value each row is of."""
    faults: dict[int, str]
    """By place."""


class Format:
    """One format of values; `options` are those of `VALUE FORMAT name (option = 'value')`."""

    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}
    """What each option says, in words; its name in lower case."""
    required: ClassVar[tuple[str, ...]] = ()
    package: ClassVar[str | None] = None
    """The package that it needs beside those that are always there."""
    extra: ClassVar[str] = ""
    writes: ClassVar[bool] = False
    """Whether rows can be written in it, too."""

    def __init__(self, options: Mapping[str, str]):
        self.given = {name.lower(): value for name, value in options.items()}

    def check(self, schema: pa.Schema) -> None:
        """Refuse columns and options that cannot be, before anything runs."""
        if self.package is not None and importlib.util.find_spec(self.package) is None:
            raise UsageError(
                f"{self.name.upper()} values need the package {self.package}",
                hint=f"pip install 'muntin[{self.extra}]'",
            )

    def parser(self, schema: pa.Schema) -> Parse:
        """What makes a record of a value."""
        raise NotImplementedError

    def decode(self, schema: pa.Schema, values: Sequence[bytes | None]) -> Decoded:
        """Values as columns. A column is made in one piece; where that fails, value by value, to see whose fault it
        is: so what a value means does not depend on its neighbours."""
        parse = self.parser(schema)
        records, places, faults = list[Record](), list[int](), dict[int, str]()
        for place, value in enumerate(values):
            try:
                records.append(_parsed(parse, value))
                places.append(place)
            except Misfit as fault:
                faults[place] = str(fault)
        columns: list[pa.Array] = []
        for field in schema:
            found = [record.get(field.name) for record in records]
            try:
                columns.append(column(field.type, found))
            except Misfit:
                wrong = {n: why for n, value in enumerate(found) if (why := _fault(field, value)) is not None}
                faults |= {places[n]: why for n, why in wrong.items()}
                kept = [n for n in range(len(records)) if n not in wrong]
                columns = [done.take(pa.array(kept, pa.int64())) for done in columns]
                records, places = [records[n] for n in kept], [places[n] for n in kept]
                columns.append(column(field.type, [found[n] for n in kept]))
        return Decoded(pa.table(columns, schema=schema), places, faults)

    def encode(self, rows: pa.Table) -> list[bytes]:
        """Each row as a value."""
        raise NotImplementedError(f"{self.name} is only read")


def _parsed(parse: Parse, value: bytes | None) -> Record:
    if value is None:
        raise Misfit("the value is NULL")
    return parse(value)


def _fault(field: pa.Field, value: Any) -> str | None:
    try:
        column(field.type, [value])
    except Misfit as fault:
        return f"{field.name}: {fault}"
    return None
