"""Every durable action has its crash points, the page says what they leave, and a process dies there for real."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.spark.checkpoint import FileKind, read_json
from muntin.spark.store.crash_points import ACTIONS, VARIABLE

ROOT = Path(__file__).parents[3]
SOURCES = "\n".join(file.read_text() for file in (ROOT / "src" / "muntin" / "spark").rglob("*.py"))


def test_the_page_has_the_table_of_the_registry():
    page = (ROOT / "docs" / "reliability.md").read_text().partition("## Crash points")[2]
    told = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert told[1:] == [(name, action.by, action.before, action.after) for name, action in ACTIONS.items()]


def test_every_action_is_reached_somewhere_and_every_point_is_in_the_registry():
    reached = set(re.findall(r'crash_points\.(?:durable|before|after)\("([^"]+)"\)', SOURCES)) | set(FileKind)
    in_java = {name for name, action in ACTIONS.items() if action.by == "Spark"}
    java = (ROOT / "tests" / "crash" / "FileManager.java").read_text()
    assert reached | in_java == set(ACTIONS)
    assert [name for name in in_java if f'"{name}"' not in java] == []


WRITES = """
from pathlib import Path
from muntin.spark.checkpoint import FileKind, write_json
for number in range(5):
    write_json(Path({file!r}), FileKind.PLAN, number)
"""


@pytest.mark.parametrize(
    ("point", "left"), [("before plan:3", 1), ("after plan:3", 2), ("after file aside:2", 0), ("after request", 4)]
)
def test_a_process_dies_at_its_point_and_leaves_what_was_there(tmp_path: Path, point: str, left: int):
    file = tmp_path / "0000000001.json"
    command = [sys.executable, "-c", WRITES.format(file=str(file))]
    died = subprocess.run(command, env={**os.environ, VARIABLE: point}, check=False).returncode
    assert died == (0 if point == "after request" else -signal.SIGKILL)
    assert read_json(file, FileKind.PLAN) == left
    assert len(list(tmp_path.glob(".*.tmp"))) == ("aside" in point)


def test_a_point_that_does_not_exist_is_refused(tmp_path: Path):
    command = [sys.executable, "-m", "muntin.cli.main", "status", "--checkpoint", str(tmp_path)]
    environment = {**os.environ, VARIABLE: "after lunch"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert told.returncode == 2 and "names no crash point" in told.stderr
