"""Records survive the way through JSON, whatever they are made of."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from muntin.model.records import from_json, to_json


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Inner:
    name: str
    at: Point | None = None


@dataclass(frozen=True)
class Outer:
    numbers: list[int]
    inner: Inner
    by_name: dict[str, list[Inner]]
    pair: tuple[int, str]
    points: tuple[Point, ...]
    anything: Any
    missing: Inner | None = None
    flags: list[bool] = field(default_factory=lambda: [True, False])


def test_a_record_comes_back_as_it_was():
    outer = Outer(
        numbers=[1, 2],
        inner=Inner("a", Point(3, 4)),
        by_name={"x": [Inner("b")], "y": []},
        pair=(5, "c"),
        points=(Point(6, 7),),
        anything={"free": [1]},
        missing=Inner("d"),
    )
    plain = json.loads(json.dumps(to_json(outer)))
    assert from_json(Outer, plain) == outer
    assert from_json(list[Outer], [plain, plain]) == [outer, outer]


def test_what_a_record_lacks_is_named():
    plain = to_json(Inner("a"))
    del plain["name"]
    with pytest.raises(TypeError, match="name"):
        from_json(Inner, plain)


class Span(NamedTuple):
    first: int
    rows: int


@dataclass
class Spans:
    of: dict[str, Span] = field(default_factory=dict)


def test_mappings_of_named_tuples_of_numbers_are_written_and_read_all_together():
    spans = Spans({"a": Span(1, 2), "b": Span(3, 4)})
    plain = to_json(spans)
    assert plain == {"of": {"a": [1, 2], "b": [3, 4]}}
    found = from_json(Spans, plain)
    assert found == spans and type(found.of["a"]) is Span and found.of["b"].rows == 4
    for wrong in ([1], [1, 2, 3], [1, "2"], [1, True], [1, 2.0], "ab", {"first": 1, "rows": 2}):
        with pytest.raises(TypeError):
            from_json(Spans, {"of": {"a": [1, 2], "b": wrong}})
    assert from_json(Spans, to_json(Spans())) == Spans()
