"""`muntin bench spark` and `muntin bench flink`: what a user would pick instead, one after the other on the same files.

Each contender runs in a process of its own (`peers`), has the machine to itself, and is given a limited time. Time
counts from when the largest window is full; a contender that does not get there is compared by its last micro-batch,
which is a lower bound since windows were still filling. Rows per query are compared with those that DuckDB finds in
the files; one that differs fails the bench.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from muntin.bench import flink, workload
from muntin.bench.peers import Heard, Ledger, Tell, listen, muntin
from muntin.bench.workload import WORKLOADS, Workload, describe
from muntin.model import MuntinError, UsageError

QUICK = 5
"""By how much rows, windows, keys and micro-batches are smaller in a quick run: 2 x 200,000 rows."""
FLINK_ROWS, FLINK_BATCH = 2_000_000, 500_000
"""Flink has no micro-batches, so ours may be larger beside it."""
OURS = "muntin"


@dataclass(frozen=True)
class Contender:
    name: str
    run: Callable[[Path, float], Heard]
    format: str = "parquet"


def spark_contenders() -> list[Contender]:
    def native(kind: str, state: str) -> Callable[[Path, float], Heard]:
        command = [sys.executable, "-m", "muntin.bench.peer_spark"]
        return lambda folder, limit: listen([*command, str(folder), kind, state], limit)

    return [
        Contender("muntin, Parquet out", lambda folder, limit: muntin(folder, limit, "--output")),
        Contender("muntin, counted", lambda folder, limit: muntin(folder, limit)),
        *(Contender(f"spark, one join, {state}", native("one", state)) for state in ("rocksdb", "memory")),
        *(Contender(f"spark, a join each, {state}", native("each", state)) for state in ("memory", "rocksdb")),
    ]


def flink_contenders(python: Path) -> list[Contender]:
    csv = ("--format", "csv")
    return [
        Contender("muntin, Parquet in, Parquet out", lambda folder, limit: muntin(folder, limit, "--output")),
        Contender("muntin, CSV in, Parquet out", lambda folder, limit: muntin(folder, limit, "--output", *csv), "csv"),
        Contender("muntin, Parquet in, counted", lambda folder, limit: muntin(folder, limit)),
        Contender("muntin, CSV in, counted", lambda folder, limit: muntin(folder, limit, *csv), "csv"),
        Contender("flink, one join", lambda folder, limit: flink.flink(python, folder, limit, "one"), "csv"),
        Contender("flink, a join each", lambda folder, limit: flink.flink(python, folder, limit, "each"), "csv"),
    ]


def chosen(names: Sequence[str]) -> list[Workload]:
    unknown = [name for name in names if name not in WORKLOADS and name != "all"]
    if unknown:
        raise UsageError(f"there is no workload {unknown[0]}", hint=f"workloads: all, {', '.join(WORKLOADS)}")
    return list(WORKLOADS.values()) if "all" in names else [WORKLOADS[name] for name in names]


def against_spark(names: Sequence[str], quick: bool, limit_s: float, ledger: Ledger, tell: Tell) -> dict[str, Any]:
    return _against(chosen(names), spark_contenders(), ("parquet",), quick, limit_s, ledger, tell)


def against_flink(names: Sequence[str], quick: bool, limit_s: float, ledger: Ledger, tell: Tell) -> dict[str, Any]:
    """The same beside Flink; where Flink cannot be had, that is said and ours stands alone."""
    given = [replace(w, rows=FLINK_ROWS, batch_rows=FLINK_BATCH) for w in chosen(names)]
    try:
        contenders, skipped = flink_contenders(flink.ensure_flink(tell)), None
    except MuntinError as error:
        contenders, skipped = flink_contenders(Path())[:4], f"Flink is skipped: {error.message}"
        tell(skipped)
    figures = _against(given, contenders, ("parquet", "csv"), quick, limit_s, ledger, tell)
    return figures | ({"skipped": skipped} if skipped else {})


def _against(
    given: Sequence[Workload],
    contenders: Sequence[Contender],
    formats: tuple[str, ...],
    quick: bool,
    limit_s: float,
    ledger: Ledger,
    tell: Tell,
) -> dict[str, Any]:
    figures: dict[str, Any] = {"limit_s": limit_s, "workloads": {}, "wrong": []}
    for whole in given:
        load = whole.scaled(QUICK) if quick else whole
        tell(f"{load.name}: {load.says}; 2 x {load.rows:,} rows in micro-batches of {load.batch_rows:,}")
        found: dict[str, Any] = {}
        with laid_out(load, formats) as folder:
            for contender in contenders:
                name, of = f"{load.name}/{contender.name}", describe(load) | {"limit_s": limit_s}
                found[contender.name] = ledger.get(name, of, partial(result, load, folder, contender, limit_s))
                tell(f"  {contender.name}: {in_words(found[contender.name])}")
        figures["workloads"][load.name] = describe(load) | {"results": found}
        figures["wrong"] += [f"{load.name}, {name}" for name, f in found.items() if f["rows_agree"] is False]
    return figures


@contextmanager
def laid_out(load: Workload, formats: tuple[str, ...]) -> Iterator[Path]:
    """The files of a workload in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        workload.write(load, folder, formats)
        (folder / "workload.json").write_text(load.to_json())
        if "csv" in formats:
            flink.whole_files(folder)
        yield folder


