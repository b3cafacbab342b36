"""Lets a first Java write the archive of classes that every Java of the tests shares (`session/class_archive.py`).

    PYTHONPATH=src:tests python tests/java_archive.py

It runs a job with joins, aggregates and state, and waits until Java has ended, which takes some seconds longer.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import tempfile
from pathlib import Path

BRIEF = "-XX:TieredStopAtLevel=1"
"""Every Java of the tests runs for minutes at most: what its second compiler would save is less than what it costs."""


def main() -> None:
    from pyspark import SparkContext

    from crash.cycles import RUN, Place
    from muntin.cli.main import main as run

    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "job", None, "batch", random.Random(0))
        place.come()
        with contextlib.chdir(place.root):
            assert run([*RUN, "--available-now"]) == 0
        java: subprocess.Popen[bytes] = SparkContext._gateway.proc
        assert java.stdin is not None
        java.stdin.close()
        java.wait()


if __name__ == "__main__":
    os.environ["SPARK_SUBMIT_OPTS"] = BRIEF
    main()
