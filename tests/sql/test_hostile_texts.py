"""Texts that are meant to take all time or memory: refused, or done in time that grows with the data alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from muntin.core.batch import stream_schema
from muntin.model import SqlError
from muntin.sql import parse_job
from muntin.testing import LocalJob

HEAD = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, s STRING) TIMESTAMP BY ts WITH (format = 'json', path = '{name}');"
    for name in "AB"
)
LONG = "a" * 20_000


def value_of(expression: str) -> object:
    """What an expression over a text of many letters gives."""
    spec = parse_job(f"{HEAD}CREATE QUERY q AS SELECT {expression} AS x FROM A, B WHERE A.k = B.k WINDOW 1 s;")
    row = pa.Table.from_pylist([{"ts": 1, "k": 1, "s": LONG}], stream_schema(spec.streams["A"]))
    job = LocalJob(spec)
    found = [*job.push({"A": row, "B": row})["q"]["x"].to_pylist(), *job.push({}, ended=True)["q"]["x"].to_pylist()]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|aa)+b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)(.*)b", "^(([a-z])+.)+[A-Z]([a-z])+$", "a{1,200}b"],
)
def test_patterns_that_others_backtrack_over_end(pattern: str):
    """An engine that tries one way after the other would not end before the sun does."""
    value_of(f"A.s RLIKE '{pattern}'")
    value_of(f"regexp_replace(A.s, '{pattern}', 'x')")


@pytest.mark.parametrize("pattern", ["%a" * 60 + "%b", "%a_" * 60 + "b", "_%a" * 60 + "b%"])
def test_likes_with_many_wildcards_end(pattern: str):
    value_of(f"A.s LIKE '{pattern}'")
    value_of(f"A.s ILIKE '{pattern}'")


@pytest.mark.parametrize("pattern", ["((a{100}){100}){100}", "(((a{1,10}){1,10}){1,10}){1,10}b", "((a+){500}){500}"])
def test_patterns_that_make_large_automata_are_refused(pattern: str):
    with pytest.raises(SqlError):
        value_of(f"A.s RLIKE '{pattern}'")


@pytest.mark.parametrize(
    "expression",
    ["repeat(A.s, 2000000000)", "space(2000000000)", "lpad(A.s, 2000000000, 'x')", "rpad('x', 2147483647, A.s)",
     "repeat(repeat(A.s, 10000), 10000)"],
)  # fmt: skip
def test_no_row_takes_all_memory(expression: str):
    assert value_of(f"length({expression})") is None


@pytest.mark.parametrize(
    "text",
    ["(" * 5000 + "1" + ")" * 5000, "NOT " * 5000 + "TRUE", "-" * 5000 + "1", "+".join(["A.k"] * 50_000),
     "CASE WHEN TRUE THEN " * 2000 + "1" + " END" * 2000, "'" + "x" * 300_000 + "'", "f(" * 5000, "[" * 5000],
)  # fmt: skip
def test_nesting_and_length_have_their_limits(text: str):
    with pytest.raises(SqlError):
        parse_job(f"{HEAD}CREATE QUERY q AS SELECT {text} AS x FROM A, B WHERE A.k = B.k WINDOW 1 s;")
