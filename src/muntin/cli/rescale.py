"""`muntin rescale`: another number of shards for a stopped job."""

from __future__ import annotations

import argparse
import time

from muntin.cli.checkpoint import a_checkpoint

SUMMARY = "give a stopped job another number of shards"
EXAMPLE = "example: muntin rescale --checkpoint ckpt --shards 8"


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=a_checkpoint, metavar="DIR", required=True, help="that of the job")
    parser.add_argument("--shards", type=int, metavar="N", required=True, help="how many there shall be, 1 to 1024")
    parser.add_argument("--master", metavar="URL", help="use this Spark cluster instead of this machine")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")


def execute(args: argparse.Namespace) -> int:
    from muntin.cli.run import spark_confs
    from muntin.spark.run import rescale
    from muntin.spark.session import open_session

    began = time.monotonic()
    confs = spark_confs(args.conf, None)
    spark = open_session(args.master, shards=args.shards, confs=confs, brief=True)
    done = rescale(spark, args.checkpoint, args.shards)
    if done.before == done.after:
        print(f"{args.checkpoint} has {done.after} shards already")
        return 0
    took = time.monotonic() - began
    print(f"{done.rows:,} rows moved from {done.before} to {done.after} shards in {took:.0f} s")
    print("the old state is kept until the job has run; a job file that sets shards must say the new number")
    return 0
