"""Queries that come and go under load: what that does to micro-batches, how soon it is in force, and whether any row is
lost or doubled.

Two streams bring 10,000 rows a second each, as files in real time. Clients in processes of their own add and drop
queries one after the other; at the end every query is compared with DuckDB from where it says to be complete. Then a
hundred queries are added one after the other to the idle job.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.spark.run import Job, Run
from muntin.sql import parse_job

RATE, KEYS, SECOND_US = 10_000, 200_000, 1_000_000
WARM = 6
"""Micro-batches before the first change: the first ones compile and fill."""
SELECT = "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k"
LASTING = {"w5": ("", 5), "w20": (" AND A.v > 50", 20), "w40": (" AND A.v > 80", 40)}
"""Queries that stay: selection and window in seconds."""
WHOLE, QUICK = (120, 20, 100), (60, 8, 20)
"""Seconds under load, queries that come and go meanwhile, and queries added afterwards."""
PRESENT = 3
"""Added queries that are there at a time."""


def passing(n: int) -> tuple[str, int]:
    """The n-th query that comes and goes: selections on both streams, and a window."""
    return f" AND A.v > {7 * n % 100} AND B.v > {10 * (n % 3)}", 3 + n % 30


def statement(name: str, where: str, window_s: int) -> str:
    return f"CREATE QUERY {name} AS {SELECT}{where} WINDOW {window_s} s"


def rows(second: int, stream: str) -> pa.Table:
    rng = np.random.default_rng([second, ord(stream)])
    ts = np.sort(rng.integers(0, SECOND_US, RATE)) + second * SECOND_US
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "id": np.arange(RATE) + second * RATE,
            "k": rng.integers(0, KEYS, RATE),
            "v": 100 * rng.random(RATE),
        }
    )


def feed(folder: Path, seconds: int) -> None:
    """A file of each stream every second."""
    for second in range(seconds):
        began = time.monotonic()
        for stream in "AB":
            hidden = folder / stream / f".{second:06d}.parquet"
            pq.write_table(rows(second, stream), hidden)
            hidden.rename(folder / stream / f"{second:06d}.parquet")
        time.sleep(max(0.0, 1 - (time.monotonic() - began)))


def ask(checkpoint: Path, *arguments: str) -> dict[str, Any]:
    """`muntin query` in a process of its own; its answer."""
    command = [
        sys.executable,
        "-m",
        "muntin.cli.main",
        "query",
        arguments[0],
        "--json",
        "--checkpoint",
        str(checkpoint),
    ]
    done = subprocess.run([*command, *arguments[1:]], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def measure(quick: bool, tell: Callable[[str], None], spark: Any) -> dict[str, Any]:
    seconds, count, more = QUICK if quick else WHOLE
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder, taken = Path(name), list[float]()
        for stream in "AB":
            (folder / stream).mkdir()
        run = _start(spark, folder, taken)
        try:
            tell(f"{count} queries added and dropped under {2 * RATE:,} rows a second")
            figures = _under_load(run, folder, seconds, count)
            busy = taken[WARM:]
            figures |= {"median_s": statistics.median(busy), "longest_s": max(busy)}
            tell(f"{more} queries added one after the other")
            figures["one_after_the_other"] = [_timed_add(run, n) for n in range(more)]
        finally:
            run.stop()
        figures["checked"] = _check(folder, figures.pop("answers"))
    return figures


def _start(spark: Any, folder: Path, taken: list[float]) -> Run:
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{folder}/{s}');"
        for s in "AB"
    )
    text = streams + "".join(statement(name, *query) + ";" for name, query in LASTING.items())
    return Job(spark, parse_job(text)).start(
        output=folder / "out",
        checkpoint=folder / "ckpt",
        progress=lambda status: taken.append(status["seconds"].get("triggerExecution", 0.0)),
    )


def _under_load(run: Run, folder: Path, seconds: int, count: int) -> dict[str, Any]:
    feeding = threading.Thread(target=feed, args=(folder, seconds))
    feeding.start()
    while (run.status()["batch"] or 0) < WARM:
        time.sleep(0.1)
    answers, batches = {}, []
    for n in range(count):
        before = run.status()["batch"]
        answers[f"x{n}"] = ask(folder / "ckpt", "add", statement(f"x{n}", *passing(n)))
        batches.append(run.status()["batch"] - before)
        if n >= PRESENT:
            ask(folder / "ckpt", "drop", f"x{n - PRESENT}")
    feeding.join()
    while run.status()["sources"]["A"]["total_rows"] < seconds * RATE:
        time.sleep(0.1)
    return {"answers": answers, "batches_until_in_force": batches}


def _timed_add(run: Run, n: int) -> float:
    began = time.monotonic()
    run.add(statement(f"y{n}", f" AND A.v > {n % 50}", 1 + n % 40))
    return time.monotonic() - began


def _check(folder: Path, answers: Mapping[str, Mapping[str, Any]]) -> dict[str, list[int]]:
    """Rows, distinct rows, and rows by DuckDB of each query, from where it is complete up to its last but one time."""
    found = {name: _compare(folder, name, *query, "1970-01-01") for name, query in LASTING.items()}
    for n, (name, answer) in enumerate(answers.items()):
        found[name] = _compare(folder, name, *passing(n), str(answer["complete_from"]))
    return found


def _compare(folder: Path, name: str, where: str, window_s: int, since: str) -> list[int]:
    con = duckdb.connect()
    files = f"read_parquet('{folder}/out/{name}/*.parquet')"
    (last,) = con.execute(f"SELECT max(epoch_us(_ts)) FROM {files}").fetchall()[0]
    if last is None:
        return [0, 0, 0]
    span = f"ts >= epoch_us(TIMESTAMPTZ '{since}') AND ts < {last}"
    got = f"SELECT count(*), count(DISTINCT (a, b)) FROM (SELECT a, b, epoch_us(_ts) AS ts FROM {files}) WHERE {span}"
    left, right = (f"(SELECT *, epoch_us(ts) AS us FROM read_parquet('{folder}/{s}/*.parquet'))" for s in "AB")
    pairs = (
        f"SELECT greatest(A.us, B.us) AS ts FROM {left} A JOIN {right} B ON A.k = B.k "
        f"WHERE abs(A.us - B.us) < {window_s * SECOND_US}{where}"
    )
    want = f"SELECT count(*) FROM ({pairs}) WHERE {span}"
    return [int(n) for query in (got, want) for n in con.execute(query).fetchall()[0]]


def render(figures: Mapping[str, Any]) -> str:
    wrong = [name for name, (got, distinct, want) in figures["checked"].items() if not got == distinct == want]
    times = figures["one_after_the_other"]
    first, last = (statistics.median(part) for part in (times[:5], times[-5:]))
    longest, median = figures["longest_s"], figures["median_s"]
    return "\n".join(
        [
            f"under {2 * RATE:,} rows/s, {len(figures['batches_until_in_force'])} queries added and dropped",
            f"  micro-batches   longest {longest:.2f} s, median {median:.2f} s: ratio {longest / median:.2f}",
            f"  in force after  {max(figures['batches_until_in_force'])} micro-batches at most",
            f"  rows            {'as by DuckDB in all queries' if not wrong else 'WRONG in ' + ', '.join(wrong)}",
            f"{len(times)} queries added one after the other: the last ones {last:.2f} s each, the first ones "
            f"{first:.2f} s: ratio {last / first:.2f}",
        ]
    )
