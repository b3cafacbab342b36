"""Java is found, judged and, where the machine has none, brought along."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.spark import java


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
    import subprocess

    said = subprocess.run(
        [home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split("\n")[:2] == ["<-Da=b c>", "<-version>"]
