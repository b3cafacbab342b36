"""Which Python runs on executors.

Spark starts one program, by one name, on executors and on the driver: it learns the schema of a state there. So a path
has to be the same everywhere. A name without a folder is looked up on each machine; on the driver it then means the
Python that runs this.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from muntin.model import UsageError

PYTHON = "spark.pyspark.python"


def executors_python(settings: Mapping[str, str], folder: Path) -> str:
    """The program for executors: as the settings or the environment say, else the one of this process."""
    asked = settings.get(PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
    if os.sep not in asked:
        name_here(asked, folder)
    elif shutil.which(asked) is None:
        raise UsageError(
            f"{PYTHON} is {asked}, which is not a program on the driver",
            hint="Spark starts the same program there: give a name that each machine has on its PATH, such as "
            f"python{sys.version_info.major}.{sys.version_info.minor}, or a path that all of them have",
        )
    return asked


def name_here(name: str, folder: Path) -> None:
    """Let a name on the path of Java, which is about to start, mean the Python of this process."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    script = programs / name
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o700)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
