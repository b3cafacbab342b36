"""`muntin bench`: figures of this machine, side by side in one run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muntin.model import MuntinError, UsageError

SUMMARY = "measure side by side on this machine, as ratios"
EXAMPLE = "example: muntin bench core --quick"
BENCHES = {
    "aggregates": "twelve aggregates shared, alone, by DuckDB, and as native Spark joins with aggregation",
    "core": "the join itself, against DuckDB, and on Spark",
    "changes": "queries that come and go under load (needs Spark)",
    "promises": "rows kept of NEXMark's auctions and bids with promises, windows, and both (needs Spark)",
    "schedule": "response times after a burst under each scheduler, with eager delivery (needs Spark)",
    "sharing": "500 queries against one, each strategy and chain against the others",
    "spark": "against Spark's own joins: one per query, and one for all",
    "flink": "against Flink's interval joins, which are fetched from PyPI on first use",
    "scale": "against shards, state, queries, partners and rows; a model of more cores",
}
DEFAULT_WORKLOADS = ("selective", "dense")
IN_PROCESSES = ("spark", "flink", "scale")
"""Benches that run each contender in a process of its own."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", default=["core"], help="; ".join(f"{n}: {t}" for n, t in BENCHES.items()))
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer rounds")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument("--no-spark", action="store_true", help="leave out what needs Spark")
    group = parser.add_argument_group("spark, flink, scale")
    group.add_argument(
        "--workload",
        action="append",
        metavar="NAME",
        help="what the contenders are given (several times, or `all`); default: selective, dense",
    )
    group.add_argument("--minutes", type=float, default=15.0, help="time limit of each contender (default: 15)")
    group.add_argument(
        "--save", type=Path, metavar="DIR", help="write the results there as they come (JSON), and a picture (PNG)"
    )
    group.add_argument("--resume", action="store_true", help="go on with what a bench before has left in --save DIR")


def execute(args: argparse.Namespace) -> int:
    for name in args.name:
        if name not in BENCHES:
            raise UsageError(f"bench {name} does not exist", hint=f"benches: {', '.join(BENCHES)}")
    if args.resume and args.save is None:
        raise UsageError("--resume needs --save DIR", hint="name the folder that the bench before wrote to")
    spark = None
    if not args.no_spark and any(name not in IN_PROCESSES for name in args.name):
        from muntin.spark.session import open_session

        spark = open_session()
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
    wrong = [place for found in figures.values() for place in found.get("wrong", ())]
    if wrong:
        raise MuntinError(f"rows differ from those that DuckDB finds: {'; '.join(wrong)}")
    return 0


def measured(name: str, args: argparse.Namespace, spark: Any) -> dict[str, Any]:
    if name not in IN_PROCESSES:
        return STEPS[name][0](args.quick, spark)
    from muntin.bench import against, picture, scale
    from muntin.bench.peers import Ledger

    ledger = Ledger(args.save / f"{name}.json" if args.save else None, args.resume)
    limit_s, loads = 60 * args.minutes, args.workload or DEFAULT_WORKLOADS
    if name == "scale":
        figures, draw = scale.measure(args.quick, limit_s, ledger, tell), picture.lines
    else:
        run = against.against_spark if name == "spark" else against.against_flink
        figures, draw = run(loads, args.quick, limit_s, ledger, tell), picture.bars
        figures["ratios"] = against.ratios(figures)
    if args.save:
        draw(figures, args.save / f"{name}.png")
        tell(f"picture: {args.save / f'{name}.png'}")
    return figures


def show(name: str, figures: dict[str, Any]) -> None:
    if name == "scale":
        show_scale(figures)
    elif name in IN_PROCESSES:
        show_against(figures)
    else:
        print(STEPS[name][1](figures) + "\n")


def show_against(figures: dict[str, Any]) -> None:
    from muntin.cli import screen

    out = screen.console()
    for name, load in figures["workloads"].items():
        rows = [
            (contender, _seconds(f), f["rows_per_s"] and round(f["rows_per_s"]), AGREE[f["rows_agree"]], f["ended"])
            for contender, f in load["results"].items()
        ]
        title = (
            f"{name}: {load['says']}; 2 x {load['rows_per_stream']:,} rows, micro-batches of {load['batch_rows']:,}, "
            f"the first {load['warm_up_batches']} not counted"
        )
        out.print(screen.table(("contender", "s a micro-batch", "rows/s", "rows", "ended"), rows, title))
    lines = [
        (r["workload"], r["opponent"], r["ours"], ("> " if r["lower_bound"] else "") + f"{r['ratio']:.1f}",
         f"{r['target']:g}" if r["target"] else "")
        for r in figures["ratios"]
    ]  # fmt: skip
    out.print(screen.table(("workload", "slower", "than", "times", "asked for"), lines, "ratios"))
    if "skipped" in figures:
        out.print(figures["skipped"])


AGREE = {True: "as by DuckDB", False: "WRONG", None: "not known"}


def _seconds(found: dict[str, Any]) -> str:
    if found["seconds"] is None:
        return "none"
    return ("" if found["steady"] else "> ") + f"{found['seconds']:.2f}"


