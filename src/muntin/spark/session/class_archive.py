"""An archive of the classes that Spark loads, which each later Java of this user takes as they are.

Spark loads some fifteen thousand classes from hundreds of files, and Java checks each of them anew: a third of the work
until a first result. The first Java that finds no archive writes one when it ends, in the background, once; it lies
beside our other files in the cache folder. Where it does not fit, Java goes on without it and says nothing. So each
Java, Spark and class path has an archive of its own, and the oldest make room.

Java tells an archive whose bytes have changed, and ends where one has become shorter. So the name says how long it is,
from the first start that finds it written.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from muntin.spark.session.java import cache_folder, wrapped_by

JAVA_OPTIONS, CLASS_PATH = "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"
FROM_OUTSIDE = "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"
"""Variables of the environment in which options for Java may stand, too."""
_OWN = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit")
_CAREFUL = "-XX:+VerifySharedSpaces -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
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
    key = key_of(settings)
    archive = adopted(key)
    if archive is None:
        _make_room(key)
        option = f"-XX:ArchiveClassesAtExit={being_written(key)}"
    else:
        option = f"-XX:SharedArchiveFile={archive}"
    return {**settings, JAVA_OPTIONS: f"{given} {option} {_CAREFUL}".lstrip()}


def key_of(settings: Mapping[str, str]) -> str:
    """What tells this Java, Spark and class path from others; Java looks at when each file was written, too."""
    from pyspark.find_spark_home import _find_spark_home

    java = wrapped_by(Path(os.environ["JAVA_HOME"], "bin", "java"))
    own = [Path(entry) for entry in settings.get(CLASS_PATH, "").split(os.pathsep) if entry]
    files = [java.resolve(), Path(_find_spark_home()) / "jars", *own]
    text = "\n".join(f"{file} {file.stat().st_mtime_ns if file.exists() else 0}" for file in files)
    return f"spark-{crc32(text.encode()):08x}"


def being_written(key: str) -> Path:
    return cache_folder() / f"{key}.new"


def adopted(key: str) -> Path | None:
    """The archive that is there; one that was written since the last start gets its name. None where there is none."""
    new = being_written(key)
    try:
        for archive in cache_folder().glob(f"{key}-*.jsa"):
            if archive.name == f"{key}-{archive.stat().st_size}.jsa":
                return archive
            archive.unlink(missing_ok=True)
        with open(new, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.read(len(_MAGIC)) != _MAGIC or size < _LEAST_BYTES:
                return None
            os.fsync(file.fileno())
        return new.rename(new.with_name(f"{key}-{size}.jsa"))
    except OSError:  # not there, or another process has just named or removed it
        return None


def _make_room(key: str) -> None:
    """Remove all but the newest of the other archives; a Java that uses one keeps what it has."""
    others = [path for path in cache_folder().glob("spark-*") if not path.name.startswith(key)]
    with suppress(FileNotFoundError):  # another process makes room, too
        for old in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
            old.unlink(missing_ok=True)
