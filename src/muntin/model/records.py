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
from functools import cache, partial
from itertools import chain
from typing import Any, TypeVar

Record = TypeVar("Record")
LEFT_OUT = {"left out": True}
"""Metadata of a field that JSON lacks where it is None."""
Reader = Callable[[Any], Any]
_PLAIN = {int: (int,), float: (int, float), str: (str,), bool: (bool,)}
"""What JSON may have where a field is of a type."""
_AS_IT_IS = frozenset([int, float, str, bool, type(None)])
_LISTS = (list, tuple)
_UNIONS = (typing.Union, type(int | None))


def to_json(value: Any) -> Any:
    """A record as JSON has it: dataclasses become objects, named tuples become lists."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if issubclass(kind, _LISTS):
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
        kinds = set(map(type, value.values()))
        if len(kinds) == 1 and _numbers(*kinds):
            return dict(zip(value, map(list, value.values()), strict=True))
        return {name: to_json(item) for name, item in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value


@cache
def _numbers(kind: Any) -> int | None:
    """How many fields a named tuple of whole numbers has; None for other classes. There are thousands of such tuples in
    one mapping, which is why they are written and read all together."""
    hints = typing.get_type_hints(kind) if isinstance(kind, type) and issubclass(kind, tuple) else {}
    return len(hints) if set(hints.values()) == {int} else None


@cache
def _written(kind: type) -> list[tuple[str, bool]] | None:
    """The fields of a dataclass, and whether JSON lacks them where they are None; None for other classes."""
    if not dataclasses.is_dataclass(kind):
        return None
    return [(field.name, field.metadata == LEFT_OUT) for field in dataclasses.fields(kind)]


def from_json(kind: type[Record], plain: Any) -> Record:
    """The record of a class that `to_json` was given; raises `TypeError` where a field without a default is missing, or
    a value is not of the type of its field: what a file says is not believed."""
    made: Any = kind
    found: Record = _read(_reader(made), plain)
    return found


@cache
def _reader(kind: Any) -> Reader | None:
    """What reads values of a type, worked out once; None where they are whatever JSON has."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return None
    if kind in _PLAIN:
        return _plain_reader(kind)
    if origin is typing.Literal:
        return lambda plain: plain if plain in args else _refuse(plain, kind)
    if kind is datetime:
        return datetime.fromisoformat
    if origin in _UNIONS:
        (inner,) = (_reader(arg) for arg in args if arg is not type(None))
        return inner and (lambda plain: None if plain is None else inner(plain))
    if origin is list or (origin is tuple and args[-1] is Ellipsis):
        return _list_reader(origin, args[0])
    if origin is tuple:
        readers = [_reader(arg) for arg in args]
        return lambda plain: tuple(_read(reader, item) for reader, item in zip(readers, plain, strict=True))
    if origin is dict and (count := _numbers(args[1])) is not None:
        return _numbers_reader(args[1], count)
    if origin is dict:
        value = _reader(args[1])
        return dict if value is None else lambda plain: {name: value(item) for name, item in plain.items()}
    return _record_reader(kind)


def _refuse(plain: Any, kind: Any) -> typing.NoReturn:
    raise TypeError(f"{str(plain)[:60]!r} is not {getattr(kind, '__name__', kind)}")


def _plain_reader(kind: Any) -> Reader:
    fits = _PLAIN[kind]
    return lambda plain: plain if type(plain) in fits else _refuse(plain, kind)


def _list_reader(origin: Any, kind: Any) -> Reader:
    """Lists of many numbers are read in one piece."""
    if kind in _PLAIN:
        fits = frozenset(_PLAIN[kind])
        return lambda plain: (
            origin(plain) if type(plain) is list and fits.issuperset(map(type, plain)) else _refuse(plain, f"[{kind}]")
        )
    item = _reader(kind)

    def read(plain: Any) -> Any:
        if not isinstance(plain, list | tuple):
            _refuse(plain, f"[{kind}]")
        return origin(plain if item is None else map(item, plain))

    return read


def _numbers_reader(kind: Any, count: int) -> Reader:
    """What reads named tuples of so many numbers by name."""
    make = partial(tuple.__new__, kind)

    def read(plain: Any) -> Any:
        lists = plain.values()
        fits = {list}.issuperset(map(type, lists)) and {count}.issuperset(map(len, lists))
        if not fits or not {int}.issuperset(map(type, chain.from_iterable(lists))):
            _refuse(plain, kind)
        return dict(zip(plain, map(make, lists), strict=True))

    return read


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
