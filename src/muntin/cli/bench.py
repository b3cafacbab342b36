"""`muntin bench`: figures of this machine, side by side in one run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from muntin.model import UsageError

SUMMARY = "measure side by side on this machine, as ratios"
EXAMPLE = "example: muntin bench core --quick"
BENCHES = {
    "aggregates": "twelve aggregates shared, alone, by DuckDB, and as native Spark joins with aggregation",
    "core": "the join itself, against DuckDB, and on Spark",
    "changes": "queries that come and go under load (needs Spark)",
    "sharing": "500 queries against one, each strategy and chain against the others",
}
NOT_YET = ("spark", "flink", "scale")


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", default=["core"], help="; ".join(f"{n}: {t}" for n, t in BENCHES.items()))
    parser.add_argument("--quick", action="store_true", help="smaller data, fewer rounds")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.add_argument("--no-spark", action="store_true", help="leave out what needs Spark")


def execute(args: argparse.Namespace) -> int:
    for name in args.name:
        if name not in BENCHES:
            what = "is not supported yet" if name in NOT_YET else "does not exist"
            raise UsageError(f"bench {name} {what}", hint=f"benches: {', '.join(BENCHES)}")
    spark = None
    if not args.no_spark:
        from muntin.spark.session import open_session

        spark = open_session()
    try:
        figures = {name: STEPS[name][0](args.quick, spark) for name in args.name}
    finally:
        if spark is not None:
            spark.stop()
    if args.json:
        print(json.dumps(figures if len(figures) > 1 else figures[args.name[0]], indent=2))
    else:
        print("\n\n".join(STEPS[name][1](found) for name, found in figures.items()))
    return 0


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
    "sharing": (sharing, render_sharing),
}
"""For each bench, what measures and what shows its figures."""
