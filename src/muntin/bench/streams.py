"""Joins of three streams on Spark: two of Spark's stream-stream joins in a chain, and ours, over the same files.

One query, then twelve windows and selections. Spark has a streaming query for each, all in one session and at the
same time; its state is in memory, and for one query also in RocksDB. All write Parquet, and DuckDB compares the rows
with what it finds in the files itself. The files of a micro-batch are fed when all queries have finished the one
before. Contenders take turns, there and back; the last turn of each counts, when Java has compiled what it runs. Ours
has more turns than Spark, since it needs more micro-batches to come to that: most of its work is not in Java.
Figures are seconds of a micro-batch once the largest window is full.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.bench.judge import compared
from muntin.bench.outer import provider, seconds_of

NAMES = "ABC"
COLUMNS = "ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE"
START_US = 1_704_067_200_000_000
PER_SECOND = 5_000
KEYS = 100_000
ROWS, QUICK_ROWS = 600_000, 60_000
"""Of each stream."""
BATCHES, WARM = 6, 2
WINDOWS = (2, 5, 10, 20)
"""Seconds, where there are as many rows as in a full run."""
LEAST = (0, 50, 90)
"""Of 100."""
TARGETS = {"one": 5.0, "twelve": 20.0}
OURS = "muntin"
TURNS = {
    "one": (OURS, OURS, OURS, "rocksdb", "memory", "memory", "rocksdb", OURS, OURS),
    "twelve": (OURS, OURS, "memory", OURS),
}


@dataclass(frozen=True)
class ThreeWayQuery:
    """One query: rows of three streams with one key that come within a window."""

    name: str
    window_ms: int
    least: int

    @property
    def ours(self) -> str:
        where = f"A.k = B.k AND B.k = C.k AND A.v >= {self.least}"
        return f"{SELECT} FROM A, B, C WHERE {where} WINDOW {self.window_ms} milliseconds"

    @property
    def wanted(self) -> str:
        """Any two of them come within the window: that is the same, since all have the same window."""
        third = f"{self._near('B', 'C')} AND {self._near('A', 'C')}"
        return f"{SELECT} FROM A JOIN B ON {self._near('A', 'B')} AND A.v >= {self.least} JOIN C ON {third}"

    @property
    def chained(self) -> str:
        """The same for Spark. Between two joins it takes one event time only, so that of B becomes a value."""
        first = "A.id AS a, B.id AS b, A.k AS k, A.ts AS ts, timestamp_micros(unix_micros(B.ts)) AS tb"
        pairs = f"SELECT {first} FROM A JOIN B ON {self._near('A', 'B')} AND A.v >= {self.least}"
        second = f"{self._near('P', 'C')} AND P.tb < C.ts + {self._within} AND C.ts < P.tb + {self._within}"
        return f"SELECT P.a, P.b, C.id AS c FROM ({pairs}) P JOIN C ON {second}"

    @property
    def _within(self) -> str:
        return f"INTERVAL {self.window_ms} MILLISECONDS"

    def _near(self, a: str, b: str) -> str:
        return f"{a}.k = {b}.k AND {a}.ts < {b}.ts + {self._within} AND {b}.ts < {a}.ts + {self._within}"


SELECT = "SELECT A.id AS a, B.id AS b, C.id AS c"


def queries_of(name: str, rows: int) -> list[ThreeWayQuery]:
    """The queries of a workload, with windows in proportion to the rows."""
    share = rows / ROWS
    if name == "one":
        return [ThreeWayQuery("q0", round(1000 * share * WINDOWS[-1]), 0)]
    pairs = [(window, least) for window in WINDOWS for least in LEAST]
    return [ThreeWayQuery(f"q{n}", round(1000 * share * window), least) for n, (window, least) in enumerate(pairs)]


def measure(quick: bool, tell: Callable[[str], None], spark: Any) -> dict[str, Any]:
    """Both workloads, each contender in turn."""
    rows = QUICK_ROWS if quick else ROWS
    figures: dict[str, Any] = {"rows": rows, "batch_rows": rows // BATCHES, "workloads": {}, "faults": []}
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write(folder / "data", rows)
        for workload, turns in TURNS.items():
            queries, seconds = queries_of(workload, rows), dict[str, float]()
            for number, contender in enumerate(turns):
                place = folder / f"{workload}-{number}"
                run = _ours if contender == OURS else _spark
                took = run(spark, queries, folder / "data", place, contender)
                seconds[contender] = statistics.fmean(took[WARM:BATCHES])
                tell(f"{workload}, {contender}: {seconds[contender]:.2f} s a micro-batch")
                wrong = _differences(queries, folder / "data", place)
                figures["faults"] += [f"{workload}, {contender}: {fault}" for fault in wrong]
                shutil.rmtree(place)
            ratios = {contender: took / seconds[OURS] for contender, took in seconds.items() if contender != OURS}
            figures["workloads"][workload] = {"seconds": seconds, "ratios": ratios, "target": TARGETS[workload]}
    return figures


def write(folder: Path, rows: int) -> None:
    """The files of all streams: rows in order of time, as many in each file."""
    keys = max(1, KEYS * rows // ROWS)
    for number, name in enumerate(NAMES):
        rng = np.random.default_rng(number)
        times = np.sort(rng.integers(0, rows * 1_000_000 // PER_SECOND, rows)) + START_US
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "id": np.arange(rows),
                "k": rng.integers(0, keys, rows),
                "v": np.round(100 * rng.random(rows), 3),
            }
        )
        (folder / name).mkdir(parents=True)
        for n in range(BATCHES):
            part = table.slice(n * rows // BATCHES, rows // BATCHES)
            pq.write_table(part, folder / name / f"{n:05d}.parquet")


def _ours(spark: Any, queries: Sequence[ThreeWayQuery], data: Path, place: Path, contender: str) -> list[float]:
    streams = "".join(
        f"CREATE STREAM {s} ({COLUMNS}) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{data / s}', maxFilesPerTrigger = '1');"
        for s in NAMES
    )
    return seconds_of(spark, streams + "".join(f"CREATE QUERY {q.name} AS {q.ours};" for q in queries), place)


def _spark(spark: Any, queries: Sequence[ThreeWayQuery], data: Path, place: Path, state: str) -> list[float]:
    fed, took = place / "fed", []
    for s in NAMES:
        (fed / s).mkdir(parents=True)
    with provider(spark, state, data_only=True):
        started = []
        for query in queries:
            for s in NAMES:
                rows = spark.readStream.schema(COLUMNS).parquet(str(fed / s)).withWatermark("ts", "0 seconds")
                rows.createOrReplaceTempView(s)
            writer = spark.sql(query.chained).writeStream.option("path", str(place / "out" / query.name))
            kept = place / "checkpoint" / query.name
            started.append(writer.format("parquet").option("checkpointLocation", str(kept)).start())
        try:
            for n in range(BATCHES):
                began = time.monotonic()
                for s in NAMES:
                    os.link(data / s / f"{n:05d}.parquet", fed / s / f"{n:05d}.parquet")
                for query in started:
                    query.processAllAvailable()
                took.append(time.monotonic() - began)
        finally:
            for query in started:
                query.stop()
    return took


def _differences(queries: Sequence[ThreeWayQuery], data: Path, place: Path) -> list[str]:
    """What is wrong with the rows of each query."""
    base, found = duckdb.connect(":memory:", config={"threads": 2}), []
    for s in NAMES:
        base.execute(f"CREATE VIEW {s} AS SELECT * FROM read_parquet('{data / s}/*.parquet')")
    for query in queries:
        files = f"read_parquet('{place / 'out' / query.name}/*.parquet')"
        base.execute(f"CREATE OR REPLACE VIEW wanted AS {query.wanted}")
        base.execute(f"CREATE OR REPLACE VIEW found AS SELECT a, b, c FROM {files}")
        rows, missing, too_many = compared(base, "wanted", "found")
        if missing or too_many or not rows:
            found.append(f"{query.name}: of {rows:,} rows {missing:,} are missing and {too_many:,} are too many")
    base.close()
    return found


def render(figures: dict[str, Any]) -> str:
    lines = [
        f"three streams of {figures['rows']:,} rows, micro-batches of {figures['batch_rows']:,} rows of each, Parquet "
        "out; rows as DuckDB has them"
    ]
    for name, found in figures["workloads"].items():
        queries = "one query" if name == "one" else f"{name} queries"
        lines.append(f"  {queries:<15} muntin          {found['seconds'][OURS]:8.3f} s a micro-batch")
        for contender, ratio in found["ratios"].items():
            took = found["seconds"][contender]
            said = f"{took:8.3f} s a micro-batch, {ratio:.1f} times ours (target {found['target']:g})"
            lines.append(f"  {'':<15} spark, {contender:<8} {said}")
    return "\n".join(lines)
