"""`muntin package`: Muntin as an archive for the machines of a cluster that do not have it."""

from __future__ import annotations

import argparse
from pathlib import Path

SUMMARY = "make an archive of Muntin for the executors of a cluster"
EXAMPLE = """\
examples:
  muntin package muntin.tar.gz                 for executors that have its libraries (pyarrow, numba, duckdb, ...)
  muntin package muntin.tar.gz --libraries     for executors that have Spark and Python, and nothing else
  muntin run job.sql --output out --checkpoint ckpt --master spark://host:7077 --ship muntin.tar.gz

With --libraries, executors need the same version of Python and the same kind of processor as this machine."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.tar.gz", help="the archive to write")
    parser.add_argument("--libraries", action="store_true", help="with the libraries that Muntin needs; some 200 MB")


def execute(args: argparse.Namespace) -> int:
    from muntin.spark.cluster import NAME, PYTHONPATH, make_package

    made = make_package(args.file, args.libraries)
    print(f"{made.file}: Muntin {made.build}, {made.files:,} files, {made.file.stat().st_size / 1e6:,.1f} MB")
    if made.libraries:
        print(f"with {', '.join(made.libraries)}")
    if not made.kernels:
        print("without machine code, which each executor then makes for itself: run a job on this machine first")
    print(f"muntin run JOB.sql ... --master spark://HOST:PORT --ship {made.file}")
    print(f"spark-submit --archives {made.file}#{NAME} --conf {PYTHONPATH}=./{NAME} ...")
    return 0
