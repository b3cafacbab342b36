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
from muntin.bench.peers import DONE, OUT_OF_TIME, Heard, Terms, listen, muntin
from muntin.bench.workload import EVERYTHING, WORKLOADS, Workload, describe
from muntin.model import MuntinError, UsageError

QUICK_ROWS = 200_000
"""Of each stream in a quick run."""
FLINK_ROWS, FLINK_BATCH = 2_000_000, 500_000
"""Ours beside Flink, which has no micro-batches: so they may be larger."""
OURS = "muntin"


def _same(load: Workload) -> Workload:
    return load


@dataclass(frozen=True)
class Contender:
    name: str
    run: Callable[[Workload, Path, float], Heard]
    format: str = "parquet"
    sees: Callable[[Workload], Workload] = _same
    """What it reads of a workload and in which steps it reports, where that is not as the workload says."""


def ours(name: str, *options: str, format: str = "parquet") -> Contender:
    asked = (*options, "--format", format)
    return Contender(f"{OURS}, {name}", lambda _, folder, limit: muntin(folder, limit, *asked), format)


def spark_contenders() -> list[Contender]:
    def native(name: str, kind: str, state: str) -> Contender:
        command = [sys.executable, "-m", "muntin.bench.peer_spark"]
        run = lambda _, folder, limit: listen([*command, str(folder), kind, state], limit)  # noqa: E731
        return Contender(f"spark, {name}, {state}", run)

    return [
        ours("Parquet out", "--output"),
        ours("counted"),
        *(native("one join", "one", state) for state in ("rocksdb", "memory")),
        *(native("a join each", "each", state) for state in ("rocksdb", "memory")),
    ]


def flink_contenders(python: Path) -> list[Contender]:
    def native(name: str, kind: str) -> Contender:
        run = partial(flink.flink, python, kind)
        return Contender(f"flink, {name}", run, "csv", partial(flink.part_of, kind))

    return [
        ours("Parquet in, Parquet out", "--output"),
        ours("CSV in, Parquet out", "--output", format="csv"),
        ours("Parquet in, counted"),
        ours("CSV in, counted", format="csv"),
        native("one join", "one"),
        native("a join each", "each"),
    ]


def chosen(names: Sequence[str]) -> list[Workload]:
    unknown = [name for name in names if name not in WORKLOADS and name != "all"]
    if unknown:
        raise UsageError(f"there is no workload {unknown[0]}", hint=f"workloads: all, {', '.join(WORKLOADS)}")
    return list(WORKLOADS.values()) if "all" in names else [WORKLOADS[name] for name in names]


def against_spark(names: Sequence[str], terms: Terms) -> dict[str, Any]:
    return _against(chosen(names), spark_contenders(), ("parquet",), terms)


def against_flink(names: Sequence[str], terms: Terms) -> dict[str, Any]:
    """The same beside Flink; where Flink cannot be had, that is said and ours stands alone."""
    given = [replace(w, rows=FLINK_ROWS, batch_rows=FLINK_BATCH) for w in chosen(names)]
    try:
        contenders, skipped = flink_contenders(flink.ensure_flink(terms.tell)), None
    except MuntinError as error:
        contenders = [c for c in flink_contenders(Path()) if c.name.startswith(OURS)]
        skipped = f"Flink is skipped: {error.message}"
        terms.tell(skipped)
    figures = _against(given, contenders, ("parquet", "csv"), terms)
    figures["least_rows_per_s"] = LEAST_ROWS_PER_S if terms.share == 1 else {}
    return figures | ({"skipped": skipped} if skipped else {})


def _against(
    given: Sequence[Workload], contenders: Sequence[Contender], formats: tuple[str, ...], terms: Terms
) -> dict[str, Any]:
    figures: dict[str, Any] = {"limit_s": terms.limit_s, "workloads": {}, "faults": []}
    for whole in given:
        load = whole.scaled(terms.share)
        terms.tell(f"{load.name}: {load.says}; 2 x {load.rows:,} rows in micro-batches of {load.batch_rows:,}")
        found: dict[str, Any] = {}
        with laid_out(load, formats) as folder:
            for contender in contenders:
                name, run = f"{load.name}/{contender.name}", partial(result, load, folder, contender, terms.limit_s)
                taken = terms.take(name, describe(load), run)
                if taken is not None:
                    found[contender.name] = taken
                    terms.tell(f"  {contender.name}: {in_words(taken)}")
                    figures["faults"] += faults(name, taken)
        figures["workloads"][load.name] = describe(load) | {"results": found}
    return figures


