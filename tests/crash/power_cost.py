"""What `SET durability = 'power'` costs: the seconds of micro-batches with it and without it, turn by turn.

    PYTHONPATH=src python tests/crash/power_cost.py FOLDER --turns 3
    PYTHONPATH=src python tests/crash/power_cost.py FOLDER --sync-only

The second one needs no Spark: it times the syncs of one micro-batch of two shards and four queries.
FOLDER decides the answer: name one on the disk that checkpoint and output would be on.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from muntin.generate import generate
from muntin.spark.checkpoint import PowerSync
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


def sync_only(folder: Path, batches: int = 40) -> None:
    """Times what is done before a manifest, for files as Spark and the tasks of a micro-batch leave them."""
    sync, seconds, files = PowerSync(folder / "ckpt"), [], 0
    for batch in range(batches):
        logs = [folder / "ckpt" / log / str(batch) for log in ("offsets", "commits", "sources/0", "sources/1")]
        state = [folder / "ckpt" / "state" / "0" / str(n) / f"{batch + 1}_id.changelog" for n in range(2)]
        state += [file.with_name(f"{file.name}.crc") for file in state]
        sums = [file.with_name(f".{file.name}.crc") for file in (*logs, *state)]
        rows = [folder / "out" / "_staging" / f"b{batch}" / f"{n}.parquet" for n in range(8)]
        for file in (*logs, *state, *sums, *rows):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x" * 8192)
        began = time.monotonic()
        sync.before_commit(rows)
        seconds.append(time.monotonic() - began)
        files = len(logs) + len(state) + len(sums) + len(rows)
    shutil.rmtree(folder)
    print(f"{files} files: median {1000 * statistics.median(seconds):.1f} ms of {batches} micro-batches")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--sync-only", action="store_true")
    args = parser.parse_args()
    data = args.folder.absolute() / "power-cost"
    if args.sync_only:
        sync_only(data)
        return
    generate("sensors", data / "data", duration_s=120, files=FILES)
    sql = (data / "data" / "job.sql").read_text()
    spark, found = open_session(), defaultdict[str, list[float]](list)
    for turn in range(args.turns):
        for durability in ("process", "power"):
            found[durability] += seconds_of(
                spark, f"SET durability = '{durability}';\n{sql}", data / f"{durability}-{turn}"
            )
    shutil.rmtree(data)
    medians = {durability: statistics.median(seconds) for durability, seconds in found.items()}
    for durability, median in medians.items():
        print(f"{durability}: median {median:.3f} s of {len(found[durability])} micro-batches")
    print(f"power costs {medians['power'] / medians['process']:.2f} times as long")
    spark.stop()


if __name__ == "__main__":
    main()
