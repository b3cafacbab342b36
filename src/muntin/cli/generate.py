"""`muntin generate`: synthetic streams and a job file over them."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

SUMMARY = "write synthetic streams and a ready job file"
EXAMPLE = "example: muntin generate sensors data --rate 500 --locations 2000 --disorder 2"


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "workload",
        help="sensors: temperature and humidity at the locations of a data centre; nexmark: people, auctions and bids, "
        "with a punctuation where an auction ends; punctuated: two streams with a pattern of punctuations",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    option = parser.add_argument_group("options of every workload").add_argument
    option("--rate", type=float, help="rows per second and stream (100); of nexmark, events per second in all (500)")
    option("--duration", type=float, dest="duration_s", metavar="SECONDS", help="event time covered (600)")
    option("--files", type=int, help="files per stream (10)")
    option("--seed", type=int, help="the same seed gives the same files (1)")
    option = parser.add_argument_group("options of sensors and nexmark").add_argument
    option("--disorder", type=float, dest="disorder_s", metavar="SECONDS", help="rows arrive up to this late (0)")
    option = parser.add_argument_group("options of sensors").add_argument
    option("--humidity-rate", type=float, help="rows per second of Humidity, where it differs")
    option("--locations", type=int, help="number of locations, the join key (1000)")
    option = parser.add_argument_group("options of nexmark").add_argument
    option("--auction", type=float, dest="auction_s", metavar="SECONDS", help="mean time an auction is open (60)")
    option = parser.add_argument_group("options of punctuated").add_argument
    option("--a", metavar="PATTERN", help="punct-ORDER-SEGMENT-MATCH, cluster-ORDER-SIZE or uniform-VALUES, with ORDER "
           "asc, desc or random (punct-asc-100-40)")  # fmt: skip
    option("--b", metavar="PATTERN", help="the same of the second stream")
    option("--irrelevant", action="store_true", default=None, help="punctuations are about values that no row has")


def execute(args: argparse.Namespace) -> int:
    from muntin.generate import WORKLOADS, generate

    names = {f.name for kind, _ in WORKLOADS.values() for f in fields(kind)}
    given = {name: getattr(args, name) for name in sorted(names) if getattr(args, name) is not None}
    made = generate(args.workload, args.folder, **given)
    for stream, folder in made.streams.items():
        print(f"{stream:<12} {made.rows[stream]:>10,} rows  {folder}")
    print(f"{'job':<12} {'':>10}       {made.job}")
    print(f"\nnext: muntin run {made.job} --output out --checkpoint ckpt --available-now")
    return 0
