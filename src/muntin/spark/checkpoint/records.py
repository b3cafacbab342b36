"""Dataclasses as plain JSON, and back by the types of their fields.

A field marked `LEFT_OUT` is not written where it is None. What a file has beside the fields is not read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")
LEFT_OUT = {"left out": True}
"""Metadata of a field that JSON lacks where it is None."""


def to_json(value: Any) -> Any:
    """A dataclass made of dataclasses, sequences, mappings and plain values, as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = ((name, getattr(value, name), left_out) for name, left_out in _names(type(value)))
        return {name: to_json(item) for name, item, left_out in found if item is not None or not left_out}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def from_json(made: type[Record], plain: Mapping[str, Any]) -> Record:
    """What `to_json` was given; raises `TypeError` where a field without a default is missing."""
    types: dict[str, Any] = _types(made)  # type: ignore[arg-type]
    return made(**{name: _value(types[name], item) for name, item in plain.items() if name in types})


@cache
def _names(made: type[Any]) -> list[tuple[str, bool]]:
    """The fields of a dataclass, and whether JSON lacks them where they are None."""
    return [(field.name, field.metadata == LEFT_OUT) for field in dataclasses.fields(made)]


@cache
def _types(made: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(made)
    return {field.name: hints[field.name] for field in dataclasses.fields(made)}


def _value(wanted: Any, plain: Any) -> Any:
    if plain is None:
        return None
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return _value(next(one for one in inner if one is not type(None)), plain)
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return from_json(wanted, plain)
    if origin is list:
        return [_value(inner[0], item) for item in plain]
    if origin is tuple:
        each = [inner[0]] * len(plain) if inner[-1] is Ellipsis else inner
        return tuple(_value(one, item) for one, item in zip(each, plain, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {inner[0](key): _value(inner[1], item) for key, item in plain.items()}
    return plain
