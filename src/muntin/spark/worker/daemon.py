"""The process that Spark forks its Python workers from: PySpark's own daemon, after it has imported what they need.

Two things make PySpark's workers dear. Each of them imports pandas, PyArrow, numba and the rest for itself, about three
seconds of a core, and PySpark from an archive without bytecode. And each collects garbage after every task, which goes
through all that the imports have left: 70 ms, as long as many a task. Here the imports happen once, before the fork,
and what they leave is set aside from the collector.

Forking is safe only while there is a single thread. Of the imports only PyArrow starts one, for an allocator that is
not used, and can be told not to. Should there be more than one thread all the same, PySpark's daemon takes over in a
fresh process.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import os
import re
import sys
import zipfile
from pathlib import Path

SINGLE_THREADED = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
_VERSION = re.compile(rb"__version__[^=]*= *[\"']([^\"']+)")
"""In `pyspark/version.py`."""
SETTLING = (1, 3, 10, 30)
"""Tasks of a worker after which it sets aside what is there; later ones leave nothing that stays."""
_tasks = 0
NEEDED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pandas",
    "muntin.spark.ingest",
    "muntin.spark.control",
    "muntin.spark.shard",
    "muntin.spark.shard",
    "muntin.spark.sink",
)


def without_archives(path: list[str]) -> list[str]:
    """The search path without archives, if PySpark is installed on it in the version that they hold."""
    rest = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    archive = next((entry for entry in path if entry.endswith("pyspark.zip")), None)
    found = importlib.machinery.PathFinder.find_spec("pyspark", rest)
    if archive is None or found is None or found.origin is None:
        return path
    installed = Path(found.origin).with_name("version.py")
    with zipfile.ZipFile(archive) as files:
        packed = _VERSION.search(files.read("pyspark/version.py"))
    here = _VERSION.search(installed.read_bytes()) if installed.exists() else None
    return rest if packed and here and packed[1] == here[1] else path


def threads() -> int:
    """Of this process, those included that Python does not know of."""
    return len(os.listdir("/proc/self/task"))


def prepare() -> None:
    """Import what workers need and set it aside from the collector."""
    sys.path[:] = without_archives(sys.path)
    sys.path_importer_cache.clear()
    if sys.platform != "linux":  # elsewhere system libraries do not survive a fork, and threads cannot be counted
        return
    os.environ |= SINGLE_THREADED
    for name in NEEDED:
        importlib.import_module(name)
    if threads() > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    gc.collect()
    gc.freeze()


def set_aside() -> None:
    """At the end of a task: what the first ones have left for good, such as compiled kernels, is set aside as well."""
    global _tasks
    _tasks += 1
    if _tasks in SETTLING:
        gc.collect()
        gc.freeze()


if __name__ == "__main__":
    prepare()
    from pyspark.daemon import manager

    manager()
