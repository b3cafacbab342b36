"""Which Muntin this is: tasks of one must not run on executors that have another.

The version alone does not tell: a package that was shipped last week has the same one as the sources of today.
"""

from __future__ import annotations

import socket
import zlib
from pathlib import Path

from muntin import __version__
from muntin.model import MuntinError

PACKAGE = Path(__file__).parents[2]


def digest_of(package: Path) -> str:
    """Of the names and contents of all sources."""
    crc = 0
    for source in sorted(package.rglob("*.py")):
        crc = zlib.crc32(f"{source.relative_to(package)}\n".encode() + source.read_bytes(), crc)
    return f"{crc:08x}"


BUILD = f"{__version__} (sources {digest_of(PACKAGE)})"
PLACE = f"{socket.gethostname()}:{PACKAGE}"
"""Where it is installed. Whoever changes sources while a job runs from there knows what they do."""


def refuse_other_build(build: str, place: str) -> None:
    """Refuse what a driver sends that has another build, from another place."""
    if place != PLACE and build != BUILD:
        raise MuntinError(
            f"the executor on {socket.gethostname()} has Muntin {BUILD}, the driver has {build}",
            hint=f"install the driver's on every machine, or ship it with `muntin package`; this one is in {PACKAGE}",
        )
