"""`muntin bench schedule`: a burst in one micro-batch, delivered eagerly, under each scheduler in one run.

The windows are those of hammad2003's Small-Large distribution. What counts is how long the rows of each query take from
ingest to hand-over, Spark's own share included; rows are handed over and counted, not written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.generate.windows import TABLE_1
from muntin.plan.schedulers import SCHEDULERS
from muntin.spark.run import Job
from muntin.sql import parse_job

BASE = SCHEDULERS.names[0]
"""The scheduler that the others are compared with."""
ROWS, QUICK_ROWS = 500_000, 60_000
"""Rows of both streams that come at once."""
SPAN_S = 900
"""Of event time that they cover: the largest window and a half."""
PARTNERS, QUICK_PARTNERS = 100, 24
"""Rows of the other stream that a row meets in the largest window, where that is full."""


def measure(quick: bool, tell: Callable[[str], None], spark: Any) -> dict[str, Any]:
    total, windows = QUICK_ROWS if quick else ROWS, TABLE_1["small-large"]
    figures: dict[str, Any] = {"rows": total, "windows_s": windows, "schedulers": {}}
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write(folder, total, QUICK_PARTNERS if quick else PARTNERS)
        for scheduler in (BASE, *SCHEDULERS.names):  # the first one warms up, and counts for nothing
            tell(f"a burst of {total:,} rows under {scheduler}")
            figures["schedulers"][scheduler] = _run(spark, folder, scheduler)
    means = {s: {q: f["mean_s"] for q, f in found.items()} for s, found in figures["schedulers"].items()}
    overall = {s: float(np.mean(list(found.values()))) for s, found in means.items()}
    figures["overall_s"] = overall
    others = [name for name in SCHEDULERS.names if name != BASE]
    figures[f"smallest_against_{BASE}"] = {s: means[s]["w1"] / means[BASE]["w1"] for s in others}
    figures[f"overall_against_{BASE}"] = {s: overall[s] / overall[BASE] for s in others}
    return figures


def write(folder: Path, total: int, partners: int) -> None:
    """Both streams as a file each."""
    rng, each = np.random.default_rng(2003), total // 2
    keys = max(1, round(each / SPAN_S * TABLE_1["small-large"][-1] / partners))
    for stream in "AB":
        ts = np.sort(rng.integers(0, SPAN_S * 1_000_000, each))
        table = pa.table(
            {"ts": pa.array(ts, pa.timestamp("us", "UTC")), "id": np.arange(each), "k": rng.integers(0, keys, each)}
        )
        (folder / stream).mkdir()
        pq.write_table(table, folder / stream / "0.parquet")


def _run(spark: Any, folder: Path, scheduler: str) -> dict[str, Any]:
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{folder}/{s}');"
        for s in "AB"
    )
    queries = "".join(
        f"CREATE QUERY w{n} AS SELECT A.id AS a FROM A, B WHERE A.k = B.k WINDOW {w} s;"
        for n, w in enumerate(TABLE_1["small-large"], 1)
    )
    text = f"SET delivery = 'eager'; SET scheduler = '{scheduler}'; SET fan_out_limit = 1000000000;"
    run = Job(spark, parse_job(text + streams + queries)).start(output="none", mode="available-now")
    run.await_termination()
    return {name: query["response"] for name, query in run.status()["queries"].items()}


def render(figures: dict[str, Any]) -> str:
    """Mean response time of each query, and the ratios."""
    schedulers = figures["schedulers"]
    lines = [f"{figures['rows']:,} rows in one micro-batch, delivered eagerly; mean response in seconds"]
    lines.append("window " + "".join(f"{s:>10}" for s in schedulers) + f"{'rows':>14}")
    for n, window in enumerate(figures["windows_s"], 1):
        times = [schedulers[s][f"w{n}"] for s in schedulers]
        lines.append(f"{window:>4} s " + "".join(f"{t['mean_s']:>10.2f}" for t in times) + f"{times[0]['rows']:>14,}")
    lines.append("all    " + "".join(f"{figures['overall_s'][s]:>10.2f}" for s in schedulers))
    for s, small in figures[f"smallest_against_{BASE}"].items():
        overall = figures[f"overall_against_{BASE}"][s]
        lines.append(f"{s} against {BASE}: smallest window {small:.2f}, mean over the windows {overall:.2f}")
    return "\n".join(lines)
