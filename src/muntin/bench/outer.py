"""One left outer join on Spark: Spark's own, with its state in memory and in RocksDB, and ours, over the same files.

Both write Parquet, and DuckDB compares the rows, also with what it finds in the files itself. Spark tells a row without
a match when a later micro-batch has moved its watermark past it, so rows of the last windows are left out of the
comparison. Figures are seconds of a micro-batch once the window is full.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from muntin.bench.judge import compared
from muntin.bench.peer_spark import PACKAGE, PROVIDERS
from muntin.bench.workload import COLUMNS, STREAMS, WORKLOADS, Workload, write
from muntin.spark.run import Job
from muntin.sql import parse_job

LOAD = WORKLOADS["one"]
ROWS, QUICK_ROWS = LOAD.rows, 100_000
"""Of each stream."""
ROUNDS = 2
TARGET = 5.0
CONF = "spark.sql.streaming.stateStore.providerClass"


def measure(quick: bool, tell: Callable[[str], None], spark: Any) -> dict[str, Any]:
    """Each contender in turn, twice over: the second time counts, when Java has compiled what it runs."""
    load = LOAD.scaled((QUICK_ROWS if quick else ROWS) / LOAD.rows)
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write(load, folder, ("parquet",))
        seconds: dict[str, list[float]] = {}
        faults: list[str] = []
        for number in range(ROUNDS):
            for contender in ("muntin", *PROVIDERS):
                tell(f"round {number + 1}: {contender}")
                place = folder / f"{contender}-{number}"
                took = _ours(spark, load, folder, place) if contender == "muntin" else _spark(
                    spark, load, folder, place, contender)  # fmt: skip
                seconds[contender] = took[load.warm : load.batches]
                faults += [f"{contender}: {fault}" for fault in _compared(load, folder, place)]
                shutil.rmtree(place)
    steady = {contender: statistics.fmean(took) for contender, took in seconds.items()}
    return {
        "rows": load.rows,
        "batch_rows": load.batch_rows,
        "window_s": load.largest.window_ms / 1000,
        "seconds": steady,
        "ratios": {contender: took / steady["muntin"] for contender, took in steady.items() if contender != "muntin"},
        "faults": faults,
    }


def _select(load: Workload) -> str:
    columns = "A.ts AS ta, A.k AS k, A.v AS a, B.v AS b"
    return f"SELECT {columns} FROM A LEFT JOIN B ON {load.largest.near}"


def _ours(spark: Any, load: Workload, folder: Path, place: Path) -> list[float]:
    streams = "".join(
        f"CREATE STREAM {s} ({COLUMNS}) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{folder / 'parquet' / s}', maxFilesPerTrigger = '1');"
        for s in STREAMS
    )
    return seconds_of(spark, f"{streams} CREATE QUERY q AS {_select(load)};", place)


def seconds_of(spark: Any, sql: str, place: Path) -> list[float]:
    """Run a job to the end of its streams; how long each of its micro-batches took."""
    took: list[float] = []
    run = Job(spark, parse_job(sql)).start(
        output=place / "out",
        checkpoint=place / "checkpoint",
        mode="bounded",
        progress=lambda status: took.append(status["seconds"]["triggerExecution"]),
    )
    run.await_termination()
    return took


def _spark(spark: Any, load: Workload, folder: Path, place: Path, state: str) -> list[float]:
    with provider(spark, state):
        for s in STREAMS:
            files = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
            files.parquet(str(folder / "parquet" / s)).withWatermark("ts", "0 seconds").createOrReplaceTempView(s)
        writer = spark.sql(_select(load)).writeStream.format("parquet").option("path", str(place / "out" / "q"))
        query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
    with_rows = [report for report in query.recentProgress if report["numInputRows"]]
    return [report["durationMs"]["triggerExecution"] / 1000 for report in with_rows]


@contextmanager
def provider(spark: Any, state: str, data_only: bool = False) -> Iterator[None]:
    """Spark's own state in one of its stores, as its users would have it; `data_only`: all micro-batches have rows."""
    wanted = {
        CONF: f"{PACKAGE}.{PROVIDERS[state]}",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false" if data_only else "true",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _compared(load: Workload, folder: Path, place: Path) -> list[str]:
    """What is wrong with the rows of A up to two windows before the end."""
    base = duckdb.connect(":memory:", config={"threads": 2})
    for s in STREAMS:
        base.execute(f"CREATE VIEW {s} AS SELECT * FROM read_parquet('{folder / 'parquet' / s}/*.parquet')")
    (last,) = base.execute("SELECT max(ts) FROM A").fetchall()[0]
    early = f"ta < TIMESTAMPTZ '{last}' - INTERVAL {2 * load.largest.window_ms} MILLISECOND"
    base.execute(f"CREATE VIEW wanted AS SELECT * FROM ({_select(load)}) WHERE {early}")
    files = f"read_parquet('{place / 'out' / 'q'}/*.parquet')"
    base.execute(f"CREATE VIEW found AS SELECT ta, k, a, b FROM {files} WHERE {early}")
    _, missing, too_many = compared(base, "wanted", "found")
    base.close()
    return [f"{missing:,} rows are missing and {too_many:,} are too many"] if missing or too_many else []


def render(figures: dict[str, Any]) -> str:
    lines = [
        f"left outer join, 2 x {figures['rows']:,} rows, window {figures['window_s']:g} s, micro-batches of "
        f"{figures['batch_rows']:,} rows, Parquet out; rows as DuckDB has them",
        f"  muntin            {figures['seconds']['muntin']:8.3f} s a micro-batch",
    ]
    for contender, ratio in figures["ratios"].items():
        took = figures["seconds"][contender]
        lines.append(
            f"  spark, {contender:<10} {took:8.3f} s a micro-batch, {ratio:.1f} times ours (target {TARGET:g})"
        )
    return "\n".join(lines)
