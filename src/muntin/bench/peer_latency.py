"""One contender of `muntin bench latency` on Spark, in a process of its own: ours, or Spark's own join.

    batch   ours, a callable gets the rows of each query with their micro-batch
    eager   ours, the callable gets them while the micro-batch is still at work
    spark   one stream-stream join of the largest window, state in memory; the driver gets its rows, of all windows

All hand rows over as Arrow tables in the driver. The moment counts at which they are there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.bench import feed, peer_spark
from muntin.bench.feed import STREAMS, Feed
from muntin.bench.peers import say
from muntin.spark.run import Job
from muntin.spark.session import open_session
from muntin.sql import parse_job

COLUMNS = "ts TIMESTAMP, k BIGINT, came BIGINT"
TIMES = "yyyy-MM-dd HH:mm:ss.SSS"
HANDED = "handed.csv"
"""Lines of query, when the later of two rows came, when their pair was handed over (both in milliseconds), pairs."""
LOOK_S = 0.5


class Deliveries:
    """All that was handed over."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, int, int, int]] = []
        self._adding = threading.Lock()

    def add(self, query: str, came: np.ndarray[Any, Any]) -> None:
        """Pairs that are handed over now, by when the later of their rows came."""
        now = time.time_ns() // 1_000_000
        if not len(came):
            return
        with self._adding:
            moments, counts = np.unique(came, return_counts=True)
            self._lines += [(query, int(at), now, int(n)) for at, n in zip(moments, counts, strict=True)]

    def write(self, folder: Path) -> None:
        with self._adding:
            (folder / HANDED).write_text("".join(f"{q},{came},{now},{n}\n" for q, came, now, n in self._lines))


def later(table: pa.Table) -> np.ndarray[Any, Any]:
    return np.maximum(table["a"].to_numpy(), table["b"].to_numpy())


def ours(spark: Any, plan: Feed, folder: Path, scratch: Path, delivery: str) -> None:
    streams = "".join(
        f"CREATE STREAM {s} ({COLUMNS}) TIMESTAMP BY ts "
        f"WITH (format = 'csv', path = '{folder / s}', timestampFormat = '{TIMES}');"
        for s in STREAMS
    )
    queries = "".join(
        f"CREATE QUERY {name} AS SELECT A.came AS a, B.came AS b FROM A, B WHERE A.k = B.k WINDOW {w} milliseconds;"
        for name, w in plan.queries.items()
    )
    handed = Deliveries()
    run = Job(spark, parse_job(f"SET delivery = '{delivery}';{streams}{queries}")).start(
        sink=lambda query, table, batch: handed.add(query, later(table)), checkpoint=scratch / "checkpoint"
    )
    fed = feed.take_all(folder)
    while sum(run.status()["sources"][s]["total_rows"] for s in STREAMS) < fed and run.status()["state"] == "running":
        time.sleep(LOOK_S)
    run.stop()
    run.await_termination()
    handed.write(folder)


def spark_join(spark: Any, plan: Feed, folder: Path, scratch: Path) -> None:
    for s in STREAMS:
        rows = spark.readStream.schema(COLUMNS).option("timestampFormat", TIMES).csv(str(folder / s))
        rows.withWatermark("ts", "1 seconds").createOrReplaceTempView(s)
    largest = max(plan.windows_ms)
    near = f"A.ts < B.ts + INTERVAL {largest} MILLISECONDS AND B.ts < A.ts + INTERVAL {largest} MILLISECONDS"
    age = "abs(unix_millis(A.ts) - unix_millis(B.ts)) AS age"
    joined = spark.sql(f"SELECT A.came AS a, B.came AS b, {age} FROM A JOIN B ON A.k = B.k AND {near}")
    handed = Deliveries()

    def take(frame: Any, batch: int) -> None:
        table = frame.toArrow()
        ages, came = table["age"].to_numpy(), later(table)
        for query, window in plan.queries.items():
            handed.add(query, came[ages < window])

    query = joined.writeStream.foreachBatch(take).option("checkpointLocation", str(scratch / "checkpoint")).start()
    feed.take_all(folder)
    query.processAllAvailable()
    query.stop()
    handed.write(folder)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=("batch", "eager", "spark"))
    args = parser.parse_args(arguments)
    plan = Feed.read(args.folder)
    spark = peer_spark.session("memory") if args.kind == "spark" else open_session()
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        if args.kind == "spark":
            spark_join(spark, plan, args.folder, Path(name))
        else:
            ours(spark, plan, args.folder, Path(name), args.kind)
    say(done=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
