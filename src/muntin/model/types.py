"""Column types, by the names Spark SQL prints: `bigint`, `decimal(10,2)`, `array<int>`, `struct<a:int>`, ..."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

INTEGERS = ("tinyint", "smallint", "int", "bigint")
"""Integer types from narrow to wide."""

TYPES = (*INTEGERS, "boolean", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz")
"""All column types but `decimal(p,s)`, which carries its numbers, and those that are made of others."""

INTERVAL = "interval day to second"
"""The type of a difference of two timestamps; only expressions have it."""

LONGEST_NAME = 255
_UNFIT = re.compile(r'["`.\x00-\x1f]')
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_FIELD = re.compile(r"\w+")
MAX_PRECISION = 38


def decimal_parts(name: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, None for any other type."""
    found = _DECIMAL.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def nested_kind(name: str) -> str | None:
    """`array`, `map` or `struct`; None for a type that is not made of others."""
    kind = name.partition("<")[0]
    return kind if kind in ("array", "map", "struct") and name.endswith(">") else None


def nested_parts(name: str) -> tuple[tuple[str, str], ...]:
    """Names and types of what a nested type is made of: `element`; `key` and `value`; the fields of a struct."""
    kind, inside = nested_kind(name), name.partition("<")[2][:-1]
    if kind == "array":
        return (("element", inside),)
    parts = _split(inside)
    if kind == "map":
        return (("key", parts[0]), ("value", parts[1]))
    return tuple((field, inner) for field, _, inner in (part.partition(":") for part in parts))


def _split(inside: str) -> list[str]:
    """The parts between the commas that stand in no bracket."""
    parts, depth = [""], 0
    for char in inside:
        depth += (char in "<(") - (char in ">)")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def is_type(name: str) -> bool:
    """Whether a column of a stream can have this type."""
    if nested_kind(name) is None:
        return name in TYPES or decimal_parts(name) is not None
    return all(is_type(inner) and _FIELD.fullmatch(field) is not None for field, inner in nested_parts(name))


def is_numeric(name: str) -> bool:
    return name in INTEGERS or name in ("float", "double") or decimal_parts(name) is not None


def common_type(left: str, right: str) -> str | None:
    """The type in which two columns are compared for equality, None where they do not compare, as arrays, maps and
    structs do not.

    Numbers compare with numbers, dates with timestamps, everything else only with its own type: a string beside
    a number is refused rather than cast, since a cast that fails would silently match nothing.
    """
    if left == right:
        return left if nested_kind(left) is None else None
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    times = ("date", "timestamp_ntz", "timestamp")
    if left in times and right in times:
        return max(left, right, key=times.index)
    return None


def _common_number(left: str, right: str) -> str:
    if "double" in (left, right) or "float" in (left, right):
        return "double"
    parts = [decimal_parts(t) or (_INTEGER_DIGITS[t], 0) for t in (left, right)]
    scale = max(s for _, s in parts)
    whole = max(p - s for p, s in parts)
    precision = min(whole + scale, MAX_PRECISION)  # Spark rounds the fraction where there is no room for all of it
    return f"decimal({precision},{precision - whole})"


def column_name_fault(name: str, before: Collection[str]) -> tuple[str, str] | None:
    """What is wrong with the name of a stream's column, and a hint; `before` are the names of those before it.

    Columns of ours begin with _, and expressions name a column with its side and a dot before it.
    """
    if name.startswith("_"):
        return f"the name {name} is reserved", "a column cannot begin with _"
    if not name or len(name) > LONGEST_NAME or _UNFIT.search(name):
        return f"{name!r} cannot name a column", "leave out quotes and dots"
    if name.lower() in {other.lower() for other in before}:
        return f"the column {name} is already there", "names differ by more than case"
    return None


@dataclass(frozen=True)
class Field:
    name: str
    type: str


@dataclass(frozen=True)
class Schema:
    """Columns in order; names are looked up without regard to case, as in Spark SQL."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name.lower() == name.lower()), None)
