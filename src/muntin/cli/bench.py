"""`muntin bench`: figures of this machine, side by side in one run."""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from muntin.model import MuntinError, UsageError

SUMMARY = "measure side by side on this machine, as ratios"
EXAMPLE = "example: muntin bench core --quick"
BENCHES = {
    "aggregates": "twelve aggregates shared, alone, by DuckDB, and as native Spark joins with aggregation",
    "core": "the join itself, against DuckDB, and on Spark",
    "changes": "queries that come and go under load (needs Spark)",
    "latency": "seconds from arrival to hand-over at steady rates, against Spark's join and Flink's",
    "orderings": "a stream some seconds behind the other under the three orderings, at three loads (needs Spark)",
    "outer": "one left outer join, against Spark's own (needs Spark)",
    "promises": "rows kept of NEXMark's auctions and bids with promises, windows, and both (needs Spark)",
    "schedule": "response times of bursts under each scheduler, and what eager delivery costs (needs Spark)",
    "sharing": "500 queries against one, each strategy and chain against the others",
    "streams": "three streams, against two of Spark's joins in a chain, one query and twelve (needs Spark)",
    "sources": "the same rows in from Parquet files and as JSON messages of Kafka (needs Spark)",
    "spark": "against Spark's own joins: one per query, and one for all",
    "flink": "against Flink's interval joins, which are fetched from PyPI on first use",
    "cluster": "two executors with one core each against one, on a standalone cluster of this machine",
    "start": "seconds from the command to the first rows, against a plain Spark join",
    "scale": "against shards, state, queries, partners and rows; a model of more cores",
}
DEFAULT_WORKLOADS = ("selective", "dense")
LEAST_ROWS = 1_000
IN_PROCESSES = ("spark", "flink", "scale", "cluster", "latency", "start")
"""Benches that run each contender in a process of its own."""
IN_RUNS = ("orderings", "schedule")
"""Benches of many runs in one session, each of which can be taken up again."""
NEED_SPARK = ("changes", "orderings", "outer", "promises", "schedule", "sources", "streams")


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", default=["core"], help="; ".join(f"{n}: {t}" for n, t in BENCHES.items()))
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer rounds")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument("--no-spark", action="store_true", help="leave out what needs Spark")
    group = parser.add_argument_group(
        "spark, flink, scale, cluster; latency, orderings and schedule but for rows and workload"
    )
    group.add_argument(
        "--workload",
        action="append",
        metavar="NAME",
        help="what the contenders are given (several times, or `all`); default: selective, dense",
    )
    group.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="of each stream, with keys, windows and micro-batches in proportion (default: 1000000; quick: 200000)",
    )
    group.add_argument("--minutes", type=float, default=15.0, help="time limit of each contender (default: 15)")
    group.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="measure only what has this in its name, such as `one join` or `queries/(12|100)$` (several times)",
    )
    group.add_argument(
        "--save", type=Path, metavar="DIR", help="write the results there as they come (JSON), and a picture (PNG)"
    )
    group.add_argument("--resume", action="store_true", help="go on with what a bench before has left in --save DIR")


def pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--only {text} is not a pattern: {error}") from error


def execute(args: argparse.Namespace) -> int:
    for name in args.name:
        if name not in BENCHES:
            raise UsageError(f"bench {name} does not exist", hint=f"benches: {', '.join(BENCHES)}")
    if args.rows is not None and args.rows < LEAST_ROWS:
        raise UsageError(f"--rows {args.rows} is too few", hint=f"at least {LEAST_ROWS}")
    if "latency" in args.name and (args.rows is not None or args.workload):
        raise UsageError("bench latency has rates and queries of its own", hint="leave out --rows and --workload")
    if args.resume and args.save is None:
        raise UsageError("--resume needs --save DIR", hint="name the folder that the bench before wrote to")
    spark = None
    if not args.no_spark and any(name not in IN_PROCESSES for name in args.name):
        from muntin.bench.peers import half_the_memory
        from muntin.spark.session import open_session

        spark = open_session(confs=half_the_memory())
    try:
        figures = {name: measured(name, args, spark) for name in args.name}
    finally:
        if spark is not None:
            spark.stop()
    if args.json:
        print(json.dumps(figures if len(figures) > 1 else figures[args.name[0]], indent=2))
    else:
        for name, found in figures.items():
            show(name, found)
    faults = [fault for found in figures.values() for fault in found.get("faults", ())]
    if faults:
        raise MuntinError("; ".join(faults))
    return 0


