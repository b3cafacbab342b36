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
"""Of what this process has imported: taken at once, since sources may change while it runs."""


def refuse_other_build(driver: str) -> None:
    if driver != BUILD:
        raise MuntinError(
            f"the executor on {socket.gethostname()} has Muntin {BUILD}, the driver has {driver}",
            hint=f"install the driver's on every machine, or ship it with `muntin package`; this one is in {PACKAGE}",
        )
