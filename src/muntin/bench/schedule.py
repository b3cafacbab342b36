"""`muntin bench schedule`: bursts of a dense join, delivered eagerly, under each scheduler; and what eager delivery
costs a selective join.

The windows are those of hammad2003, table 1, in all four distributions. All rows have one key, so that a row meets
thousands. Bursts come at two loads: a burst takes so much of the time until the next one, measured in one micro-batch
for each, Spark's own share included. What counts is how long the rows of each query take from the appearance of their
file to hand-over; rows are handed over and counted, not written.

The contenders take turns, and each round begins with another one. Rounds go on until what they say of the schedulers no
longer overlaps, or there have been enough: a mean comes with the smallest and the largest of the rounds. Each run has a
name such as `uniform/load 0.5/round 1/mqt` (for --only), and a bench that was stopped goes on after its last run.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.bench.bursts import (
    STREAMS,
    Figures,
    TimedFile,
    batch_seconds,
    cores,
    hardly_any,
    in_words,
    play,
    rotated,
    rows,
    separate,
    spread,
    streams,
    temporary_folder,
)
from muntin.bench.peers import Tell, Terms
from muntin.generate.windows import TABLE_1
from muntin.plan.schedulers import SCHEDULERS
from muntin.spark.run import Job
from muntin.sql import parse_job

BASE = SCHEDULERS.names[0]
"""The scheduler that the others are compared with."""
LOADS = 0.5, 0.7
FEWEST, MOST = 2, 4
"""Rounds."""


@dataclass(frozen=True)
class BurstSize:
    """Rows of each stream in a burst, bursts, and the event time that a burst covers: half of the largest window."""

    rows: int
    bursts: int = 5
    span_s: int = 300
    selective: int = 400_000
    """Rows of each stream of the selective join."""


FULL, QUICK = BurstSize(2_400), BurstSize(800, 4, selective=100_000)
FEW = 3
"""Micro-batches with hardly a row."""
BATCH = "batch"
"""The contender that hands rows over with their micro-batch."""
SELECTIVE_ROUNDS, SELECTIVE_FILES = 3, 4


def measure(quick: bool, terms: Terms, spark: Any) -> Figures:
    size, names = QUICK if quick else FULL, list(TABLE_1)[-1:] if quick else list(TABLE_1)
    loads = LOADS[:1] if quick else LOADS
    figures: Figures = {"size": asdict(size), "distributions": {}, "selective": _selective(spark, size, terms)}
    for name in names:
        runs = [_key(name, load, number, s) for load in loads for number in range(MOST) for s in SCHEDULERS.names]
        measured = partial(_work, spark, size, TABLE_1[name], terms.tell)
        work = terms.know(f"{name}/work", {"size": asdict(size)}, measured, runs)
        for load in loads if work else ():
            assert work is not None
            found = _compare(spark, size, name, load, work, terms)
            if found is not None:
                figures["distributions"][f"{name}, load {load:g}"] = found
    return figures


# -- bursts -----------------------------------------------------------------------------------------------------------


def _bursts(size: BurstSize, period_s: float) -> list[TimedFile]:
    """Both streams at the same moments, one stretch of event time after the other."""
    rng = np.random.default_rng(2003)
    return [
        TimedFile(n * period_s, stream, rows(rng, size.rows, n * size.span_s, (n + 1) * size.span_s))
        for n in range(size.bursts)
        for stream in STREAMS
    ]


def _sql(windows: Sequence[int], scheduler: str, options: str, folder: Path) -> str:
    queries = "".join(
        f"CREATE QUERY w{n} AS SELECT A.id AS a FROM A, B WHERE A.k = B.k WINDOW {w} s;"
        for n, w in enumerate(windows, 1)
    )
    eager = f"SET delivery = 'eager'; SET scheduler = '{scheduler}'; SET longest_wait = '10 minutes';"
    return eager + "SET fan_out_limit = 1000000000;" + streams(folder, options) + queries


def _work(spark: Any, size: BurstSize, windows: Sequence[int], tell: Tell) -> Figures:
    """Seconds of a micro-batch that does all of a burst, once windows are full, and of one with hardly a row."""
    tell("what a burst takes")
    few = hardly_any(FEW, size.bursts, size.bursts * size.span_s)
    with temporary_folder() as folder:
        sql = partial(_sql, windows, BASE, ", maxFilesPerTrigger = '1'")
        took = batch_seconds(spark, sql, [*_bursts(size, 1.0), *few], folder)
    return {"burst_s": statistics.fmean(took[size.bursts - 2 : size.bursts]), "few_s": min(took[size.bursts :])}


def _key(distribution: str, load: float, number: int, scheduler: str) -> str:
    return f"{distribution}/load {load:g}/round {number + 1}/{scheduler}"


def _compare(spark: Any, size: BurstSize, name: str, load: float, work: Figures, terms: Terms) -> Figures | None:
    """The rounds of one distribution at one load."""
    windows, found = TABLE_1[name], {scheduler: list[Figures]() for scheduler in SCHEDULERS.names}
    period_s = round(work["burst_s"] / load, 3)
    for number in range(MOST):
        for scheduler in rotated(SCHEDULERS.names, number):
            key = _key(name, load, number, scheduler)
            of = {"size": asdict(size), "period_s": period_s}
            taken = terms.take(key, of, partial(_run, spark, size, windows, scheduler, period_s, key, terms.tell))
            found[scheduler] += [taken["queries"]] if taken else []
        overall = {s: [_overall(r) for r in rounds] for s, rounds in found.items()}
        if number + 1 >= FEWEST and all(overall.values()) and separate(list(overall.values())):
            break
    if not all(found.values()):
        return None
    queries = [f"w{n}" for n in range(1, len(windows) + 1)]
    return {
        "windows_s": windows,
        "work": {"burst_s": work["burst_s"], "few_s": work["few_s"], "period_s": period_s},
        "rounds": min(map(len, found.values())),
        "separate": separate(list(overall.values())),
        "rows": {q: found[BASE][0][q]["rows"] for q in queries},
        "mean_s": {s: {q: spread([r[q]["mean_s"] for r in rounds]) for q in queries} for s, rounds in found.items()},
        "p99_s": {s: {q: spread([r[q]["p99_s"] for r in rounds]) for q in queries} for s, rounds in found.items()},
        "overall_s": {s: spread(times) for s, times in overall.items()},
    }


def _run(
    spark: Any, size: BurstSize, windows: Sequence[int], scheduler: str, period_s: float, key: str, tell: Tell
) -> Figures:
    tell(key)
    with temporary_folder() as folder:
        played = play(spark, partial(_sql, windows, scheduler, ""), _bursts(size, period_s), folder)
    queries = {f"w{n}": played.response(f"w{n}") for n in range(1, len(windows) + 1)}
    return {"queries": queries, "batches": len(played.batches_s), "late_s": played.late_s}


def _overall(queries: Figures) -> float:
    """The mean over the windows, each counting the same."""
    return statistics.fmean(times["mean_s"] for times in queries.values())


# -- a selective join -------------------------------------------------------------------------------------------------


def _selective(spark: Any, size: BurstSize, terms: Terms) -> Figures | None:
    """Seconds of a core of a whole run in which a row meets one partner: with their micro-batch, and eagerly."""
    found: dict[str, list[Figures]] = {name: [] for name in (BATCH, *SCHEDULERS.names)}
    for number in range(SELECTIVE_ROUNDS):
        for name in rotated(list(found), number):
            key = f"selective/round {number + 1}/{name}"
            of = {"rows": size.selective}
            taken = terms.take(key, of, partial(_selective_run, spark, size.selective, name, key, terms.tell))
            found[name] += [taken] if taken else []
    if not all(found.values()):
        return None
    return {
        "rows": size.selective,
        "out": {name: runs[0]["out"] for name, runs in found.items()},
        "core_s": {name: spread([run["core_s"] for run in runs]) for name, runs in found.items()},
        "ratio": {
            name: statistics.median(a["core_s"] / b["core_s"] for a, b in zip(found[name], found[BATCH], strict=False))
            for name in SCHEDULERS.names
        },
    }


def _selective_run(spark: Any, total: int, name: str, key: str, tell: Tell) -> Figures:
    tell(key)
    took: list[float] = []
    with temporary_folder() as folder:
        rng = np.random.default_rng(7)
        for stream in STREAMS:
            (folder / stream).mkdir()
            for n in range(SELECTIVE_FILES):
                table = rows(rng, total // SELECTIVE_FILES, 60 * n, 60 * (n + 1))
                keys = rng.integers(0, total // SELECTIVE_FILES, table.num_rows)
                pq.write_table(table.set_column(2, "k", pa.array(keys)), folder / stream / f"{n:04d}.parquet")
                os.utime(folder / stream / f"{n:04d}.parquet", (1_700_000_000 + n,) * 2)
        text = "" if name == BATCH else f"SET delivery = 'eager'; SET scheduler = '{name}';"
        text += streams(folder, ", maxFilesPerTrigger = '1'") + "".join(
            f"CREATE QUERY w{w} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW {w} s;"
            for w in (5, 20, 60)
        )
        with cores(took):
            run = Job(spark, parse_job(text)).start(sink=_drop, checkpoint=folder / "ckpt", mode="available-now")
            run.await_termination()
        out = sum(query["total_rows"] for query in run.status()["queries"].values())
    return {"core_s": took[0], "out": out}


def _drop(query: str, table: pa.Table, batch: int) -> None:
    """Hand over, and no more."""


# -- words ------------------------------------------------------------------------------------------------------------


def render(figures: Figures) -> str:
    """Mean and 99th percentile of each window with the spread over the rounds, and the ratios."""
    size = figures["size"]
    lines = [
        f"{size['bursts']} bursts of 2 x {size['rows']:,} rows with one key, delivered eagerly; seconds from the "
        "appearance of a file to hand-over, least to most"
    ]
    for name, found in figures["distributions"].items():
        lines += ["", *_distribution(name, found)]
    if (found := figures["selective"]) is not None:
        lines += ["", f"2 x {found['rows']:,} rows that meet a partner or none: seconds of a core"]
        lines += [f"{BATCH:>8} {in_words(found['core_s'][BATCH])}"]
        lines += [f"{s:>8} {in_words(found['core_s'][s])}, {found['ratio'][s]:.3f} times" for s in found["ratio"]]
        if len(set(found["out"].values())) > 1:
            lines.append(f"ROWS DIFFER: {found['out']}")
    return "\n".join(lines)


def _distribution(name: str, found: Figures) -> list[str]:
    apart = "the rounds of all schedulers are apart" if found["separate"] else "rounds of schedulers overlap"
    work = found["work"]
    lines = [
        f"{name}, {found['rounds']} rounds, {apart}",
        f"a burst takes {work['burst_s']:.2f} s and comes every {work['period_s']:.2f} s; a micro-batch with hardly a "
        f"row takes {work['few_s']:.2f} s",
    ]
    head = "".join(f"{f'{s} mean':>22}{f'{s} 99%':>9}" for s in found["mean_s"])
    lines.append(f"{'window':>8}{head}{'rows':>14}")
    for n, window in enumerate(found["windows_s"], 1):
        cells = "".join(_cells(found, s, f"w{n}") for s in found["mean_s"])
        lines.append(f"{f'{window} s':>8}{cells}{found['rows'][f'w{n}']:>14,}")
    overall = {s: times["mean"] for s, times in found["overall_s"].items()}
    lines.append(f"{'all':>8}" + "".join(f"{in_words(found['overall_s'][s]):>22}{'':>9}" for s in overall))
    for s in [name for name in overall if name != BASE]:
        small, base = (found["mean_s"][which]["w1"]["mean"] for which in (s, BASE))
        lines.append(
            f"{s} against {BASE}: smallest window {small / base:.2f}, mean over the windows "
            f"{overall[s] / overall[BASE]:.2f}"
        )
    return lines


def _cells(found: Figures, scheduler: str, query: str) -> str:
    return f"{in_words(found['mean_s'][scheduler][query]):>22}{found['p99_s'][scheduler][query]['mean']:>9.2f}"