def measured(name: str, args: argparse.Namespace, spark: Any) -> dict[str, Any]:
    if name not in IN_PROCESSES:
        if spark is None and name in NEED_SPARK:
            raise UsageError(f"bench {name} needs Spark", hint="leave out --no-spark")
        if name not in IN_RUNS:
            return dict(import_module(f"muntin.bench.{name}").measure(args.quick, tell, spark))
    if name == "start":
        return dict(import_module("muntin.bench.start").measure(args.quick, 60 * args.minutes, tell))
    from muntin.bench import against, picture, scale
    from muntin.bench.peers import Ledger, Terms
    from muntin.bench.workload import ROWS

    ledger = Ledger(args.save / f"{name}.json" if args.save else None, args.resume)
    rows = args.rows or (against.QUICK_ROWS if args.quick else ROWS)
    terms = Terms(rows / ROWS, 60 * args.minutes, ledger, tell, tuple(map(pattern, args.only or ())))
    if name in IN_RUNS:
        return dict(import_module(f"muntin.bench.{name}").measure(args.quick, terms, spark))
    if name == "latency":
        return dict(import_module("muntin.bench.latency").measure(args.quick, terms))
    if name == "cluster":
        return dict(import_module("muntin.bench.cluster").measure(terms))
    if name == "scale":
        figures, draw = scale.measure(terms), picture.lines
    else:
        run = against.against_spark if name == "spark" else against.against_flink
        figures, draw = run(args.workload or DEFAULT_WORKLOADS, terms), picture.bars
        figures["ratios"] = against.ratios(figures)
    if args.save:
        draw(figures, args.save / f"{name}.png")
        tell(f"picture: {args.save / f'{name}.png'}")
    return figures


def show(name: str, figures: dict[str, Any]) -> None:
    if name == "scale":
        show_scale(figures)
    elif name in ("spark", "flink"):
        show_against(figures)
    else:
        print(import_module(f"muntin.bench.{name}").render(figures) + "\n")


def show_against(figures: dict[str, Any]) -> None:
    """For each workload one table: figures, ratios and their targets."""
    from muntin.bench.against import OURS, compared
    from muntin.cli import screen

    out = screen.console()
    times = {(r["workload"], r["opponent"], r["ours"]): r for r in figures["ratios"]}
    for name, load in figures["workloads"].items():
        ours = compared(name, load["results"])
        rows = []
        for contender, f in load["results"].items():
            ratios = [times.get((name, contender, n)) for n in ours]
            target = next((f"{r['target']:g}" for r in ratios if r and r["target"]), "")
            if (
                contender in ours
                and "Parquet in" in contender
                and (least := figures.get("least_rows_per_s", {}).get(name))
            ):
                target = f"{least:,}/s"
            speed = (_seconds(f), f["core_s"], _whole(f["rows_per_s"]), _whole(f["rows_out_per_s"]))
            rows.append((contender, *speed, *map(_times, ratios), target, AGREE[f["rows_agree"]], f["ended"]))
        header = (
            "contender",
            "seconds",
            "core s",
            "in/s",
            "out/s",
            *(f"x {n[len(OURS) + 2 :]}" for n in ours),
            "target",
        )
        title = (
            f"{name}: {load['says']}\n2 x {load['rows_per_stream']:,} rows; seconds of a micro-batch of "
            f"{load['batch_rows']:,} rows, the first {load['warm_up_batches']} not counted; rows in and out per second"
        )
        out.print(screen.table((*header, "rows", "ended"), rows, title))
    if "skipped" in figures:
        out.print(figures["skipped"])


AGREE = {True: "right", False: "WRONG", None: "not known"}


def _seconds(found: dict[str, Any]) -> str:
    if found["seconds"] is None:
        return "none"
    return ("" if found["steady"] else "> ") + f"{found['seconds']:.2f}"


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def _times(ratio: dict[str, Any] | None) -> str:
    return "" if ratio is None else ("> " if ratio["lower_bound"] else "") + f"{ratio['ratio']:.1f}"


def show_scale(figures: dict[str, Any]) -> None:
    from muntin.cli import screen

    out = screen.console()
    targets = {
        (a["series"], a["at"]): f"{a['ratio']:.2f} of {a['over']}, at most {a['at_most']}" for a in figures["targets"]
    }
    for name, series in figures["series"].items():
        if not series["points"]:
            continue
        first = series["points"][0]["seconds"]
        rows = [
            (p["at"], _seconds(p), p["core_s"], _whole(p["rows_per_s"]),
             f"{p['seconds'] / first:.2f}" if first and p["seconds"] else "", targets.get((name, p["at"]), ""),
             AGREE[p["rows_agree"]], p["ended"])
            for p in series["points"]
        ]  # fmt: skip
        header = (series["axis"], "seconds", "core s", "rows/s", "ratio", "target", "rows", "ended")
        out.print(screen.table(header, rows, name))
    parts = figures["parts"]
    if parts:
        columns = list(dict.fromkeys(column for found in parts.values() for column in found))
        rows = [
            (name, *(f"{found[column]:.3g}" if column in found else "" for column in columns))
            for name, found in parts.items()
        ]
        header = ("a micro-batch without Spark", *columns)
        out.print(screen.table(header, rows, "parts: core seconds, megabytes"))
    model = figures["model"]
    if model:
        costs = (
            f"model: {model['fixed_s']:.2f} s for a micro-batch, {1000 * model['per_shard_s']:.0f} ms for each shard, "
            f"{1e6 * model['core_s_per_row']:.2f} us of a core for each row"
        )
        more = [(p["cores"], p["batch_rows"], p["seconds"], round(p["rows_per_s"])) for p in model["predicted"]]
        out.print(screen.table(("cores", "rows in a micro-batch", "s a micro-batch", "rows/s"), more, costs))


def tell(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr)
