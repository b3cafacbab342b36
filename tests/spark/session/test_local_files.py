"""Files that Spark makes on this machine: with the permissions that Hadoop gives them, without a process for each."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.session import local_files

pytestmark = pytest.mark.spark


@pytest.fixture
def local(spark: Any) -> Any:
    """Hadoop's file system for local paths, as Spark itself gets it."""
    java = spark.sparkContext._jvm
    return java.org.apache.hadoop.fs.FileSystem.get(
        java.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )


def path(spark: Any, place: Path) -> Any:
    return spark.sparkContext._jvm.org.apache.hadoop.fs.Path(str(place))


def work_of_children(spark: Any) -> int:
    """Ticks of a core that processes took which Java had started and which are over."""
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    user, system = Path(f"/proc/{java}/stat").read_text().rsplit(")")[-1].split()[13:15]
    return int(user) + int(system)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted where Linux does")
def test_files_are_made_without_a_process_for_each(spark: Any, local: Any, tmp_path: Path):
    assert local.getClass().getName() == local_files.CLASS
    before = work_of_children(spark)
    for n in range(20):
        local.create(path(spark, tmp_path / "folder" / f"{n}"), True).close()
    assert work_of_children(spark) == before
    assert len(list((tmp_path / "folder").glob(".*.crc"))) == 20, "the sums are still written"


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o751, 0o1777])
def test_permissions_are_those_that_were_asked_for(spark: Any, local: Any, tmp_path: Path, bits: int):
    file = tmp_path / "file"
    file.touch()
    permission = spark.sparkContext._jvm.org.apache.hadoop.fs.permission.FsPermission(format(bits, "o"))
    local.setPermission(path(spark, file), permission)
    assert stat.S_IMODE(file.stat().st_mode) == bits


def test_a_java_that_somebody_else_has_started_is_left_alone(spark: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local_files, "CLASS", "muntin.Unknown")
    assert local_files.without_processes({"spark.ui.enabled": "false"}) == {"spark.ui.enabled": "false"}
