"""What a session of ours listens on: loopback alone, and nobody gets in without a secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.session.gateway import java_process

pytestmark = pytest.mark.spark
LISTENING = "0A"
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and 127.0.0.1 as an address of IPv6, as the kernel writes them."""


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, before = {pid}, 0
    while len(found) > before:
        before = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def listening(pids: set[int]) -> list[str]:
    """The addresses on which processes listen."""
    inodes = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir() if Path(f"/proc/{pid}/fd").exists() else ():
            try:
                inodes.add(os.readlink(handle))
            except OSError:
                continue
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [line[1] for line in lines if line[3] == LISTENING and f"socket:[{line[9]}]" in inodes]


def test_only_loopback_listens_and_every_listener_asks_for_a_secret(spark: Any):
    spark.sparkContext.parallelize(range(4), 2).map(lambda n: n).sum()  # now there are Python processes, too
    found = listening(family(java_process(spark)))
    assert found, "at least the gateway listens"
    assert {address.split(":")[0] for address in found} <= LOOPBACK, found
    settings = spark.sparkContext.getConf()
    assert settings.get("spark.authenticate") == "true", "the driver's ports and those of blocks"
    assert spark.sparkContext._gateway.gateway_parameters.auth_token, "the gateway"
    assert settings.get("spark.ui.enabled") == "false"
    assert settings.get("spark.python.unix.domain.socket.enabled") == "true", "state and Python processes"
    folder = Path(settings.get("spark.python.unix.domain.socket.dir")).stat()
    assert stat.S_IMODE(folder.st_mode) == 0o700 and folder.st_uid == os.getuid()
