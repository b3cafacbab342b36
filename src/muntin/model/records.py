"""Records as plain JSON, and back by the types of their fields.

A record is a dataclass or a named tuple of numbers, texts, times (written by ISO 8601), lists, mappings by name,
optional values and other records.
The JSON does not say what it is: the reader names the class that it expects. (`plain` is for values of many classes.)
A field marked `LEFT_OUT` is not written where it is None. What the JSON has beside the fields is not read.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

Record = TypeVar("Record")
LEFT_OUT = {"left out": True}
"""Metadata of a field that JSON lacks where it is None."""
_PLAIN = (int, float, str, bool, Any)
_UNIONS = (typing.Union, type(int | None))
_WRITTEN: dict[Any, list[tuple[str, bool]]] = {}
"""The fields of each class that has been written, and whether JSON lacks them where they are None."""
_READ: dict[Any, dict[str, Any]] = {}
"""The fields of each class that has been read, with their types."""


def to_json(value: Any) -> Any:
    """A record as JSON has it: dataclasses become objects, named tuples become lists."""
    if isinstance(value, _PLAIN[:4]) or value is None:
        return value
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if not dataclasses.is_dataclass(value):
        return value
    kind = type(value)
    if kind not in _WRITTEN:
        _WRITTEN[kind] = [(field.name, field.metadata == LEFT_OUT) for field in dataclasses.fields(value)]
    found = ((name, getattr(value, name), left_out) for name, left_out in _WRITTEN[kind])
    return {name: to_json(item) for name, item, left_out in found if item is not None or not left_out}


def from_json(kind: type[Record], plain: Any) -> Record:
    """The record of a class that `to_json` was given; raises `TypeError` where a field without a default is missing."""
    found: Record = _read(kind, plain)
    return found


def _read(kind: Any, plain: Any) -> Any:
    if kind in _PLAIN:
        return plain
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in _UNIONS:
        (inner,) = (arg for arg in args if arg is not type(None))
        return None if plain is None else _read(inner, plain)
    if origin is typing.Literal:
        return plain
    if kind is datetime:
        return datetime.fromisoformat(plain)
    if origin is list or (origin is tuple and args[-1] is Ellipsis):
        return origin(plain if args[0] in _PLAIN else (_read(args[0], item) for item in plain))
    if origin is tuple:
        return tuple(_read(arg, item) for arg, item in zip(args, plain, strict=True))
    if origin is dict:
        return {name: _read(args[1], item) for name, item in plain.items()}
    if kind not in _READ:
        _READ[kind] = typing.get_type_hints(kind)
    hints = _READ[kind]
    if issubclass(kind, tuple):
        return kind(*(_read(hint, item) for hint, item in zip(hints.values(), plain, strict=True)))
    return kind(**{name: _read(hint, plain[name]) for name, hint in hints.items() if name in plain})
