"""An archive of the classes that Spark loads, which every Java of the tests shares.

    PYTHONPATH=src:tests python tests/java_archive.py

Spark loads some fifteen thousand classes from hundreds of files, and Java checks each of them. From an archive of what
one run has loaded it takes them as they are: a run starts with a third less work. `make test` makes the archive once.
Where it does not fit, since Java, Spark or the class path is another one, Java goes on without it and says nothing.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
BRIEF = "-XX:TieredStopAtLevel=1"
"""Every Java of the tests runs for minutes at most: what its second compiler would save is less than what it costs."""
SILENT = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def java_options() -> str:
    """With what a Java of the tests starts."""
    return f"{BRIEF} -XX:SharedArchiveFile={ARCHIVE} {SILENT}" if ARCHIVE.exists() else BRIEF


def make(archive: Path) -> None:
    """Let Java keep, when it ends, what it has loaded in a run with joins, aggregates and state."""
    from pyspark import SparkContext

    from crash.cycles import RUN, Place
    from muntin.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        place, aside = Place(Path(folder) / "job", None, "batch", random.Random(0)), Path(folder) / "classes.jsa"
        place.come()
        os.environ["SPARK_SUBMIT_OPTS"] = f"{BRIEF} -XX:ArchiveClassesAtExit={aside} {SILENT}"
        with contextlib.chdir(place.root):
            assert main([*RUN, "--available-now"]) == 0
        java: subprocess.Popen[bytes] = SparkContext._gateway.proc
        assert java.stdin is not None
        java.stdin.close()
        java.wait()
        shutil.move(aside, archive)


if __name__ == "__main__":
    ARCHIVE.unlink(missing_ok=True)
    make(ARCHIVE)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size >> 20} MB")