def result(load: Workload, folder: Path, contender: Contender, limit_s: float) -> dict[str, Any]:
    """One contender's run in figures; `rows_agree` None where it ended before it had told."""
    heard = contender.run(folder, limit_s)
    seconds, steady = heard.steady_s(load.warm)
    want = workload.expected(load, folder, contender.format, len(heard.seconds)) if heard.rows else {}
    return {
        "seconds": seconds,
        "steady": steady,
        "rows_per_s": load.batch_rows / seconds if seconds else None,
        "micro_batches": list(heard.seconds.values()),
        "rows": heard.rows,
        "rows_agree": all(want[name] == rows for name, rows in heard.rows.items()) if heard.rows else None,
        "ended": heard.ended,
        "facts": heard.facts,
    }


def in_words(found: Mapping[str, Any]) -> str:
    if found["seconds"] is None:
        return f"no micro-batch ({found['ended']})"
    least = "" if found["steady"] else "at least "
    agree = {True: "rows agree", False: "ROWS DIFFER", None: "rows not known"}[found["rows_agree"]]
    return (
        f"{least}{found['seconds']:.2f} s a micro-batch, {found['rows_per_s']:,.0f} rows/s, {agree}, {found['ended']}"
    )


# -- what is asked of the ratios ----------------------------------------------------------------------------------

SPARK_TARGETS = {"spark, a join each": 50.0, "spark, one join": 8.0}
FLINK_TARGETS = {"flink, a join each": 20.0, "flink, one join": 2.0}
DELIVERY = {"selective": "Parquet out", "dense": "counted"}
"""What ours does with the rows of a workload when it is compared: the others discard them."""


def ratios(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each workload and opponent, its best time over ours."""
    lines = []
    for name, load in figures["workloads"].items():
        results = load["results"]
        for opponent in (*SPARK_TARGETS, *FLINK_TARGETS):
            theirs = _best(results, opponent)
            for ours in (n for n in results if n.startswith(OURS)):
                if theirs is None or results[ours]["seconds"] is None:
                    continue
                targeted = DELIVERY.get(name) is not None and ours.endswith(DELIVERY[name])
                lines.append(
                    {
                        "workload": name,
                        "opponent": theirs,
                        "ours": ours,
                        "ratio": results[theirs]["seconds"] / results[ours]["seconds"],
                        "lower_bound": not results[theirs]["steady"],
                        "target": {**SPARK_TARGETS, **FLINK_TARGETS}[opponent] if targeted else None,
                    }
                )
    return lines


def _best(results: Mapping[str, Any], opponent: str) -> str | None:
    """The quickest variant of an opponent; one that reached its steady state before one that did not."""
    found = [n for n, f in results.items() if n.startswith(opponent) and f["seconds"] is not None]
    return min(found, key=lambda n: (not results[n]["steady"], results[n]["seconds"]), default=None)
