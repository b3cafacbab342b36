"""The process that workers are forked from."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from muntin.spark.worker.daemon import without_archives

LIB = Path(pyspark.__file__).parent / "python" / "lib"
PREPARED = """
import gc, sys
from muntin.spark.worker import daemon
daemon.prepare()
print(daemon.threads(), "numba" in sys.modules, gc.get_freeze_count() > 50_000, any(".zip" in p for p in sys.path))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is imported before the fork")
def test_it_imports_what_workers_need_and_stays_a_single_thread():
    archives = os.pathsep.join(str(path) for path in sorted(LIB.glob("*.zip")))
    env = {**os.environ, "PYTHONPATH": archives, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PREPARED], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["1", "True", "True", "False"], done.stderr


def test_archives_of_another_version_stay(tmp_path):
    other = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(other, "w") as files:
        files.writestr("pyspark/version.py", "__version__: str = '0.1'")
    site = str(Path(pyspark.__file__).parents[1])
    assert without_archives([str(other), site]) == [str(other), site]
    assert without_archives([str(LIB / "pyspark.zip"), site]) == [site]
    assert without_archives([str(LIB / "pyspark.zip")]) == [str(LIB / "pyspark.zip")]