@contextmanager
def laid_out(load: Workload, formats: tuple[str, ...]) -> Iterator[Path]:
    """The files of a workload in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        workload.write(load, folder, formats)
        (folder / "workload.json").write_text(load.to_json())
        if "csv" in formats:
            flink.whole_files(load, folder)
        yield folder


def result(load: Workload, folder: Path, contender: Contender, limit_s: float) -> dict[str, Any]:
    """One contender's run in figures; `rows_agree` None where it ended before it had told."""
    seen = contender.sees(load)
    heard = contender.run(seen, folder, limit_s)
    (step_s, steady), busy_s = heard.steady_s(seen.warm), heard.busy_s(seen.warm)
    steps = load.batch_rows / seen.batch_rows
    seconds = None if step_s is None else step_s * steps
    agree = rows_out = None
    if heard.rows:
        files = round(len(heard.seconds) / steps)
        want = workload.expected(load, folder, contender.format, files)
        before = workload.expected(load, folder, contender.format, files - 1)
        rows_out = sum(rows - before.get(name, 0) for name, rows in heard.rows.items())
        agree = heard.rows in ({EVERYTHING: want.pop(EVERYTHING)}, want)
    return {
        "seconds": seconds,
        "steady": steady,
        "core_s": None if busy_s is None else busy_s * steps,
        "rows_per_s": load.batch_rows / seconds if seconds else None,
        "rows_out_per_s": rows_out / seconds if rows_out is not None and seconds and steady else None,
        "micro_batches": [s for played in heard.rounds for s in played.seconds.values()],
        "rows": heard.rows,
        "rows_agree": agree,
        "ended": heard.ended,
        "limit_s": limit_s,
        "facts": heard.facts,
    }


def faults(name: str, found: Mapping[str, Any]) -> list[str]:
    """What makes the bench fail; that a contender needs more time than it is given does not."""
    differ = [f"{name}: rows differ from those that DuckDB finds"] if found["rows_agree"] is False else []
    return differ + ([] if found["ended"] in (DONE, OUT_OF_TIME) else [f"{name}: {found['ended']}"])


def in_words(found: Mapping[str, Any]) -> str:
    if found["seconds"] is None:
        return f"no micro-batch ({found['ended']})"
    least = "" if found["steady"] else "at least "
    agree = {True: "rows agree", False: "ROWS DIFFER", None: "rows not known"}[found["rows_agree"]]
    return (
        f"{least}{found['seconds']:.2f} s a micro-batch, {found['rows_per_s']:,.0f} rows/s, {agree}, {found['ended']}"
    )


# -- what is asked of the ratios ----------------------------------------------------------------------------------

TARGETS = {"spark, a join each": 50.0, "spark, one join": 8.0, "flink, a join each": 20.0, "flink, one join": 2.0}
"""How many times our time each opponent should take."""
PARQUET, COUNTED = "Parquet out", "counted"
DELIVERY = {"selective": PARQUET, "dense": COUNTED}
"""What ours does with the rows of a workload when something is asked of it: the others discard them."""


LEAST_ROWS_PER_S = {"selective": 300_000}
"""What is asked of ours in the larger micro-batches that it has beside Flink, from Parquet to Parquet."""


def compared(workload: str, results: Mapping[str, Any]) -> list[str]:
    """Those of ours with which the others are compared."""
    return [name for name in results if name.startswith(OURS) and name.endswith(DELIVERY.get(workload, PARQUET))]


def ratios(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each workload and opponent, its time over each of ours."""
    lines = []
    for name, load in figures["workloads"].items():
        results = {n: f for n, f in load["results"].items() if f["seconds"] is not None}
        for theirs in (n for n in results if not n.startswith(OURS)):
            for ours in (n for n in results if n.startswith(OURS)):
                lines.append(
                    {
                        "workload": name,
                        "opponent": theirs,
                        "ours": ours,
                        "ratio": results[theirs]["seconds"] / results[ours]["seconds"],
                        "lower_bound": not results[theirs]["steady"],
                        "target": target(theirs)
                        if ours.endswith(DELIVERY.get(name, "")) and name in DELIVERY
                        else None,
                    }
                )
    return lines


def target(opponent: str) -> float:
    return next(times for name, times in TARGETS.items() if opponent.startswith(name))
