"""`muntin demo`: the whole idea on one screen, with nothing but this package."""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.cli.run import check_web, served, web_options

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from muntin.cli.savings import WorkDone
    from muntin.generate import Generated
    from muntin.model import JobSpec
    from muntin.spark.run import JobStatus, Run

SUMMARY = "the whole idea in two minutes, on an embedded Spark, with no input files"
EXAMPLE = """\
examples:
  muntin demo --keep muntin-demo
  muntin demo --web               with a live page, which stays until you press Ctrl-C"""
SECONDS, LOCATIONS = 600, 1000
FILES, LAST_FILES = 10, 2
"""Files of each stream, and how many of them arrive only after the queries have changed."""
SAMPLES = 2
TEMPERATURE, HUMIDITY = 38, 80
"""What is too hot and too humid."""
PLACES, MAXIMA = "places", "maxima"
WATCHERS = f"""
-- How many locations were too hot and too humid within the same minute (hammad2003 2.1, the first query).
CREATE QUERY {PLACES} AS
SELECT COUNT(DISTINCT A.LocationId) AS places
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > {TEMPERATURE} AND B.Value > {HUMIDITY}
WINDOW 1 min;

-- The greatest values of each location in the last hour (the second).
CREATE QUERY {MAXIMA} AS
SELECT A.LocationId, MAX(A.Value) AS temperature, MAX(B.Value) AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId
GROUP BY A.LocationId
WINDOW 1 hour;
"""
"""Aggregates, which run with the queries of the job file."""
ADDED = """\
CREATE QUERY emergency AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 32 AND B.Value > 70
WINDOW 2 min"""
DROPPED = "half_minute"


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave data, job file and results in this new folder")
    web_options(parser)


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.screen import console
    from muntin.generate import generate

    check_web(args.web)
    out = console()
    with ExitStack() as stack:
        folder = args.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muntin-demo-")))
        made = generate("sensors", folder / "data", duration_s=SECONDS, locations=LOCATIONS, files=FILES)
        spec = show_job(out, made)
        show_results(out, run_shared(out, made, folder, args.web), folder / "out")
        show_fault(out, folder / "out")
        show_savings(out, spec, made)
        if args.web is not None:
            stay(out, folder / "ckpt", args.web)
        if args.keep:
            out.print(f"\nkept: {made.job}, {folder / 'out'}, {folder / 'ckpt'}", markup=False)
    return 0


def stay(out: Console, checkpoint: Path, port: int) -> None:
    """Go on serving the page of the job that is over."""
    with served(checkpoint, port), suppress(KeyboardInterrupt):
        out.print("\nThe page stays until you press Ctrl-C.", markup=False)
        while True:
            time.sleep(1)


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
        show_sql(out, query.text.strip().replace(" AS SELECT ", " AS\nSELECT ", 1))
    heading(out, "2  The shared plan: one join, its state cut by age at the queries' windows")
    rates = {name: rows / SECONDS for name, rows in made.rows.items()}
    out.print(explain(spec, Knowledge(rates=rates, keys=LOCATIONS)), markup=False, soft_wrap=True)
    return spec


def show_sql(out: Console, text: str) -> None:
    out.print("\n".join("  " + line for line in text.splitlines()), markup=False, soft_wrap=True)


def run_shared(out: Console, made: Generated, folder: Path, web: int | None = None) -> JobStatus:
    """One job over all the data; before the last files come, its queries change. The status at its end."""
    from muntin.cli.screen import ProgressLine
    from muntin.spark.run import Job
    from muntin.spark.session import open_session

    heading(out, "3  All of them as one Spark streaming job, and two aggregates with them")
    show_sql(out, WATCHERS.strip())
    made.job.write_text(made.job_sql + WATCHERS)
    places: Any = {"output": folder / "out", "checkpoint": folder / "ckpt"}
    rest = hold_back(made, folder / "later")
    began = time.monotonic()
    with ExitStack() as stack:
        with ProgressLine() as progress:
            spark = open_session(brief=True)
            stack.callback(spark.stop)
            progress.job_starts()
            run = Job.from_file(spark, made.job).start(**places, progress=progress)
            stack.callback(run.stop)
            if web is not None:
                stack.enter_context(served(folder / "ckpt", web))
            wait_for(run, made)
        status = run.status().record
        out.print(
            f"  {status.rows_in:,} rows in, {status.rows_out:,} rows out, "
            f"{status.batches} micro-batches, {time.monotonic() - began:.0f} s with the start of Spark",
            markup=False,
        )
        change_queries(out, run)
        for there, here in rest.items():
            there.rename(here)
        wait_for(run, made)
        run.stop()
        made.job.write_text(f"{made.job_sql}\n{WATCHERS}\n{ADDED};\nDROP QUERY {DROPPED};\n")
        run = Job.from_file(spark, made.job).start(**places, mode="bounded", progress=progress)
        run.await_termination()
        minutes = SECONDS * LAST_FILES // FILES // 60
        status = run.status().record
        out.print(AFTERWARDS.format(minutes=minutes, rows=status.rows_in), markup=False)
        return status


AFTERWARDS = """\
The last {minutes} minutes of data came after that: {rows:,} rows in all. Then the job was stopped, both statements were
added to its file, so that the next run would not undo them, and that run went to the end of the streams."""