def show_scale(figures: dict[str, Any]) -> None:
    from muntin.cli import screen

    out = screen.console()
    for name, series in figures["series"].items():
        first = series["points"][0]["seconds"]
        rows = [
            (p["at"], _seconds(p), p["rows_per_s"] and round(p["rows_per_s"]),
             f"{p['seconds'] / first:.2f}" if first and p["seconds"] else "", AGREE[p["rows_agree"]], p["ended"])
            for p in series["points"]
        ]  # fmt: skip
        out.print(screen.table((series["axis"], "s a micro-batch", "rows/s", "ratio", "rows", "ended"), rows, name))
    parts = figures["parts"]
    header = ("a micro-batch without Spark", *(next(iter(parts.values()))))
    rows = [(name, *(round(value, 3) for value in found.values())) for name, found in parts.items()]
    out.print(screen.table(header, [[str(value) for value in row] for row in rows], "parts: core seconds, megabytes"))
    model = figures["model"]
    if model:
        costs = (
            f"model: {model['fixed_s']:.2f} s for a micro-batch, {1000 * model['per_shard_s']:.0f} ms for each shard, "
            f"{1e6 * model['core_s_per_row']:.2f} us of a core for each row"
        )
        more = [(p["cores"], p["batch_rows"], p["seconds"], round(p["rows_per_s"])) for p in model["predicted"]]
        out.print(screen.table(("cores", "rows in a micro-batch", "s a micro-batch", "rows/s"), more, costs))


def core(quick: bool, spark: Any) -> dict[str, Any]:
    from muntin.bench.core import measure
    from muntin.bench.growth import state_growth

    figures = measure(quick, tell)
    if spark is not None:
        tell("micro-batches on Spark with one and ten times the state")
        figures["growth"] = state_growth(spark, quick)
    return figures


def aggregates(quick: bool, spark: Any) -> dict[str, Any]:
    from muntin.bench.aggregates import measure

    return measure(quick, tell, spark)


def render_aggregates(figures: dict[str, Any]) -> str:
    from muntin.bench.aggregates import render

    return render(figures)


def changes(quick: bool, spark: Any) -> dict[str, Any]:
    from muntin.bench.changes import measure

    if spark is None:
        raise UsageError("bench changes needs Spark", hint="leave out --no-spark")
    return measure(spark, quick, tell)


def render_changes(figures: dict[str, Any]) -> str:
    from muntin.bench.changes import render

    return render(figures)


def promises(quick: bool, spark: Any) -> dict[str, Any]:
    from muntin.bench.promises import measure

    if spark is None:
        raise UsageError("bench promises needs Spark", hint="leave out --no-spark")
    return measure(spark, quick, tell)


def render_promises(figures: dict[str, Any]) -> str:
    from muntin.bench.promises import render

    return render(figures)


def schedule(quick: bool, spark: Any) -> dict[str, Any]:
    from muntin.bench.schedule import measure

    if spark is None:
        raise UsageError("bench schedule needs Spark", hint="leave out --no-spark")
    return measure(spark, quick, tell)


def render_schedule(figures: dict[str, Any]) -> str:
    from muntin.bench.schedule import render

    return render(figures)


def sharing(quick: bool, spark: Any) -> dict[str, Any]:
    from muntin.bench.sharing import measure

    return measure(quick, tell, spark)


def render_sharing(figures: dict[str, Any]) -> str:
    from muntin.bench.sharing import render

    return render(figures)


def tell(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr)


def render(figures: dict[str, Any]) -> str:
    """The figures for people: each ratio with what it is made of."""
    rows, keys, batch = (figures[name] for name in ("rows_per_stream", "keys", "batch_rows"))
    lines = [f"2 x {rows:,} rows, {keys:,} keys, micro-batches of {batch:,}; seconds of one core"]
    for name, title in (("even", "even keys, 600 s"), ("skewed", "Zipf 1.1 keys")):
        f = figures[name]
        lines.append(
            f"{title:<22} muntin {f['muntin']['seconds']:.2f} s, DuckDB (1 thread) {f['duckdb']['seconds']:.2f} s, "
            f"{f['muntin']['pairs']:,} pairs: ratio {f['ratio']:.2f}"
        )
    f = figures["windows"]
    seconds = f"{f['hundred']['seconds']:.2f} s, one window {f['one']['seconds']:.2f} s"
    lines.append(f"{'100 windows':<22} {seconds}: ratio {f['ratio']:.2f}")
    lines.append(f"{'index':<22} {figures['memory']['index_bytes_per_row']:.0f} bytes for each live row")
    lines.append("invalidation           seconds   checks        rows kept (in window)")
    for name, f in figures["invalidation"].items():
        kept = f"{f['rows_kept']:,.0f} ({f['rows_in_window']:,.0f})"
        lines.append(f"  {name:<20} {f['seconds']:<9.4f} {f['stale_checks']:<13,} {kept}")
    if "growth" in figures:
        f = figures["growth"]
        (large, rows), (small, fewer) = ((f[size]["median_s"], f[size]["state_rows"]) for size in ("large", "small"))
        seconds = f"{large:.2f} s a micro-batch with {rows:,} rows, {small:.2f} s with {fewer:,}"
        lines.append(f"{'state on Spark':<22} {seconds}: ratio {f['ratio']:.2f}")
    return "\n".join(lines)


STEPS: Mapping[str, tuple[Callable[[bool, Any], dict[str, Any]], Callable[[dict[str, Any]], str]]] = {
    "aggregates": (aggregates, render_aggregates),
    "core": (core, render),
    "changes": (changes, render_changes),
    "promises": (promises, render_promises),
    "schedule": (schedule, render_schedule),
    "sharing": (sharing, render_sharing),
}
"""For each bench, what measures and what shows its figures."""
