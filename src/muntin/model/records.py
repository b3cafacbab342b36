"""Records as plain JSON, and back by the types of their fields.

A record is a dataclass or a named tuple of numbers, texts, times (written by ISO 8601), lists, mappings by name,
optional values and other records.
The JSON does not say what it is: the reader names the class that it expects. (`plain` is for values of many classes.)
A field marked `LEFT_OUT` is not written where it is None. What the JSON has beside the fields is not read.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

Record = TypeVar("Record")
LEFT_OUT = {"left out": True}
"""Metadata of a field that JSON lacks where it is None."""
Reader = Callable[[Any], Any]
_PLAIN = (int, float, str, bool, Any)
_AS_IT_IS = frozenset([int, float, str, bool, type(None)])
_UNIONS = (typing.Union, type(int | None))


def to_json(value: Any) -> Any:
    """A record as JSON has it: dataclasses become objects, named tuples become lists."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is list or kind is tuple:
        return [item if type(item) in _AS_IT_IS else to_json(item) for item in value]
    fields = _written(kind)
    if fields is not None:
        found: dict[str, Any] = {}
        for name, left_out in fields:
            item = getattr(value, name)
            if item is not None or not left_out:
                found[name] = item if type(item) in _AS_IT_IS else to_json(item)
        return found
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


@cache
def _written(kind: type) -> list[tuple[str, bool]] | None:
    """The fields of a dataclass, and whether JSON lacks them where they are None; None for other classes."""
    if not dataclasses.is_dataclass(kind):
        return None
    return [(field.name, field.metadata == LEFT_OUT) for field in dataclasses.fields(kind)]


def from_json(kind: type[Record], plain: Any) -> Record:
    """The record of a class that `to_json` was given; raises `TypeError` where a field without a default is missing."""
    made: Any = kind
    found: Record = _read(_reader(made), plain)
    return found


@cache
def _reader(kind: Any) -> Reader | None:
    """What reads values of a type, worked out once; None where they are what JSON has."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN or origin is typing.Literal:
        return None
    if kind is datetime:
        return datetime.fromisoformat
    if origin in _UNIONS:
        (inner,) = (_reader(arg) for arg in args if arg is not type(None))
        return inner and (lambda plain: None if plain is None else inner(plain))
    if origin is list or (origin is tuple and args[-1] is Ellipsis):
        item = _reader(args[0])
        return origin if item is None else lambda plain: origin(map(item, plain))
    if origin is tuple:
        readers = [_reader(arg) for arg in args]
        return lambda plain: tuple(_read(reader, item) for reader, item in zip(readers, plain, strict=True))
    if origin is dict:
        value = _reader(args[1])
        return dict if value is None else lambda plain: {name: value(item) for name, item in plain.items()}
    return _record_reader(kind)


def _record_reader(kind: Any) -> Reader:
    """What reads records of a class."""
    fields = {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}
    if issubclass(kind, tuple):
        return lambda plain: kind(*(_read(reader, item) for reader, item in zip(fields.values(), plain, strict=True)))
    read = {name: reader for name, reader in fields.items() if reader is not None}

    def record(plain: Any) -> Any:
        return kind(**{n: read[n](item) if n in read else item for n, item in plain.items() if n in fields})

    return record


def _read(reader: Reader | None, plain: Any) -> Any:
    return plain if reader is None else reader(plain)
