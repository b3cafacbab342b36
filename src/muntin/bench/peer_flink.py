"""Flink's interval joins over a workload. Runs in Flink's own environment, so it imports nothing of ours.

    each    one interval join per query, all in one statement set: Flink reads each stream once for all of them
    one     one interval join with the largest window

Fair to Flink: state on the heap, object reuse on, no checkpoints, half of the machine's memory, as many parallel tasks
as cores, and a sink that discards (`blackhole`). It reads CSV, with JSON all that comes with the package, each stream
from one file, in order. Progress and rows per query are Flink's own metrics, asked for ten times a second; the files
are watched for more, so that the job lasts until it has been asked for the last time. Flink knows no micro-batches:
what is reported as one is over when so many rows have been read, the last when all results have arrived.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TICK_S = 0.1
SETTLED_S = 3.0
"""Time without a further row after which the job has done all there is."""


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


def settings(cores: int, port: int) -> dict[str, str]:
    return {
        "parallelism.default": str(cores),
        "taskmanager.numberOfTaskSlots": str(cores),
        "pipeline.object-reuse": "true",
        "state.backend.type": "hashmap",
        "rest.port": str(port),
        "metrics.fetcher.update-interval": "100",
        "table.exec.source.idle-timeout": "1 s",
    }


def statements(workload: dict[str, Any], folder: Path, kind: str) -> Iterator[str]:
    """Tables of the streams, and for each query a table that discards and the statement that fills it."""
    for stream in "AB":
        yield (
            f"CREATE TABLE {stream} (ts TIMESTAMP(3), k BIGINT, v DOUBLE, WATERMARK FOR ts AS ts) WITH ("
            f"'connector' = 'filesystem', 'path' = 'file://{folder}/flink/{kind}/{stream}', 'format' = 'csv', "
            f"'source.monitor-interval' = '1 s')"
        )
    questions = workload["questions"]
    if kind == "one":
        largest = max(questions, key=lambda q: q["window_ms"])
        questions = [{**largest, "name": "everything", "least_a": 0, "least_b": 0}]
    for q in questions:
        yield f"CREATE TABLE {q['name']} (k BIGINT, a DOUBLE, b DOUBLE) WITH ('connector' = 'blackhole')"
        window = f"INTERVAL '{q['window_ms'] / 1000:.3f}' SECOND({len(str(q['window_ms'] // 1000))}, 3)"
        chosen = "".join(f" AND {s}.v >= {q[f'least_{s.lower()}']}" for s in "AB" if q[f"least_{s.lower()}"])
        yield (
            f"INSERT INTO {q['name']} SELECT A.k, A.v, B.v FROM A, B WHERE A.k = B.k "
            f"AND A.ts > B.ts - {window} AND A.ts < B.ts + {window}{chosen}"
        )


class Metrics:
    """What the job's own web server says of it."""

    def __init__(self, port: int, job: Any):
        self._base = f"http://127.0.0.1:{port}/jobs/{job}/vertices"
        vertices = self._get(f"http://127.0.0.1:{port}/jobs/{job}")["vertices"]
        self._sources = [v["id"] for v in vertices if v["name"].startswith("Source")]
        self._sinks = [v["id"] for v in vertices if not v["name"].startswith("Source")]
        self._names: dict[str, list[str]] = {}

    def _get(self, url: str) -> Any:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)

    def _sums(self, vertex: str, ending: str) -> dict[str, int]:
        """Metrics of a vertex with this ending, summed over its tasks."""
        url = f"{self._base}/{vertex}/subtasks/metrics"
        if not self._names.get(vertex):
            self._names[vertex] = [m["id"] for m in self._get(url) if m["id"].endswith(ending)]
        if not self._names[vertex]:
            return {}
        return {m["id"]: int(float(m["sum"])) for m in self._get(f"{url}?get={','.join(self._names[vertex])}")}

    def read(self) -> int:
        """Rows that the sources have read."""
        found = [self._sums(vertex, "numRecordsOut").get("numRecordsOut", 0) for vertex in self._sources]
        return sum(found)

    def taken(self) -> dict[str, int]:
        """Rows that each query's sink has taken."""
        rows: dict[str, int] = {}
        for vertex in self._sinks:
            for name, number in self._sums(vertex, "__Writer.numRecordsIn").items():
                rows[name.split("[")[0]] = number
        return rows


def start(workload: dict[str, Any], folder: Path, kind: str, port: int) -> Any:
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    chosen = Configuration()
    for name, value in settings(os.cpu_count() or 1, port).items():
        chosen.set_string(name, value)
    environment = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(chosen).build()
    tables = TableEnvironment.create(environment)
    inserts = tables.create_statement_set()
    for statement in statements(workload, folder, kind):
        if statement.startswith("CREATE"):
            tables.execute_sql(statement)
        else:
            inserts.add_insert_sql(statement)
    return inserts.execute().get_job_client()


def follow(metrics: Metrics, total: int, step: int, began: float) -> None:
    """Say whenever so many more rows have been read, and at the end what each query has got."""
    said, before, changed = 0, began, began
    rows: dict[str, int] = {}
    while True:
        time.sleep(TICK_S)
        read, now = metrics.read(), time.monotonic()
        while said < read // step and (said + 1) * step < total:
            say(batch=said, seconds=(now - before) / (read // step - said))
            before += (now - before) / (read // step - said)
            said += 1
        if read < total:
            continue
        found = metrics.taken()
        if found != rows:
            rows, changed = found, time.monotonic()
        elif time.monotonic() - changed > SETTLED_S:
            say(batch=said, seconds=changed - before, rows=rows)
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kind", choices=("each", "one"))
    parser.add_argument("--rows", type=int, required=True, help="of each stream")
    parser.add_argument("--step", type=int, required=True, help="rows of both streams after which to report")
    args = parser.parse_args()
    workload = json.loads((args.folder / "workload.json").read_text())
    port = free_port()
    began = time.monotonic()
    job = start(workload, args.folder, args.kind, port)
    follow(Metrics(port, job.get_job_id()), 2 * args.rows, args.step, began)
    job.cancel().result()


if __name__ == "__main__":
    main()
