"""`muntin compact`: fewer, larger files in an output."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "merge the small files of an output into larger ones"
EXAMPLE = """\
examples:
  muntin compact out --checkpoint ckpt                       all queries of a stopped job
  muntin compact out warm --checkpoint ckpt --min-file-size 32MB
  muntin compact delta:lake                                  Delta tables, also while the job runs
  muntin compact iceberg:local.sensors                       Iceberg tables, also while the job runs

Rows and their order stay as they are. Files of the last micro-batches are left alone."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("output", metavar="OUTPUT", help="as `muntin run --output` names it, or a table")
    parser.add_argument("queries", nargs="*", metavar="QUERY", help="of these queries only")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="the job's checkpoint (OUTPUT/_checkpoint)")
    parser.add_argument(
        "--min-file-size", default="64MB", metavar="SIZE", help="files below this are merged (%(default)s)"
    )


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.screen import console, table
    from muntin.spark.sink import OutputRequest, layout_of, open_sink
    from muntin.sql.amounts import parse_bytes

    least = parse_bytes(args.min_file_size)
    done = open_sink(OutputRequest(args.output, layout=layout_of(args.output))).compact(
        args.queries, least, args.checkpoint
    )
    rows = [[found.name, found.before, found.after] for found in done]
    console().print(table(["query", "files before", "after"], rows))
    return 0
