"""The same rows in from Parquet files and as JSON messages of Kafka: seconds of a micro-batch, and their ratio.

The broker is the cluster inside librdkafka, in this process and its memory: what is measured is reading, decoding and
packing, not a network or a disk. Both contenders run the same query over micro-batches of the same size, count its
rows, and must have found as many.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from muntin.bench.workload import COLUMNS, STREAMS, WORKLOADS, Workload, write
from muntin.formats import json_rows
from muntin.spark.brokers import LocalKafka
from muntin.spark.run import Job
from muntin.sql import parse_job

LOAD = WORKLOADS["one"]
ROWS, QUICK_ROWS = LOAD.rows, 100_000
"""Of each stream."""
ROUNDS = 2
PARTITIONS = 2
CONTENDERS = ("parquet", "kafka")


def measure(quick: bool, tell: Callable[[str], None], spark: Any) -> dict[str, Any]:
    """Each contender in turn, twice over: the second time counts, when Java has compiled what it runs."""
    load = LOAD.scaled((QUICK_ROWS if quick else ROWS) / LOAD.rows)
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder, kafka = Path(name), LocalKafka()
        write(load, folder, ("parquet",))
        tell("rows to Kafka")
        _send(kafka, folder)
        streams = {"parquet": _files(folder), "kafka": _topics(kafka, load)}
        seconds: dict[str, list[float]] = {}
        found: dict[str, int] = {}
        for number in range(ROUNDS):
            for contender in CONTENDERS:
                tell(f"round {number + 1}: {contender}")
                place = folder / f"{contender}-{number}"
                took, found[contender] = _run(spark, streams[contender], load, place)
                seconds[contender] = took[load.warm : load.batches]
                shutil.rmtree(place)
    steady = {contender: statistics.fmean(took) for contender, took in seconds.items()}
    return {
        "rows": load.rows,
        "batch_rows": load.batch_rows,
        "seconds": steady,
        "ratio": steady["kafka"] / steady["parquet"],
        "faults": [f"the contenders found {found} rows"] if len(set(found.values())) != 1 else [],
    }


def _send(kafka: LocalKafka, folder: Path) -> None:
    for stream in STREAMS:
        for file in sorted((folder / "parquet" / stream).glob("*.parquet")):
            values = json_rows(pq.read_table(file))
            for part in range(PARTITIONS):
                kafka.send(stream, values[part::PARTITIONS], part)


def _files(folder: Path) -> str:
    return "".join(
        f"CREATE STREAM {s} ({COLUMNS}) TIMESTAMP BY ts LATENESS 1 second "
        f"WITH (format = 'parquet', path = '{folder / 'parquet' / s}', maxFilesPerTrigger = '1');"
        for s in STREAMS
    )


def _topics(kafka: LocalKafka, load: Workload) -> str:
    """As many messages in a micro-batch as there are rows in a file."""
    return "".join(
        f"CREATE STREAM {s} ({COLUMNS}) TIMESTAMP BY ts LATENESS 1 second VALUE FORMAT JSON WITH (format = 'kafka', "
        f"'kafka.bootstrap.servers' = '{kafka.address}', subscribe = '{s}', startingOffsets = 'earliest', "
        f"maxOffsetsPerTrigger = '{-(-load.rows // load.batches)}');"
        for s in STREAMS
    )


def _run(spark: Any, streams: str, load: Workload, place: Path) -> tuple[list[float], int]:
    """Seconds of each micro-batch, and the rows that were found."""
    took: list[float] = []
    query = f"CREATE QUERY q AS SELECT A.k, A.v AS a, B.v AS b FROM A JOIN B ON {load.largest.near};"
    run = Job(spark, parse_job(streams + query)).start(
        output=None,
        checkpoint=place / "checkpoint",
        mode="bounded",
        progress=lambda status: took.append(status["seconds"]["triggerExecution"]),
    )
    run.await_termination()
    return took, int(run.status()["queries"]["q"]["total_rows"])


def render(figures: dict[str, Any]) -> str:
    took = figures["seconds"]
    return "\n".join(
        [
            f"one join, 2 x {figures['rows']:,} rows, micro-batches of {figures['batch_rows']:,} rows, rows counted",
            f"  Parquet files     {took['parquet']:8.3f} s a micro-batch",
            f"  JSON of Kafka     {took['kafka']:8.3f} s a micro-batch, {figures['ratio']:.2f} times as long",
        ]
    )
