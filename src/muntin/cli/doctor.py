"""`muntin doctor`: whether a checkpoint and its output are whole, and what can be repaired."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.cli.checkpoint import a_checkpoint

if TYPE_CHECKING:
    from muntin.spark.doctor import Examination, Finding

SUMMARY = "check a checkpoint and its output file by file, and repair what can be repaired"
EXAMPLE = """\
examples:
  muntin doctor --checkpoint ckpt                 what is wrong, what it means, what to do
  muntin doctor --checkpoint ckpt --repair        go back to the last whole micro-batch

Exit codes: 0 whole, or whole again; 1 something is broken; 2 not a checkpoint, or a job runs on it."""
SHOWN, FEW = 20, 3
"""So many findings are shown of what is broken, and of the rest; the others are counted."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=a_checkpoint, required=True, metavar="DIR", help="that of the job")
    parser.add_argument("--output", type=Path, metavar="DIR", help="its output, where it is not where it was")
    parser.add_argument("--repair", action="store_true", help="repair what can be; refused while a job runs")
    parser.add_argument(
        "--missing-is-lost", action="store_true", help="nobody takes files from the output: make missing ones again"
    )
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def execute(args: argparse.Namespace) -> int:
    from muntin.spark.checkpoint import is_taken
    from muntin.spark.doctor import examine, repair

    done: list[str] = []
    if args.repair:
        done, found = repair(args.checkpoint, args.output, args.missing_is_lost)
    else:
        found = examine(args.checkpoint, args.output, is_taken(args.checkpoint), args.missing_is_lost)
    if args.json:
        print(json.dumps(as_json(found, done), indent=2))
    else:
        show(found, done, args.repair)
    return 0 if found.is_whole else 1


def as_json(found: Examination, done: list[str]) -> dict[str, Any]:
    return {
        "checkpoint": str(found.checkpoint),
        "output": None if found.output is None else str(found.output),
        "whole": found.is_whole,
        "repairable": found.is_repairable,
        "running": found.is_driven,
        "done": done,
        "pipelines": [{"pipeline": p.number, "last": p.last, "back_to": p.back_to} for p in found.pipelines],
        "findings": [
            {"level": f.level, "file": f.file, "what": f.what, "means": f.means, "do": f.do,
             "repairable": f.is_repairable}
            for f in found.findings
        ],
    }  # fmt: skip


def show(found: Examination, done: list[str], repaired: bool) -> None:
    from muntin.cli.screen import console
    from muntin.spark.doctor import Level

    out = console()
    for line in done:
        out.print(line, markup=False)
    if found.is_driven:
        out.print("a job runs on it: what it is about to write may look like damage", markup=False)
    for level in Level:
        mine = [finding for finding in found.findings if finding.level is level]
        shown = SHOWN if level is Level.BROKEN else FEW
        for finding in mine[:shown]:
            for line in lines_of(finding):
                out.print(line, markup=False, soft_wrap=True)
        if len(mine) > shown:
            out.print(f"{level}: {len(mine) - shown} more, which --json lists", markup=False)
    for pipeline in found.pipelines:
        where = f" of pipeline {pipeline.number}" if pipeline.number else ""
        if pipeline.back_to is not None:
            place = f"micro-batch {pipeline.back_to}" if pipeline.back_to >= 0 else "the beginning"
            out.print(f"the last whole micro-batch{where}: it can go back to {place}", markup=False)
    out.print(verdict(found, repaired), markup=False)


def lines_of(finding: Finding) -> list[str]:
    what = finding.what if finding.file in finding.what else f"{finding.file}: {finding.what}"
    return [f"{finding.level}: {what}", f"  it means: {finding.means}", f"  to do: {finding.do}"]


def verdict(found: Examination, repaired: bool) -> str:
    if found.is_whole:
        batches = ", ".join(str(pipeline.last) for pipeline in found.pipelines)
        return f"{found.checkpoint} is whole{' again' if repaired else ''}; last micro-batch {batches}"
    if found.is_repairable and not repaired:
        return f"{found.checkpoint} is broken and can be repaired: run it again with --repair"
    return f"{found.checkpoint} is broken: {'this is left' if repaired else 'not all of it can be repaired'}"
