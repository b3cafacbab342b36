"""The archive of Spark's classes: which Java uses it, which one writes it, and when neither does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.session import class_archive
from muntin.spark.session.class_archive import CLASS_PATH, JAVA_OPTIONS, adopted, being_written, key_of, with_archive
from muntin.spark.session.java import cache_folder, ensure_java

WHOLE = 0xF00BABA8.to_bytes(4, "little")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in class_archive.FROM_OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    ensure_java()


def written(key: str, begins: bytes = WHOLE, megabytes: int = 120) -> Path:
    """As Java writes it."""
    with open(being_written(key), "wb") as file:
        file.write(begins)
        file.truncate(megabytes << 20)
    return being_written(key)


def test_a_first_java_writes_it_and_the_next_ones_use_it():
    settings = {JAVA_OPTIONS: "-Dx=1", "spark.ui.enabled": "false"}
    key = key_of(settings)
    first = with_archive(settings)
    assert first[JAVA_OPTIONS].startswith(f"-Dx=1 -XX:ArchiveClassesAtExit={being_written(key)} ")
    written(key)
    for _ in range(2):
        option = with_archive(settings)[JAVA_OPTIONS].split()[1]
        name, _, file = option.partition("=")
        assert name == "-XX:SharedArchiveFile" and Path(file).stat().st_size == 120 << 20
    assert with_archive(settings) == {**first, JAVA_OPTIONS: first[JAVA_OPTIONS].replace(
        f"ArchiveClassesAtExit={being_written(key)}", f"SharedArchiveFile={file}")}  # fmt: skip


@pytest.mark.parametrize(("begins", "megabytes"), [(bytes(4), 120), (WHOLE, 60), (b"", 0)])
def test_one_that_was_cut_short_or_says_little_is_written_anew(begins: bytes, megabytes: int):
    written(key_of({}), begins, megabytes)
    assert adopted(key_of({})) is None
    assert "ArchiveClassesAtExit" in with_archive({})[JAVA_OPTIONS]


def test_one_that_has_become_shorter_is_written_anew_since_java_would_end():
    key = key_of({})
    written(key)
    archive = adopted(key)
    assert archive is not None
    os.truncate(archive, 110 << 20)
    assert adopted(key) is None and not archive.exists()


@pytest.mark.parametrize("option", ["-Xshare:off", "-XX:SharedArchiveFile=own.jsa", "-XX:ArchiveClassesAtExit=own.jsa"])
@pytest.mark.parametrize("place", ["settings", *class_archive.FROM_OUTSIDE])
def test_what_the_user_says_of_it_holds(option: str, place: str, monkeypatch: pytest.MonkeyPatch):
    settings = {JAVA_OPTIONS: f"-Da=b {option}"} if place == "settings" else {}
    if place != "settings":
        monkeypatch.setenv(place, option)
    assert with_archive(settings) == settings


def test_another_java_or_class_path_or_version_of_a_file_has_another_one(tmp_path: Path):
    own = tmp_path / "own.jar"
    own.write_bytes(b"1")
    settings = {CLASS_PATH: str(own)}
    before = key_of(settings)
    assert before not in (key_of({}), key_of({CLASS_PATH: "else.jar"}))
    os.utime(own, (1, 1))
    assert key_of(settings) != before


def test_a_few_are_kept():
    for n in range(5):
        os.utime(written(f"spark-{n}", megabytes=1), (n, n))
    with_archive({})
    assert sorted(path.name for path in cache_folder().glob("spark-*")) == ["spark-3.new", "spark-4.new"]


@pytest.mark.spark
def test_the_java_of_a_session_uses_the_archive_or_writes_it(spark: Any):
    runtime = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    options = " ".join(runtime.getInputArguments())
    assert "-XX:SharedArchiveFile=" in options or "-XX:ArchiveClassesAtExit=" in options
