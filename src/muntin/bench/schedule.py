"""`muntin bench schedule`: a burst of a dense join in one micro-batch, delivered eagerly, under each scheduler.

The windows are those of hammad2003, table 1, in all four distributions. All rows have one key, so that a row meets
thousands. What counts is how long the rows of each query take from ingest to hand-over, Spark's own share included;
rows are handed over and counted, not written.

The contenders take turns, and each round begins with another one. Rounds go on until what they say of the schedulers no
longer overlaps, or there have been enough: a mean comes with the smallest and the largest of the rounds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from itertools import combinations
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
ROWS, QUICK_ROWS = 8_000, 3_000
"""Rows of both streams that come at once."""
SPAN_S = 900
"""Of event time that they cover: the largest window and a half."""
FEWEST, MOST = 2, 6
"""Rounds."""
Figures = dict[str, Any]


def measure(quick: bool, tell: Callable[[str], None], spark: Any) -> Figures:
    total, names = QUICK_ROWS if quick else ROWS, list(TABLE_1)[-1:] if quick else list(TABLE_1)
    figures: Figures = {"rows": total, "distributions": {}}
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write(folder, total)
        tell("warming up")
        _run(spark, folder, TABLE_1[names[0]], BASE)
        for distribution in names:
            figures["distributions"][distribution] = _compare(spark, folder, distribution, tell)
    return figures


def _compare(spark: Any, folder: Path, distribution: str, tell: Callable[[str], None]) -> Figures:
    """The rounds of one distribution."""
    windows, found = TABLE_1[distribution], {name: list[Figures]() for name in SCHEDULERS.names}
    for number in range(MOST):
        for scheduler in rotated(SCHEDULERS.names, number):
            tell(f"{distribution}, round {number + 1}: {scheduler}")
            found[scheduler].append(_run(spark, folder, windows, scheduler))
        overall = {s: [_overall(r) for r in rounds] for s, rounds in found.items()}
        if number + 1 >= FEWEST and separate(list(overall.values())):
            break
    queries = [f"w{n}" for n in range(1, len(windows) + 1)]
    return {
        "windows_s": windows,
        "rounds": number + 1,
        "separate": separate(list(overall.values())),
        "rows": {q: found[BASE][0][q]["rows"] for q in queries},
        "mean_s": {s: {q: _spread([r[q]["mean_s"] for r in rounds]) for q in queries} for s, rounds in found.items()},
        "p99_s": {s: {q: _spread([r[q]["p99_s"] for r in rounds]) for q in queries} for s, rounds in found.items()},
        "overall_s": {s: _spread(times) for s, times in overall.items()},
    }


def rotated(names: Sequence[str], number: int) -> list[str]:
    """The contenders of a round: each is the first in its turn."""
    start = number % len(names)
    return [*names[start:], *names[:start]]


def separate(measured: Sequence[Sequence[float]]) -> bool:
    """Whether no two contenders have rounds between each other's smallest and largest."""
    return all(max(a) < min(b) or max(b) < min(a) for a, b in combinations(measured, 2))


def _overall(query: Figures) -> float:
    """The mean over the windows, each counting the same."""
    return float(np.mean([times["mean_s"] for times in query.values()]))


def _spread(times: Sequence[float]) -> dict[str, float]:
    return {"mean": float(np.mean(times)), "least": min(times), "most": max(times)}


def write(folder: Path, total: int) -> None:
    """Both streams as a file each, all rows with one key."""
    rng, each = np.random.default_rng(2003), total // 2
    for stream in "AB":
        ts = np.sort(rng.integers(0, SPAN_S * 1_000_000, each))
        table = pa.table(
            {"ts": pa.array(ts, pa.timestamp("us", "UTC")), "id": np.arange(each), "k": np.zeros(each, np.int64)}
        )
        (folder / stream).mkdir()
        pq.write_table(table, folder / stream / "0.parquet")


def _run(spark: Any, folder: Path, windows: Sequence[int], scheduler: str) -> Figures:
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{folder}/{s}');"
        for s in "AB"
    )
    queries = "".join(
        f"CREATE QUERY w{n} AS SELECT A.id AS a FROM A, B WHERE A.k = B.k WINDOW {w} s;"
        for n, w in enumerate(windows, 1)
    )
    text = f"SET delivery = 'eager'; SET scheduler = '{scheduler}'; SET fan_out_limit = 1000000000;"
    run = Job(spark, parse_job(text + streams + queries)).start(output="none", mode="available-now")
    run.await_termination()
    return {name: query["response"] for name, query in run.status()["queries"].items()}


def render(figures: Figures) -> str:
    """Mean and 99th percentile of each window with the spread over the rounds, and the ratios."""
    lines = [f"{figures['rows']:,} rows with one key in one micro-batch, delivered eagerly; seconds, least to most"]
    for name, found in figures["distributions"].items():
        apart = "the rounds of all schedulers are apart" if found["separate"] else "rounds of schedulers overlap"
        lines += ["", f"{name}, {found['rounds']} rounds, {apart}"]
        head = "".join(f"{f'{s} mean':>22}{f'{s} 99%':>9}" for s in found["mean_s"])
        lines.append(f"{'window':>8}{head}{'rows':>14}")
        for n, window in enumerate(found["windows_s"], 1):
            cells = "".join(_cells(found, s, f"w{n}") for s in found["mean_s"])
            lines.append(f"{f'{window} s':>8}{cells}{found['rows'][f'w{n}']:>14,}")
        overall = {s: times["mean"] for s, times in found["overall_s"].items()}
        lines.append(f"{'all':>8}" + "".join(f"{_span(found['overall_s'][s]):>22}{'':>9}" for s in overall))
        for s in [name for name in overall if name != BASE]:
            small = found["mean_s"][s]["w1"]["mean"] / found["mean_s"][BASE]["w1"]["mean"]
            ratio = overall[s] / overall[BASE]
            lines.append(f"{s} against {BASE}: smallest window {small:.2f}, mean over the windows {ratio:.2f}")
    return "\n".join(lines)


def _cells(found: Figures, scheduler: str, query: str) -> str:
    return f"{_span(found['mean_s'][scheduler][query]):>22}{found['p99_s'][scheduler][query]['mean']:>9.2f}"


def _span(times: dict[str, float]) -> str:
    return f"{times['mean']:.2f} ({times['least']:.2f}-{times['most']:.2f})"
