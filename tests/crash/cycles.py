"""Kills a job at one crash point after the other, and compares its rows with those of a run that nobody killed.

    PYTHONPATH=src:tests python tests/crash/cycles.py --crashes 300

A life is one process: `muntin run` over what has come since, with joins, aggregates, finals and queries that come and
go; now and then `muntin rescale` or `muntin compact`. It dies at its point (`crash_points.py` in Python,
`FileManager.java` in Java), and the next life goes on with what it left. A round begins with an empty checkpoint and
ends with a run that is let live, and with the comparison.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from java_archive import BRIEF
from muntin.spark.session.java import ensure_java
from muntin.spark.session.local_files import compiled
from muntin.spark.store.crash_points import ACTIONS, VARIABLE

US, EPOCH_US, ROWS = 1_000_000, 1_700_000_000 * 1_000_000, 24
FILES = 2
"""Files of each stream that come for each life; a micro-batch takes one."""
RUN = ("run", "job.sql", "--output", "out", "--checkpoint", "ckpt", "--quiet")
SPARK = [name for name, action in ACTIONS.items() if action.by == "Spark"]
BEGIN = ("before job", "after job", "before owner of an output", "after plan", "before metadata", "after metadata",
         "before columns of a query", "after columns of a query")  # fmt: skip
"""What only an empty checkpoint reaches, in order."""
STEADY = {
    "batch": ("offset", "source log", "state", "hand-over", "manifest", "last published", "rename", "commit", "status",
              "control message", "plan", "answer", "request removed", "file aside", "columns of a query"),
    "eager": ("offset", "state", "rows delivered", "manifest", "last published", "rename", "commit", "file aside"),
}  # fmt: skip
"""What every life can reach, by delivery."""
COMMANDS = {
    ("rescale", "--checkpoint", "ckpt", "--shards", "{shards}"): (
        "after plan", "before manifest", "before rescale", "after rescale", "after job", "before moved pipeline",
        "after moved pipeline", "before rescale over", "after rescale over"),
    ("compact", "out", "--checkpoint", "ckpt"): ("before compaction", "after compaction"),
}  # fmt: skip
"""Other commands, and what they reach."""
QUERIES = {
    "pairs": "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 3 s",
    "wide": "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v > 30 WINDOW 9 s",
    "alone": "SELECT A.id AS a, B.id AS b FROM A LEFT JOIN B ON A.k = B.k WINDOW 1 s",
    "sums": "SELECT A.k, COUNT(*) AS n, SUM(B.v) AS total FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 3 s",
    "finals": "SELECT A.g, COUNT(*) AS n, MAX(B.v) AS most FROM A, B WHERE A.g = B.g GROUP BY A.g EMIT FINAL "
    "WINDOW 2 s",
}
GUEST = "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND B.v < 70 WINDOW 5 s"
"""The query that comes and goes: its rows are some of those that it has when it is always there."""


def compile_manager(archive: Path) -> Path:
    """The classes of `FileManager.java`, by the compiler that Spark brings along, in an archive."""
    ensure_java()
    archive.write_bytes(compiled(Path(__file__).with_name("FileManager.java").read_text()))
    return archive


@dataclass
class Place:
    """One round: a job in a folder of its own, and what has come so far."""

    root: Path
    classes: Path | None
    """The archive with `FileManager.java`."""
    delivery: str
    dice: random.Random
    lives: int = 0
    files: int = 0
    shards: int = 2
    died: Counter[str] = field(default_factory=Counter)
    """How often it died at each point."""

    def __post_init__(self) -> None:
        for name in "AB":
            (self.root / name).mkdir(parents=True)
        (self.root / "job.sql").write_text(self.sql())

    def sql(self, guest: bool = False) -> str:
        streams = "".join(
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, g BIGINT, v BIGINT, last BOOLEAN) "
            f"TIMESTAMP BY ts LATENESS 1 s PUNCTUATION WHEN last FOR g "
            f"WITH (format = 'parquet', path = '{name}', maxFilesPerTrigger = '1');\n"
            for name in "AB"
        )
        queries = {**QUERIES, **({"guest": GUEST} if guest else {})}
        if self.delivery == "eager":
            queries = {name: sql for name, sql in queries.items() if "GROUP BY" not in sql}
        asked = "".join(f"CREATE QUERY {name} AS {sql};\n" for name, sql in queries.items())
        return f"SET delivery = '{self.delivery}';\n{streams}{asked}"

    def come(self) -> None:
        """More files of each stream, with times in which Spark takes them in order."""
        for _ in range(FILES):
            for seed, name in enumerate("AB"):
                file = self.root / name / f"{self.files:05d}.parquet"
                pq.write_table(some_rows(seed, self.files), file)
                os.utime(file, (1_700_000_000 + self.files,) * 2)
            self.files += 1

    def command(self, *arguments: str) -> list[str]:
        started = [sys.executable, "-m", "muntin.cli.main", *arguments]
        if arguments[0] in ("run", "rescale"):
            for conf in (
                f"spark.jars={self.classes}",
                "spark.sql.streaming.checkpointFileManagerClass=muntin.crash.FileManager",
            ):
                started += ["--conf", conf]
        return started

    def live(self, arguments: tuple[str, ...], point: str | None = None, times: int = 1) -> bool:
        """One life; whether it died at its point. It may live where it never comes there; anything else is a fault."""
        self.lives += 1
        environment = dict(os.environ) | {"SPARK_SUBMIT_OPTS": BRIEF}
        environment |= {VARIABLE: f"{point}:{times}"} if point else {}
        with open(self.root / "said", "wb") as said:
            process = subprocess.Popen(
                self.command(*arguments), cwd=self.root, env=environment, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
            code = process.wait()
        if code == -signal.SIGKILL and self.lives % 2:  # with all that it started; else Java ends by itself
            with_all(process.pid)
        in_java = point is not None and point.partition(" ")[2] in SPARK
        died = point is not None and (code == 1 if in_java else code == -signal.SIGKILL)
        failed = in_java and "the job failed" in self.said
        if failed or (not died and code != 0):
            raise AssertionError(f"{' '.join(arguments)} at {point}:{times} ended with {code}:\n{self.said}")
        if died and point is not None:
            self.died[point] += 1
        return died

    @property
    def said(self) -> str:
        return (self.root / "said").read_text(errors="replace")

    def change(self) -> None:
        """Ask for the guest to come or to go; a run takes that up when it starts."""
        from muntin.model import MuntinError
        from muntin.spark.checkpoint import requests, waiting

        checkpoint = self.root / "ckpt"
        if self.delivery == "batch" and (checkpoint / "commits").exists() and not waiting(checkpoint):
            try:
                there = "guest" in (self.root / "job.sql").read_text()
                text = self.sql(guest=not there)
                requests.submit(checkpoint, "DROP QUERY guest;" if there else f"CREATE QUERY guest AS {GUEST};")
                (self.root / "job.sql").write_text(text)
            except MuntinError:
                return

    def rows(self, output: str) -> dict[str, Counter[Any]]:
        """The rows of each query."""
        found: dict[str, Counter[Any]] = {}
        for folder in sorted(p for p in (self.root / output).iterdir() if p.is_dir() and p.name[0] != "_"):
            rows: list[Any] = []
            for file in sorted(folder.glob("*b*.parquet")):
                rows += _plain(pq.read_table(file))
            for file in sorted(folder.glob("*b*.jsonl")):
                rows += file.read_text().splitlines()
            found[folder.name] = Counter(rows)
        return found


def some_rows(seed: int, number: int) -> pa.Table:
    """The rows of a file: three seconds, ties, some a little late, and now and then a promise."""
    rng = np.random.default_rng([seed, number])
    us = np.sort(rng.integers(0, 30, ROWS)) * (US // 10) + number * 3 * US + EPOCH_US
    us = us[np.argsort(us + rng.integers(0, US // 2, ROWS), kind="stable")]
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    columns = {"ts": pa.array(us, pa.timestamp("us", "UTC")), "id": ids, "k": rng.integers(0, 6, ROWS)}
    rows = pa.table({**columns, "g": np.full(ROWS, number // 2), "v": rng.integers(0, 100, ROWS)})
    last = np.zeros(ROWS, bool)
    last[-1] = number % 2 == 1  # no more of this g
    return rows.append_column("last", pa.array(last))


def _plain(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


def with_all(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def play(place: Place, points: list[tuple[tuple[str, ...], str, int]]) -> None:
    """One round: a life for each point, then a last one to the end, and the comparison."""
    for arguments, point, times in points:
        began = time.monotonic()
        if arguments[0] == "run":
            place.come()
            place.change()
        died = place.live(arguments, point, times)
        print(f"  {'died' if died else 'not reached':<12} {point}:{times} ({arguments[0]}, "
              f"{time.monotonic() - began:.1f} s)", flush=True)  # fmt: skip
    place.come()
    place.live((*RUN, "--bounded"))
    compare(place)


def compare(place: Place) -> int:
    """The rows of every query are those of a run that nobody killed; those of the guest are some of them."""
    (place.root / "job.sql").write_text(place.sql(guest=True))
    place.live(("run", "job.sql", "--output", "whole", "--checkpoint", "whole-ckpt", "--quiet", "--bounded"))
    got, wanted = place.rows("out"), place.rows("whole")
    guests = got.pop("guest", Counter()) - wanted.pop("guest", Counter())
    assert not guests, f"rows of the guest that nobody asked for: {list(guests)[:3]}"
    for query, rows in wanted.items():
        assert rows, f"{query}: an expectation without rows proves nothing"
        missing, more = rows - got[query], got[query] - rows
        assert not missing and not more, f"{query}: missing {list(missing)[:3]}, too many {list(more)[:3]}"
    return sum(rows.total() for rows in wanted.values())


def points_of(delivery: str, dice: random.Random) -> list[tuple[tuple[str, ...], str, int]]:
    """The lives of one round."""
    now = (*RUN, "--available-now")
    found = [(now, point, 1) for point in BEGIN]
    steady = [f"{when} {action}" for action in STEADY[delivery] for when in ("before", "after")]
    found += [(now, point, dice.randint(1, 2)) for point in dice.sample(steady, len(steady))]
    if delivery == "batch":
        for command, points in COMMANDS.items():
            found += [(command, point, 1) for point in dice.sample(points, min(3, len(points)))]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashes", type=int, default=int(os.environ.get("MUNTIN_CRASHES", "300")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MUNTIN_SEED", "0")))
    args = parser.parse_args()
    began, dice, died, lives, rounds = time.monotonic(), random.Random(args.seed), Counter[str](), 0, 0
    folder = Path(tempfile.mkdtemp(prefix="muntin-crash-"))
    try:
        classes = compile_manager(folder / "manager.jar")
        while died.total() < args.crashes:
            delivery = ("batch", "batch", "eager")[rounds % 3]
            print(f"round {rounds}, {delivery} delivery", flush=True)
            place = Place(folder / f"round-{rounds}", classes, delivery, dice)
            play(place, points_of(delivery, dice))
            died, lives, rounds = died + place.died, lives + place.lives, rounds + 1
            shutil.rmtree(place.root)
            print(f"{died.total()} crashes so far, in {time.monotonic() - began:.0f} s", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = f"{died.total()} crashes at {len(died)} points in {lives} lives and {rounds} rounds"
    print(f"{told}: every query had the rows of the run that nobody killed")


if __name__ == "__main__":
    main()
