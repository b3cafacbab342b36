"""The job files in `examples/` run as their comments say, and give what DuckDB says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from . import duck

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = {"second": 1, "seconds": 1, "min": 60}
QUERY = re.compile(
    r"CREATE QUERY (\w+) AS\s+SELECT (.*?)\s+FROM (.*?)\s+WHERE (.*?)"
    r"(?:\s+(GROUP BY .*?) EMIT FINAL)?(?:\s+WINDOW (\d+ \w+))?;",
    re.DOTALL,
)
STREAM = re.compile(r"CREATE STREAM (\w+) .*?path = '(.*?)'", re.DOTALL)
MARKED = re.compile(r"CREATE STREAM (\w+) [^;]*PUNCTUATION WHEN (\w+)")
RANGE = re.compile(r" \[(?:RANGE (\d+ \w+)|(NOW))\]")


def seconds(text: str) -> float:
    number, unit = text.split()
    return int(number) * SECONDS[unit]


def wanted(text: str) -> dict[str, str]:
    """Each query of a job file for DuckDB, read from its text and not from what Muntin makes of it."""
    found = {}
    for name, select, source, where, groups, window in QUERY.findall(text):
        own = [1e-6 if now else seconds(length) for length, now in RANGE.findall(source)]
        windows = (own[0], own[1]) if own else (seconds(window),) * 2
        found[name] = duck.wanted(select, RANGE.sub("", source), where, windows, groups)
    return found


def commands(text: str) -> list[list[str]]:
    """The commands that a job file's comments give, without the program's name."""
    return [line.split()[2:] for line in text.splitlines() if line.startswith("--   muntin ")]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.sql")), ids=lambda path: path.stem)
def test_an_example_runs_as_its_comments_say_and_gives_what_duckdb_says(
    muntin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Path
):
    text = example.read_text()
    monkeypatch.chdir(tmp_path)
    Path("examples").mkdir()
    shutil.copy(example, "examples")
    assert [command[0] for command in commands(text)] == ["generate", "run"]
    for command in commands(text):
        code, out, err = muntin(*command)
        assert code == 0, err
    queries = wanted(text)
    assert len(queries) == text.count("CREATE QUERY")
    with duck.connect({name: Path(path) for name, path in STREAM.findall(text)}) as base:
        for name, mark in MARKED.findall(text):
            base.execute(f"DELETE FROM {name} WHERE {mark}")
        for name, sql in queries.items():
            rows, missing, too_many = duck.difference(base, sql, Path("out", name))
            assert rows > 0
            assert (missing, too_many) == (0, 0), name
            assert duck.is_ordered(Path("out", name)), name
            assert re.search(rf"^ ?{name} +{rows:,} *$", out, re.MULTILINE), "and the summary says how many"
