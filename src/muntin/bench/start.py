"""`muntin bench start`: how long after the command the first rows are in their files, beside a plain Spark join.

    muntin    `muntin run` over a job file with twelve queries
    spark     a script with one stream-stream join of the largest window, its state in memory, Parquet out

Both read the same small files and are fresh processes, one after the other; with each round another one comes first.
The first two runs of all are thrown away: they bring files into memory, compile what is compiled once for a machine,
and let Java keep the classes that ours loads.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from muntin.bench import workload
from muntin.bench.peers import core_seconds, stop
from muntin.bench.workload import COLUMNS, STREAMS, WORKLOADS, Workload
from muntin.spark.session import serving_java

LOAD = replace(WORKLOADS["selective"], keys=1_000, rows=2_000, batch_rows=2_000)
ROUNDS, QUICK_ROUNDS = 5, 2
LOOK_S = 0.02
FIRST = "out/q*/[bp]*.parquet"
"""Files of rows: ours are called after their micro-batch, Spark's after their part."""
OURS, SPARK = "muntin", "spark"
SCRIPT = """
import sys
from pyspark.sql import SparkSession

folder, place, near = sys.argv[1:]
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", str(spark.sparkContext.defaultParallelism))
spark.conf.set("spark.sql.session.timeZone", "UTC")
for stream in {streams}:
    reader = spark.readStream.schema("{columns}").option("maxFilesPerTrigger", 1)
    rows = reader.parquet(f"{{folder}}/parquet/{{stream}}")
    rows.withWatermark("ts", "0 seconds").createOrReplaceTempView(stream)
found = spark.sql(f"SELECT A.k, A.v AS a, B.v AS b FROM A JOIN B ON {{near}}")
writer = found.writeStream.format("parquet").option("checkpointLocation", f"{{place}}/checkpoint")
writer.start(f"{{place}}/out/q").awaitTermination()
"""


def commands(load: Workload, folder: Path) -> dict[str, Callable[[Path], list[str]]]:
    """What each contender is called with, given the place for its output."""
    job, script = folder / "job.sql", folder / "plain_join.py"
    job.write_text(load.job_sql(folder, "parquet"))
    script.write_text(SCRIPT.format(streams=STREAMS, columns=COLUMNS))
    run = [sys.executable, "-m", "muntin.cli.main", "run", str(job), "--quiet"]
    near = load.largest.near
    return {
        OURS: lambda place: [*run, "--output", str(place / "out"), "--checkpoint", str(place / "checkpoint")],
        SPARK: lambda place: [sys.executable, str(script), str(folder), str(place), near],
    }


def measure(quick: bool, limit_s: float, tell: Callable[[str], None]) -> dict[str, Any]:
    figures: dict[str, Any] = {"rows": LOAD.rows, "contenders": {OURS: [], SPARK: []}, "faults": []}
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        workload.write(LOAD, folder, ("parquet",))
        calls = commands(LOAD, folder)
        for warm in ("warm", "warmer"):
            first_result(calls[OURS](folder / warm), folder / warm, limit_s)
        names = list(calls)
        for number in range(QUICK_ROUNDS if quick else ROUNDS):
            for contender in names[number % 2 :] + names[: number % 2]:
                place = folder / f"{contender}-{number}"
                found = first_result(calls[contender](place), place, limit_s)
                if found is None:
                    figures["faults"].append(f"{contender} has no rows after {limit_s:.0f} s")
                    continue
                figures["contenders"][contender].append(found)
                tell(f"round {number + 1}: {contender}: {found['seconds']:.1f} s, {found['core_s']:.1f} core s")
    return figures


def first_result(command: list[str], place: Path, limit_s: float) -> dict[str, float] | None:
    """Seconds until the first file of rows is there; None where none came in time."""
    silent: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    env = {**os.environ, "JAVA_HOME": str(serving_java())}
    began = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True, text=True, env=env, **silent)
    try:
        while time.monotonic() - began < limit_s and process.poll() is None:
            if any(place.glob(FIRST)):
                return {"seconds": time.monotonic() - began, "core_s": core_seconds(process.pid) or 0.0}
            time.sleep(LOOK_S)
        return None
    finally:
        stop(process)


def render(figures: Mapping[str, Any]) -> str:
    lines = [f"{'':>8}{'seconds':>10}{'core s':>10}   medians of {len(figures['contenders'][OURS])}"]
    medians = {
        name: {what: statistics.median(run[what] for run in runs) for what in ("seconds", "core_s")}
        for name, runs in figures["contenders"].items()
        if runs
    }
    lines += [f"{name:>8}{found['seconds']:>10.1f}{found['core_s']:>10.1f}" for name, found in medians.items()]
    if len(medians) == 2:
        lines.append(f"ours takes {medians[OURS]['seconds'] / medians[SPARK]['seconds']:.2f} of Spark's time; target 1")
    return "\n".join(lines)
