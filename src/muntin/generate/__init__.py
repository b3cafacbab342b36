"""Synthetic streams: the same seed gives the same files, and playing the files in order plays the stream.

    generate("sensors", Path("data"), rate=500, duration_s=600)

writes `data/temperature/*.parquet`, `data/humidity/*.parquet` and a ready `data/job.sql`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from muntin.generate.files import Generated
from muntin.generate.nexmark import Nexmark, generate_nexmark
from muntin.generate.punctuated import Punctuated, generate_punctuated
from muntin.generate.sensors import Sensors, generate_sensors
from muntin.model import UsageError

__all__ = ["WORKLOADS", "Generated", "Nexmark", "Punctuated", "Sensors", "generate"]

WORKLOADS: dict[str, tuple[type, Callable[[Path, Any], Generated]]] = {
    "sensors": (Sensors, generate_sensors),
    "nexmark": (Nexmark, generate_nexmark),
    "punctuated": (Punctuated, generate_punctuated),
}
"""Name of a workload -> its options and the function that writes it."""

NOT_YET = ("pareto", "clustered")


def generate(workload: str, folder: Path, **options: Any) -> Generated:
    """Write the streams of a workload and a job file over them into `folder`."""
    if workload not in WORKLOADS:
        raise UsageError(_unknown(workload), hint=f"workloads: {', '.join(WORKLOADS)}")
    kind, write = WORKLOADS[workload]
    names = [f.name for f in fields(kind)]
    for name in options:
        if name not in names:
            close = get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]}?" if close else f"options: {', '.join(names)}"
            raise UsageError(f"workload {workload} has no option {name}", hint=hint)
    return write(Path(folder), kind(**options))


def _unknown(workload: str) -> str:
    if workload in NOT_YET:
        return f"workload {workload} is not supported yet"
    return f"there is no workload {workload}"
