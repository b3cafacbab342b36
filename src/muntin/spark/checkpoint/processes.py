"""Processes of this machine that may outlive a run that was killed."""

from __future__ import annotations

import time
from pathlib import Path

from muntin.model import MuntinError

ORPHAN_S = 60.0
"""How long the Java process of a run that was killed may take to end."""


def await_end(pid: str, begun: str, checkpoint: str) -> None:
    """Wait until a process that began at this moment has ended."""
    until = time.monotonic() + ORPHAN_S
    while started(pid) == begun:
        if time.monotonic() > until:
            raise MuntinError(
                f"the Java process {pid} of a run that was killed still runs on {checkpoint}",
                hint=f"end it with `kill -9 {pid}`",
            )
        time.sleep(0.05)


def started(pid: str) -> str:
    """When a process of this machine began, in ticks since the machine did: empty where there is none, or no /proc."""
    try:
        stat = Path("/proc", pid, "stat").read_text()
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
