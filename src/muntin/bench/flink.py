"""Flink's own environment: `apache-flink` from PyPI, apart from ours, whose PyArrow and pandas it does not go with."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from muntin.bench import peer_flink
from muntin.bench.peers import Heard, Tell, listen
from muntin.bench.workload import Workload
from muntin.model import MuntinError
from muntin.spark.session import cache_folder, find_java

VERSION = "2.3.0"
INSTALL_S = 1200
PYTHONS = ((3, 9), (3, 12))
"""The versions of Python that this Flink is built for, both included."""

READS = {"one": 1, "each": 2}
"""Of how many parts of the files the first: one join goes through all in a minute, twelve take several for a half."""


def ensure_flink(tell: Tell) -> Path:
    """The Python of Flink's environment, set up on first use (about 850 MB); says why where it cannot be had."""
    folder = cache_folder() / f"flink-{VERSION}-py{sys.version_info.major}{sys.version_info.minor}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists() and python.exists():
        return python
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise MuntinError(f"apache-flink {VERSION} is not built for Python {sys.version_info[0]}.{sys.version_info[1]}")
    tell(f"setting up apache-flink {VERSION} in {folder}, once")
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"apache-flink=={VERSION}"],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.TimeoutExpired:
            raise MuntinError(
                f"apache-flink {VERSION} could not be installed within {INSTALL_S // 60} minutes"
            ) from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise MuntinError(f"apache-flink {VERSION} could not be installed: {last}")
    ready.touch()
    return python


def part_of(kind: str, load: Workload) -> Workload:
    """What Flink reads of a workload, reported in steps of a fifth of our micro-batches."""
    return replace(load, rows=load.rows // READS[kind], batch_rows=load.batch_rows // 5)


def whole_files(load: Workload, folder: Path) -> None:
    """What Flink reads of each stream as one CSV file: it keeps no order between files."""
    for kind, divisor in READS.items():
        for source in sorted((folder / "csv").iterdir()):
            target = folder / "flink" / kind / source.name / "all.csv"
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                for file in sorted(source.glob("*.csv"))[: load.batches // divisor]:
                    out.write(file.read_bytes())


def environment() -> dict[str, str]:
    """What Flink's processes are started with: our Java, half of the machine's memory, nothing of our Python."""
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    env = {**os.environ, "JAVA_HOME": str(find_java().parent.parent), "JVM_ARGS": f"-Xmx{megabytes // 2}m"}
    env.pop("PYTHONPATH", None)
    return env


def flink(python: Path, kind: str, load: Workload, folder: Path, limit_s: float) -> Heard:
    sizes = ("--rows", str(load.rows), "--step", str(load.batch_rows))
    return listen([str(python), str(peer_flink.__file__), str(folder), kind, *sizes], limit_s, environment())
