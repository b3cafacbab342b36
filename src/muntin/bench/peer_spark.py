"""Spark's own stream-stream joins over a workload, in a process of their own: a line of JSON after every micro-batch.

    each    one join per query, each a streaming query of its own, all in one application
    one     one join with the largest window; behind it every query's window and selections are applied and counted

Fair to Spark: state in RocksDB with changelog checkpoints or in memory, the former in the layout of one store per join;
as many shuffle partitions as cores; the quicker checkpoint manager; half of the machine's memory as heap; no
micro-batches without data. Rows go to a sink that discards them, and are counted on the way. The files of a micro-batch
are fed when all queries have finished the one before; its time ends when the last of them has.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from muntin.bench.peers import half_the_memory, say
from muntin.bench.workload import COLUMNS, STREAMS, Question, Workload
from muntin.spark.session import open_session

PROVIDERS = {"rocksdb": "RocksDBStateStoreProvider", "memory": "HDFSBackedStateStoreProvider"}
PACKAGE = "org.apache.spark.sql.execution.streaming.state"


def session(state: str) -> Any:
    """Spark as its users would set it up for such joins."""
    spark = open_session(confs={**half_the_memory(), "spark.driver.extraJavaOptions": ""})
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{PACKAGE}.{PROVIDERS[state]}")
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
    if state == "memory":
        spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "1")
    else:
        spark.conf.set("spark.sql.streaming.join.stateFormatVersion", "3")
    return spark


def joined(spark: Any, fed: Path, question: Question) -> Any:
    """The join of one query, before its selections."""
    for stream in STREAMS:
        rows = spark.readStream.schema(COLUMNS).parquet(str(fed / stream)).withWatermark("ts", "0 seconds")
        rows.createOrReplaceTempView(stream)
    columns = "A.k, A.v AS a, B.v AS b, A.ts AS ta, B.ts AS tb"
    return spark.sql(f"SELECT {columns} FROM A JOIN B ON {question.near}{question.selection}")


class Each:
    """One streaming query per question; Spark counts the rows that its sinks take."""

    def __init__(self, spark: Any, workload: Workload, fed: Path, scratch: Path):
        self.queries = {
            q.name: joined(spark, fed, q)
            .select("k", "a", "b")
            .writeStream.format("noop")
            .option("checkpointLocation", str(scratch / q.name))
            .start()
            for q in workload.questions
        }

    def rows(self) -> dict[str, int]:
        """Of all reports so far: a query that waits for the others reports idle moments too, under the next number."""
        return {
            name: sum(max(0, report["sink"]["numOutputRows"]) for report in query.recentProgress)
            for name, query in self.queries.items()
        }


class One:
    """One streaming query; each question's rows are told apart behind the join."""

    def __init__(self, spark: Any, workload: Workload, fed: Path, scratch: Path):
        self._total: Counter[str] = Counter()
        age = "abs(unix_millis(ta) - unix_millis(tb))"
        wanted = [
            f"count_if({age} < {q.window_ms} AND a >= {q.least_a} AND b >= {q.least_b}) AS {q.name}"
            for q in workload.questions
        ]
        plain = Question("all", workload.largest.window_ms)

        def take(frame: Any, batch: int) -> None:
            self._total.update(frame.selectExpr(*wanted).collect()[0].asDict())

        writer = joined(spark, fed, plain).writeStream.foreachBatch(take)
        self.queries = {"all": writer.option("checkpointLocation", str(scratch / "all")).start()}

    def rows(self) -> dict[str, int]:
        return dict(self._total)


def run(workload: Workload, folder: Path, kind: str, state: str) -> None:
    spark = session(state)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as name:
        fed, scratch = Path(name, "fed"), Path(name, "state")
        for stream in STREAMS:
            (fed / stream).mkdir(parents=True)
        contender: Each | One = (Each if kind == "each" else One)(spark, workload, fed, scratch)
        for batch in range(workload.batches):
            began = time.monotonic()
            for stream in STREAMS:
                file = f"{batch:05d}.parquet"
                os.link(folder / "parquet" / stream / file, fed / stream / file)
            for query in contender.queries.values():
                query.processAllAvailable()
            seconds = time.monotonic() - began
            say(batch=batch, seconds=seconds, rows=contender.rows())
        for query in contender.queries.values():
            query.stop()
    spark.stop()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=("each", "one"))
    parser.add_argument("state", choices=tuple(PROVIDERS))
    args = parser.parse_args(arguments)
    run(Workload.from_json((args.folder / "workload.json").read_text()), args.folder, args.kind, args.state)


if __name__ == "__main__":
    main(sys.argv[1:])
