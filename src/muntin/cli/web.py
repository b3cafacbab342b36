"""`muntin web`: the live page of a job that was started elsewhere."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from muntin.cli.checkpoint import a_checkpoint
from muntin.model import UsageError

SUMMARY = "serve a live page of a job: its plan as a picture, its queries, charts, and /metrics for Prometheus"
EXAMPLE = """\
examples:
  muntin web --checkpoint ckpt
  muntin web --checkpoint ckpt --port 8500 --read-only

The address that is printed has a token: whoever has it can change the queries of the job. Only programs of this
machine can reach the page, unless --host says otherwise."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=a_checkpoint, required=True, metavar="DIR", help="that of the job")
    parser.add_argument("--port", type=int, metavar="N", help="the port (8420, or another one if that is taken)")
    parser.add_argument("--read-only", action="store_true", help="let nobody change queries from the page")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (%(default)s: this machine alone)"
    )


def execute(args: argparse.Namespace) -> int:
    from muntin.spark.run import client
    from muntin.web.server import WebOptions, WebServer

    if args.port is not None and not 0 <= args.port <= 65535:
        raise UsageError(
            f"--port: {args.port} is not a port", hint="write a number from 0 to 65535, 0 for any free one"
        )
    client.job_status(args.checkpoint)  # refuses what is no checkpoint
    with WebServer(args.checkpoint, WebOptions(args.port, args.host, args.read_only)) as server:
        print(f"page: {server.url}", flush=True)
        if not server.is_loopback:
            print("warning: everybody who can reach this machine can read the page", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            server.wait()
    return 0
