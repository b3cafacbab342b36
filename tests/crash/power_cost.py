"""What `SET durability = 'power'` costs: the seconds of micro-batches with it and without it, turn by turn.

    PYTHONPATH=src python tests/crash/power_cost.py FOLDER --turns 3

FOLDER decides the answer: name one on the disk that checkpoint and output would be on.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from muntin.generate import generate
from muntin.spark.run import Job
from muntin.spark.session import open_session
from muntin.sql import parse_job

FILES = 12
"""Micro-batches of a run; the first ones of each warm up, and do not count."""
WARM = 3


def seconds_of(spark: Any, sql: str, folder: Path) -> list[float]:
    """How long each micro-batch of a run took."""
    found: list[float] = []

    def note(status: dict[str, Any]) -> None:
        found.append(status["seconds"]["triggerExecution"])

    place = {"output": folder / "out", "checkpoint": folder / "ckpt"}
    run = Job(spark, parse_job(sql)).start(**place, mode="available-now", progress=note)
    run.await_termination()
    shutil.rmtree(folder)
    return found[WARM:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    data = args.folder.absolute() / "power-cost"
    generate("sensors", data / "data", duration_s=120, files=FILES)
    sql = (data / "data" / "job.sql").read_text()
    spark, found = open_session(), defaultdict[str, list[float]](list)
    for _ in range(args.turns):
        for durability in ("process", "power"):
            found[durability] += seconds_of(spark, f"SET durability = '{durability}';\n{sql}", data / durability)
    shutil.rmtree(data)
    medians = {durability: statistics.median(seconds) for durability, seconds in found.items()}
    for durability, median in medians.items():
        print(f"{durability}: median {median:.3f} s of {len(found[durability])} micro-batches")
    print(f"power costs {medians['power'] / medians['process']:.2f} times as long")
    spark.stop()


if __name__ == "__main__":
    main()
