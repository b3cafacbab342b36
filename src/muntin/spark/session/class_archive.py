"""An archive of the classes that Spark loads, which each later Java of this user takes as they are.

Spark loads some fifteen thousand classes from hundreds of files, and Java checks each of them anew: a third of the work
until a first result. The first Java that finds no archive writes one when it ends, in the background, once; it lies
beside our other files in the cache folder. Where it does not fit, Java goes on without it and says nothing. So each
Java, Spark and class path has an archive of its own, and the oldest make room.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from zlib import crc32

from muntin.spark.session.java import cache_folder, wrapped_by

JAVA_OPTIONS, CLASS_PATH = "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"
FROM_OUTSIDE = "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"
"""Variables of the environment in which options for Java may stand, too."""
_OWN = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit")
_SILENT = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_MAGIC = 0xF00BABA8.to_bytes(4, sys.byteorder)
"""How an archive begins. Java writes that last, so one that was cut short does not."""
_LEAST_BYTES = 100 << 20
"""That of a run has nearly twice as many; one with less comes from a Java that ended before it did anything."""
_KEPT = 2
"""Archives beside one that is to be written."""


def with_archive(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of Spark's with which Java uses the archive, or writes it when it ends; as they are where the user has
    said something of that."""
    given = settings.get(JAVA_OPTIONS, "")
    if _OWN.search(" ".join([given, *(os.environ.get(name, "") for name in FROM_OUTSIDE)])):
        return dict(settings)
    archive = archive_for(settings)
    use = "SharedArchiveFile" if is_whole(archive) else "ArchiveClassesAtExit"
    if use == "ArchiveClassesAtExit":
        _make_room(archive)
    return {**settings, JAVA_OPTIONS: f"{given} -XX:{use}={archive} {_SILENT}".lstrip()}


def archive_for(settings: Mapping[str, str]) -> Path:
    """Where the archive of this Java, Spark and class path lies; Java looks at when each file was written, too."""
    from pyspark.find_spark_home import _find_spark_home

    java = wrapped_by(Path(os.environ["JAVA_HOME"], "bin", "java"))
    own = [Path(entry) for entry in settings.get(CLASS_PATH, "").split(os.pathsep) if entry]
    files = [java.resolve(), Path(_find_spark_home()) / "jars", *own]
    text = "\n".join(f"{file} {file.stat().st_mtime_ns if file.exists() else 0}" for file in files)
    return cache_folder() / f"spark-{crc32(text.encode()):08x}.jsa"


def is_whole(archive: Path) -> bool:
    """Whether a Java that has run a job has written it to its end."""
    try:
        with open(archive, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC and os.fstat(file.fileno()).st_size >= _LEAST_BYTES
    except OSError:
        return False


def _make_room(archive: Path) -> None:
    """Remove all but the newest of the other archives; a Java that uses one keeps what it has."""
    others = [path for path in archive.parent.glob("spark-*.jsa") if path != archive]
    for old in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
        old.unlink(missing_ok=True)
