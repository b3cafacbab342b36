"""Values of the model as plain JSON, and back: for files that other processes read without parsing SQL again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any

import muntin.model as model
from muntin.model import job, types

CLASS, VALUE = "is", "value"
_AS_IT_IS = frozenset([int, float, str, bool, type(None)])
CLASSES = {
    name: value
    for module in (model, job, types)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__.startswith("muntin.model")
}
"""The model's classes; no others are ever made of what a file says."""


def to_plain(value: Any) -> Any:
    """A value made of the model's classes, tuples, mappings by name and plain values, as JSON has it."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    fields = _fields(kind)
    if fields is not None:
        return {CLASS: kind.__name__, **{name: to_plain(getattr(value, name)) for name in fields}}
    if isinstance(value, Enum):
        return {CLASS: type(value).__name__, VALUE: value.value}
    if isinstance(value, Mapping):
        return {CLASS: "dict", VALUE: {name: to_plain(item) for name, item in value.items()}}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


@cache
def _fields(kind: type) -> list[str] | None:
    """The fields of a dataclass; None for other classes."""
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else None


def from_plain(plain: Any) -> Any:
    """What `to_plain` was given."""
    if isinstance(plain, list):
        return tuple(from_plain(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    kind = plain[CLASS]
    if kind == "dict":
        return {name: from_plain(item) for name, item in plain[VALUE].items()}
    made = CLASSES[kind]
    if issubclass(made, Enum):
        return made(plain[VALUE])
    return made(**{name: from_plain(item) for name, item in plain.items() if name != CLASS})
