"""`muntin explain`: the shared plan of a job file, without starting anything."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "show the shared plan of a job: joins, slices, and who reads which"
EXAMPLE = "example: muntin explain data/job.sql"


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="JOB.sql", help="the job file")
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.jobfile import read_job
    from muntin.plan.explain import explain, explain_json

    spec = read_job(args.job)
    print(explain_json(spec) if args.json else explain(spec))
    return 0
