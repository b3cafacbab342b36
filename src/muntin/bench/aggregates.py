"""Twelve aggregates of different windows over one join: shared, each alone, by DuckDB from scratch, and on Spark beside
twelve native joins with a windowed aggregation.

DuckDB also judges: the rows of every query must be exactly its own. Spark's aggregation is the nearest that it can
express: it counts the pairs of the last W by the time of one of the rows, where Muntin counts those whose rows are both
still in their windows; what has to be done per pair and per group is alike.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.bench.judge import compared
from muntin.model import JobSpec
from muntin.sql import parse_job
from muntin.testing import LocalJob

SECOND_US = 1_000_000
START_US = 1_700_000_000 * SECOND_US
RATE, KEYS, BATCHES = 200, 2_000, 10
ROWS, QUICK_ROWS = 200_000, 20_000
"""Of each stream."""
WINDOWS_S = tuple(10 * n for n in range(1, 13))
EVERY_S = 10
STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts "
    f"WITH (format = 'parquet', path = '{{folder}}/{name}', maxFilesPerTrigger = '1');\n"
    for name in "AB"
)
SELECT = "SELECT A.k, COUNT(*) AS n, SUM(A.v) AS s, MAX(B.v) AS top FROM A, B WHERE A.k = B.k GROUP BY A.k"
ORACLE = """
SELECT k, count(*) AS n, sum(av)::BIGINT AS s, max(bv) AS top, to_timestamp(t // 1000000) AS _ts
FROM (
    SELECT k, av, bv, unnest(generate_series({step} * ((late + {step} - 1) // {step}), early + {window} - 1, {step})) t
    FROM (
        SELECT A.k, A.v AS av, B.v AS bv, least(epoch_us(A.ts), epoch_us(B.ts)) AS early,
            greatest(epoch_us(A.ts), epoch_us(B.ts)) AS late
        FROM A JOIN B ON A.k = B.k
    ) WHERE late - early < {window}
) GROUP BY ALL"""
NATIVE = """
SELECT k, window(b_ts, '{window} seconds', '{every} seconds') AS w, count(*) AS n, sum(av) AS s, max(bv) AS top
FROM (
    SELECT A.k, A.v AS av, B.v AS bv, B.ts AS b_ts FROM native_a A JOIN native_b B ON A.k = B.k
    AND A.ts > B.ts - INTERVAL '{window}' SECOND AND A.ts < B.ts + INTERVAL '{window}' SECOND
) GROUP BY k, window(b_ts, '{window} seconds', '{every} seconds')"""


def job(folder: str = ".", windows: tuple[int, ...] = WINDOWS_S, every: bool = True) -> JobSpec:
    when = f"EVERY {EVERY_S} seconds" if every else "EMIT CHANGES"
    return parse_job(
        STREAMS.format(folder=folder)
        + "".join(f"CREATE QUERY q{w} AS {SELECT} WINDOW {w} seconds {when};\n" for w in windows)
    )


def streams(rows: int, seed: int = 1) -> dict[str, pa.Table]:
    """Rows of both streams at `RATE` a second, in order of time, ties included."""
    made = {}
    for n, name in enumerate("AB"):
        rng = np.random.default_rng([seed, n])
        us = START_US + np.sort(rng.integers(0, rows * 1000 // RATE, rows)) * 1000
        columns = {"k": rng.integers(0, KEYS, rows), "v": rng.integers(-1000, 1000, rows)}
        made[name] = pa.table({"ts": pa.array(us, pa.timestamp("us", "UTC")), **columns})
    return made


def micro_batches(tables: dict[str, pa.Table], count: int = BATCHES) -> list[dict[str, pa.Table]]:
    cuts = [len(tables["A"]) * n // count for n in range(count + 1)]
    return [{name: t.slice(low, high - low) for name, t in tables.items()} for low, high in pairwise(cuts)]


def run(spec: JobSpec, tables: dict[str, pa.Table]) -> tuple[float, LocalJob, dict[str, list[pa.Table]]]:
    """Seconds, and what each query got."""
    local, found = LocalJob(spec), dict[str, list[pa.Table]]()
    began = time.process_time()
    for batch in [*micro_batches(tables), {}]:
        for name, table in local.push(batch, ended=not batch).items():
            found.setdefault(name, []).append(table)
    return time.process_time() - began, local, found


def check(base: duckdb.DuckDBPyConnection, window_s: int, got: list[pa.Table]) -> dict[str, Any]:
    """What DuckDB finds for one window, how long it takes, and in how many rows the answers differ."""
    began = time.process_time()
    sql = ORACLE.format(window=window_s * SECOND_US, step=EVERY_S * SECOND_US)
    base.execute(f"CREATE OR REPLACE TEMP TABLE want AS {sql}")
    seconds = time.process_time() - began
    base.register("told", pa.concat_tables(got))
    rows, missing, too_many = compared(base, "want", "told")
    base.unregister("told")
    return {"rows": rows, "missing": missing, "too_many": too_many, "seconds": seconds}


def measure(quick: bool, tell: Callable[[str], None], spark: Any = None) -> dict[str, Any]:
    rows = QUICK_ROWS if quick else ROWS
    tables = streams(rows)
    tell("twelve aggregates shared")
    run(job(), {name: table.slice(0, 1000) for name, table in tables.items()})  # compiles
    shared, local, found = run(job(), tables)
    counters = local.counters()[0]
    tell("each alone")
    alone = sum(run(job(windows=(w,)), tables)[0] for w in WINDOWS_S)
    tell("at every change")
    changes, _, told = run(job(every=False), tables)
    tell("DuckDB")
    with duckdb.connect(config={"threads": 1}) as base:
        base.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            base.register(name, table)
        checks = {w: check(base, w, found[f"q{w}"]) for w in WINDOWS_S}
    figures = {
        "rows_per_stream": rows,
        "queries": len(WINDOWS_S),
        "pairs": counters.pairs,
        "aggregated_per_pair": counters.aggregated / counters.pairs,
        "shared_s": shared,
        "alone_s": alone,
        "duckdb_s": sum(c["seconds"] for c in checks.values()),
        "rows_out": sum(c["rows"] for c in checks.values()),
        "differences": sum(c["missing"] + c["too_many"] for c in checks.values()),
        "changes_s": changes,
        "changes_rows_out": sum(t.num_rows for tables_ in told.values() for t in tables_),
    }
    if spark is not None:
        figures["spark"] = on_spark(spark, *((20_000, 3) if quick else (100_000, BATCHES)), tell)
    return figures


def on_spark(spark: Any, rows: int, batches: int, tell: Callable[[str], None]) -> dict[str, float]:
    """The same twelve as one job, and as twelve native streaming queries, one after the other, to the last row."""
    from muntin.spark.run import Job

    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as folder:
        for n, batch in enumerate(micro_batches(streams(rows), batches)):
            for name, table in batch.items():
                (Path(folder) / name).mkdir(exist_ok=True)
                pq.write_table(table, Path(folder) / name / f"{n:03d}.parquet")
        tell("one job on Spark, after one to warm up")
        for attempt in range(2):
            began = time.monotonic()
            ours = Job(spark, job(folder)).start(output=None, checkpoint=f"{folder}/ckpt-{attempt}", mode="bounded")
            ours.await_termination()
            shared = time.monotonic() - began
        for name in "AB":
            reader = spark.readStream.schema("ts timestamp, k bigint, v bigint").option("maxFilesPerTrigger", 1)
            frame = reader.parquet(f"{folder}/{name}").withWatermark("ts", "0 seconds")
            frame.createOrReplaceTempView(f"native_{name.lower()}")
        seconds = []
        for window in WINDOWS_S:
            tell(f"Spark's own join and aggregation, {window} s")
            began = time.monotonic()
            frame = spark.sql(NATIVE.format(window=window, every=EVERY_S))
            writer = frame.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
            query = writer.option("checkpointLocation", f"{folder}/native-{window}").start()
            query.awaitTermination()
            seconds.append(time.monotonic() - began)
    native = sum(seconds)
    return {"rows_per_stream": rows, "shared_s": shared, "native_s": native, "ratio": native / shared}


def render(figures: dict[str, Any]) -> str:
    f = figures
    lines = [
        f"2 x {f['rows_per_stream']:,} rows, {f['queries']} aggregates EVERY {EVERY_S} s over windows of "
        f"{WINDOWS_S[0]} to {WINDOWS_S[-1]} s, {f['pairs']:,} pairs; seconds of one core",
        f"shared {f['shared_s']:.2f} s, each alone {f['alone_s']:.2f} s: ratio {f['alone_s'] / f['shared_s']:.2f}; "
        f"a pair is added up {f['aggregated_per_pair']:.2f} times",
        f"DuckDB from scratch {f['duckdb_s']:.2f} s, {f['rows_out']:,} rows, of which {f['differences']:,} differ",
        f"at every change {f['changes_s']:.2f} s, {f['changes_rows_out']:,} rows",
    ]
    if "spark" in f:
        s = f["spark"]
        lines.append(
            f"on Spark, 2 x {s['rows_per_stream']:,} rows: one job {s['shared_s']:.1f} s, Spark's own join and "
            f"aggregation for each {s['native_s']:.1f} s: ratio {s['ratio']:.1f}"
        )
    return "\n".join(lines)
