"""`muntin demo`: the whole idea on one screen, with nothing but this package."""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from muntin.cli.savings import Work
    from muntin.generate import Generated
    from muntin.model import JobSpec

SUMMARY = "the whole idea in two minutes, on an embedded Spark, with no input files"
EXAMPLE = "example: muntin demo --keep muntin-demo"
SECONDS, LOCATIONS = 600, 1000
SAMPLES = 2


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave data, job file and results in this new folder")


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.screen import console
    from muntin.generate import generate

    out = console()
    with ExitStack() as stack:
        folder = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muntin-demo-")))
        made = generate("sensors", folder / "data", duration_s=SECONDS, locations=LOCATIONS)
        spec = show_job(out, made)
        status = run_shared(out, made, folder)
        show_results(out, spec, status, folder / "out")
        show_savings(out, spec, made, status)
        if args.keep:
            out.print(f"\nkept: {made.job}, {folder / 'out'}, {folder / 'ckpt'}", markup=False)
    return 0


def heading(out: Console, text: str) -> None:
    out.print(f"\n{text}", style="bold", markup=False)


def show_job(out: Console, made: Generated) -> JobSpec:
    """The question: two streams, several queries, and the plan they become."""
    from muntin.cli.jobfile import read_job
    from muntin.plan.explain import explain
    from muntin.plan.traffic import Knowledge

    heading(out, "1  Two streams of a data centre, and what people want to know about them")
    for name, rows in made.rows.items():
        out.print(f"  {name:<12} {rows:>8,} rows over {SECONDS // 60} minutes, {LOCATIONS:,} locations", markup=False)
    spec = read_job(made.job)
    for query in spec.queries.values():
        out.print()
        text = query.text.strip().replace(" AS SELECT ", " AS\nSELECT ", 1)
        out.print("\n".join("  " + line for line in text.splitlines()), markup=False, soft_wrap=True)
    heading(out, "2  The shared plan: one join, its state cut by age at the queries' windows")
    rates = {name: rows / SECONDS for name, rows in made.rows.items()}
    out.print(explain(spec, Knowledge(rates=rates, keys=LOCATIONS)), markup=False, soft_wrap=True)
    return spec


def run_shared(out: Console, made: Generated, folder: Path) -> dict[str, Any]:
    from muntin.cli.run import run_job
    from muntin.cli.screen import Progress, rows_in, rows_out

    heading(out, "3  All of them as one Spark streaming job")
    began = time.monotonic()
    with Progress() as progress:
        status = run_job(made.job, str(folder / "out"), folder / "ckpt", "bounded", None, progress)
    out.print(
        f"  {rows_in(status):,} rows in, {rows_out(status):,} rows out, "
        f"{status['batches']} micro-batches, {time.monotonic() - began:.0f} s with the start of Spark",
        markup=False,
    )
    return status


def show_results(out: Console, spec: JobSpec, status: dict[str, Any], folder: Path) -> None:
    from muntin.cli.screen import table

    heading(out, "4  What each query got (the first rows of each)")
    for name in spec.queries:
        rows = first_rows(folder / name)
        title = f"{name}: {status['queries'][name]['total_rows']:,} rows"
        out.print(table(list(rows[0]) if rows else ["(no rows)"], [list(row.values()) for row in rows], title))


def first_rows(folder: Path) -> list[dict[str, Any]]:
    """The first rows in output order: files sort by name."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.parquet")):
        found += pq.read_table(path).slice(0, SAMPLES).to_pylist()
        if len(found) >= SAMPLES:
            break
    return [{k: str(v) if hasattr(v, "isoformat") else v for k, v in row.items()} for row in found[:SAMPLES]]


def show_savings(out: Console, spec: JobSpec, made: Generated, status: dict[str, Any]) -> None:
    """Both sides measured in this process, since six Spark jobs more would take minutes."""
    from muntin.cli.savings import measure
    from muntin.cli.screen import table

    heading(out, "5  What sharing saved")
    batches = micro_batches(made)
    shared, alone = measure(spec, batches)
    out.print(table(["", "shared", "one join per query", "saved"], comparison(shared, alone)))
    counters = status["joins"][0]["counters"]
    out.print(METHOD.format(batches=len(batches), queries=len(spec.queries), **counters), markup=False)


METHOD = """\
Measured, not estimated: the operator of the job ran again in this process, without Spark, over the same {batches}
micro-batches, once with all {queries} queries and once for each of them alone. Rows kept are the most after any
micro-batch. Shared, a row is kept once, as long as some query wants it; for another query, whose selection it fails,
it may be compared in vain, which is why more rows are compared than pairs found. Seconds are of join and routing on
one core. The Spark job itself found {pairs:,} pairs."""


def micro_batches(made: Generated) -> list[dict[str, pa.Table]]:
    """What the job read, as it read it: one file of each stream at a time."""
    import pyarrow.parquet as pq

    files = zip(*(sorted(folder.glob("*.parquet")) for folder in made.streams.values()), strict=True)
    return [{name: pq.read_table(path) for name, path in zip(made.streams, paths, strict=True)} for paths in files]


def comparison(shared: Work, alone: Work) -> list[tuple[str, int | float, int | float, str]]:
    """One row per resource. Rows delivered are the same either way: sharing changes nothing else."""
    rows: list[tuple[str, int | float, int | float]] = [
        ("input rows read", shared.input_rows, alone.input_rows),
        ("rows kept", shared.kept_rows, alone.kept_rows),
        ("rows compared", shared.comparisons, alone.comparisons),
        ("pairs found", shared.pairs, alone.pairs),
        ("rows delivered", shared.delivered_rows, alone.delivered_rows),
        ("seconds", shared.seconds, alone.seconds),
    ]
    return [(name, one, many, saved(one, many)) for name, one, many in rows]


def saved(one: float, many: float) -> str:
    return "" if one == many or not many else f"{1 - one / many:.0%}"