def hold_back(made: Generated, folder: Path) -> dict[Path, Path]:
    """Put the last files of each stream aside; where they are now, and where they belong."""
    rest: dict[Path, Path] = {}
    for name, stream in made.streams.items():
        (folder / name).mkdir(parents=True)
        rest |= {folder / name / path.name: path for path in sorted(stream.glob("*.parquet"))[-LAST_FILES:]}
    for there, here in rest.items():
        here.rename(there)
    return rest


def wait_for(run: Run, made: Generated) -> None:
    """Until the job has read all that lies in the folders of its streams; a job that fails says why."""
    import pyarrow.parquet as pq

    there = sum(pq.read_metadata(p).num_rows for folder in made.streams.values() for p in folder.glob("*.parquet"))
    while run.status().record.rows_in < there and not run.await_termination(0.1):
        pass


def change_queries(out: Console, run: Run) -> None:
    """A query comes and another goes, while the job runs and the others go on."""
    from muntin.spark.run import client

    heading(out, "4  While it runs: one query more, one less")
    show_sql(out, ADDED)
    out.print(f"  -> {client.sentence(run.add(ADDED))}\n", markup=False, soft_wrap=True)
    show_sql(out, f"DROP QUERY {DROPPED}")
    out.print(f"  -> {client.sentence(run.drop(DROPPED))}\n", markup=False, soft_wrap=True)


def show_results(out: Console, status: JobStatus, folder: Path) -> None:
    from muntin.cli.screen import table

    heading(out, "5  What each query got (the first rows of each)")
    for name, query in status.queries.items():
        rows = first_rows(folder / name)
        title = f"{name}: {query.total_rows:,} rows"
        out.print(table(list(rows[0]) if rows else ["(no rows)"], [list(row.values()) for row in rows], title))


def show_fault(out: Console, folder: Path) -> None:
    """What the aggregates say of the cooling, beside what the generator has done to it."""
    from muntin.generate.arrivals import START_US
    from muntin.generate.sensors import Sensors, cooling_fault

    fault = cooling_fault(Sensors(duration_s=SECONDS, locations=LOCATIONS, files=FILES))
    places, maxima = whole(folder / PLACES), whole(folder / MAXIMA)
    us, counts = places["_ts"].cast("int64").to_numpy(), places["places"].to_numpy()
    before = int(counts[us < fault.begins_us].max(initial=0))
    more = us[counts > before]
    found = {
        row["LocationId"]
        for row in maxima.to_pylist()
        if (row["temperature"] or 0) > TEMPERATURE and (row["humidity"] or 0) > HUMIDITY
    }
    out.print(
        FAULT.format(
            rack=f"{fault.locations.start} to {fault.locations.stop - 1}",
            begins=(fault.begins_us - START_US) // 1_000_000,
            before=before,
            hot=TEMPERATURE,
            humid=HUMIDITY,
            first=f"{(more[0] - START_US) / 1e6:.0f}" if len(more) else "never",
            most=int(counts.max(initial=0)),
            found=", ".join(map(str, sorted(found))) or "none",
        ),
        markup=False,
    )


FAULT = f"""
The cooling fault: at locations {{rack}} temperature and humidity rise together from second {{begins}} on.
  {PLACES} counted {{before}} at most until then, more from second {{first}} on, and {{most}} at the worst.
  {MAXIMA} went beyond {{hot}} degrees and {{humid}} per cent at locations {{found}}."""


def whole(folder: Path) -> pa.Table:
    """All rows of a query in output order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def first_rows(folder: Path) -> list[dict[str, Any]]:
    """The first rows in output order: files sort by name."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.parquet")):
        found += pq.read_table(path).slice(0, SAMPLES).to_pylist()
        if len(found) >= SAMPLES:
            break
    return [{k: str(v) if hasattr(v, "isoformat") else v for k, v in row.items()} for row in found[:SAMPLES]]


def show_savings(out: Console, spec: JobSpec, made: Generated) -> None:
    """Both sides measured in this process, since six Spark jobs more would take minutes."""
    from muntin.cli.savings import measure
    from muntin.cli.screen import table

    heading(out, "6  What sharing saved")
    batches = micro_batches(made)
    shared, alone = measure(spec, batches)
    out.print(table(["", "shared", "one join per query", "saved"], comparison(shared, alone)))
    out.print(METHOD.format(batches=len(batches), queries=len(spec.queries)), markup=False)


METHOD = """\
Measured, not estimated: the operator of the job ran again in this process, without Spark, over the same {batches} files
of each stream, once with the {queries} queries of section 1 and once for each of them alone. Rows kept are the most
after any micro-batch. Shared, a row is kept once, as long as some query wants it; for another query, whose selection
it fails, it may be compared in vain, which is why more rows are compared than pairs found. Seconds are of join and
routing on one core."""


def micro_batches(made: Generated) -> list[dict[str, pa.Table]]:
    """What the job read, as it read it: one file of each stream at a time."""
    import pyarrow.parquet as pq

    files = zip(*(sorted(folder.glob("*.parquet")) for folder in made.streams.values()), strict=True)
    return [{name: pq.read_table(path) for name, path in zip(made.streams, paths, strict=True)} for paths in files]


def comparison(shared: WorkDone, alone: WorkDone) -> list[tuple[str, int | float, int | float, str]]:
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
