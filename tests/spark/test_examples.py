"""The jobs in `examples/` run as their READMEs say, and give what DuckDB says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from . import duck

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = {"second": 1, "seconds": 1, "min": 60}
QUERY = re.compile(
    r"CREATE QUERY (\w+) AS\s+SELECT (.*?)\s+FROM (.*?)\s+WHERE (.*?)"
    r"(?:\s+(GROUP BY .*?)(?: WINDOW UNTIL ([\w.]+))? EMIT FINAL)?(?:\s+WINDOW (\d+ \w+))?;",
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
    for name, select, source, where, groups, until, window in QUERY.findall(text):
        where += f" AND B.ts < {until}" if until else ""
        own = [1e-6 if now else seconds(length) for length, now in RANGE.findall(source)]
        windows = (own[0], own[1]) if own else (seconds(window),) * 2
        found[name] = duck.wanted(select, RANGE.sub("", source), where, windows, groups)
    return found


def commands(readme: Path) -> list[list[str]]:
    """The commands that an example's README gives, without the program's name."""
    (block,) = re.findall(r"^```bash\n(.*?)^```", readme.read_text(), re.DOTALL | re.MULTILINE)
    return [line.split()[1:] for line in block.splitlines()]


def marked(example: Path) -> object:
    """One of them on Spark; the others have no other sources and sinks."""
    on_spark = example.name == "auctions"
    return pytest.param(example, marks=pytest.mark.spark if on_spark else pytest.mark.stand_in, id=example.name)


@pytest.mark.parametrize("example", [marked(p.parent) for p in sorted(EXAMPLES.glob("*/job.sql"))])
def test_an_example_runs_as_its_readme_says_and_gives_what_duckdb_says(
    muntin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Path
):
    text = (example / "job.sql").read_text()
    monkeypatch.chdir(tmp_path)
    here = Path("examples", example.name)
    here.mkdir(parents=True)
    shutil.copy(example / "job.sql", here)
    said = {}
    for command in commands(example / "README.md"):
        code, said[command[0]], err = muntin(*command)
        assert code == 0, err
    assert list(said) == ["generate", "check", "run", "status"]
    code, out, err = muntin(
        "run", here / "job.sql", "--output", here / "out", "--checkpoint", here / "ckpt", "--bounded"
    )
    assert code == 0, err
    queries = wanted(text)
    assert len(queries) == text.count("CREATE QUERY")
    with duck.connect({name: Path(path) for name, path in STREAM.findall(text)}) as base:
        for name, mark in MARKED.findall(text):
            base.execute(f"DELETE FROM {name} WHERE {mark}")
        for name, sql in queries.items():
            rows, missing, too_many = duck.difference(base, sql, here / "out" / name)
            assert rows > 0
            assert (missing, too_many) == (0, 0), name
            assert duck.is_ordered(here / "out" / name), name
            assert re.search(rf"^ ?{name} +{rows:,} *$", out, re.MULTILINE), "and the summary says how many"
