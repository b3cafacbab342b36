"""`muntin calibrate`: what the join's work costs on this machine, for the cost model."""

from __future__ import annotations

import argparse

from muntin.cli.checkpoint import a_checkpoint

SUMMARY = "measure what one piece of the join's work costs on this machine (a few seconds)"
EXAMPLE = "example: muntin calibrate --checkpoint ckpt"
MEANINGS = {
    "insert_ns": "a row that arrives: its key found, the row stored",
    "scan_ns": "a row of the other stream looked at as a partner",
    "invalidate_ns": "a row taken out of the state",
    "check_ns": "a look for stale rows under the same key",
    "visit_ns": "a look for stale rows under another key",
    "slice_ns": "a cut between two slices that a probe steps over",
    "route_ns": "a pair of a merged slice, placed by its age",
}


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=a_checkpoint, metavar="DIR", help="keep the constants with this job")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def execute(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from muntin.bench.calibrate import calibrate
    from muntin.cli.screen import console, table
    from muntin.spark.control import constants_json, keep_constants

    constants = calibrate()
    if args.checkpoint is not None:
        path = keep_constants(args.checkpoint, constants)
    if args.json:
        print(constants_json(constants), end="")
        return 0
    out = console()
    costs = asdict(constants)
    out.print(table(["ns", "for"], [[round(costs[name], 1), meaning] for name, meaning in MEANINGS.items()]))
    if args.checkpoint is not None:
        out.print(f"kept in {path}", markup=False)
    return 0
