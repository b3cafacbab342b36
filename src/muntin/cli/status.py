"""`muntin status`: how far a job is, read from its checkpoint by another process."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUMMARY = "show the progress of a job: rows per query, state per slice, frontiers, dead letters"
SKEWED = 0.2
"""Share of a stream's rows from which one key is reported."""
EXAMPLE = "example: muntin status --checkpoint ckpt"


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="DIR", help="the checkpoint of the job")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def execute(args: argparse.Namespace) -> int:
    from muntin.spark.runner import read_status

    status = read_status(str(args.checkpoint))
    if args.json:
        print(json.dumps(status, indent=2))
    else:
        show(status)
    return 0


def show(status: dict[str, Any]) -> None:
    from muntin.cli.screen import console, rows_in, table

    out = console()
    out.print(f"{status['state']} ({status['mode']}), {since(status['updated'])}", markup=False)
    if status.get("error"):
        out.print(status["error"], markup=False)
    out.print(f"{rows_in(status):,} rows read, micro-batch {status['batch']}", markup=False)
    out.print(table(["query", "rows", "of the last micro-batch"], query_rows(status)))
    for join in status["joins"]:
        title = f"join of {' and '.join(join['streams'])}"
        out.print(table(["stream", "frontier", "held", "slice", "rows kept"], list(slice_rows(join)), title))
        out.print(f"{join['bytes']:,} bytes of state", markup=False)
        for stream, top in zip(join["streams"], join["fullest_keys"], strict=True):
            if top and top["share"] >= SKEWED:
                out.print(skew(stream, top), markup=False)
    letters = status["dead_letters"]
    if letters:
        out.print(table(["dead letters", "rows"], list(letters.items())))
    else:
        out.print("no dead letters", markup=False)


def skew(stream: str, top: dict[str, Any]) -> str:
    named = ", ".join(f"{name} = {value}" for name, value in top["key"].items()) or "all rows"
    return f"skew: {named} has {top['rows']:,} rows of {stream}, {top['share']:.0%} of them, in one shard"


def since(updated: float) -> str:
    return f"updated {max(0, round(time.time() - updated)):,} s ago"


def query_rows(status: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(name, query["total_rows"], query["rows"]) for name, query in status["queries"].items()]


def slice_rows(join: dict[str, Any]) -> Iterator[tuple[str, str, int | None, str, int]]:
    """A line per slice; the stream's own figures stand on the first of them."""
    from muntin.model.duration import format_us

    for side, stream in enumerate(join["streams"]):
        for n, piece in enumerate(join["slices"][side]):
            shown = format_us if join["axes"][side] == "time" else "{:,} rows".format
            ages = f"[{shown(piece['lo'])}, {shown(piece['hi'])})"
            if n == 0:
                frontier = str(join["frontiers"][side] or "no rows yet")
                yield stream, frontier, join["held_rows"][side], ages, piece["rows"]
            else:
                yield "", "", None, ages, piece["rows"]
