"""A job on Spark at a steady rate for a long time: nothing that it holds may grow.

    PYTHONPATH=src:tests python tests/steady_soak.py --minutes 30

Two streams bring the same number of rows every second, out of order and with punctuations. Queries come and go all the
time: plain joins, aggregates, outer joins. Every few seconds this looks at the memory, the handles and the threads of
each process, at temporary files, at files and bytes of the checkpoint, and at the time of a micro-batch. After a part
for warming up, a line is laid through each of them (Theil and Sen: the median of all slopes, which single leaps do not
move), with bounds for 95% of the cases. A slope whose lower bound is above zero, and that would add more than a
twentieth in an hour, is a fault. Three minutes are enough to see a fault that is not small, thirty to see a small one.
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
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.model import MuntinError
from muntin.spark.checkpoint import requests
from muntin.spark.run import client, read_status

TAG = "MUNTIN_SOAK"
RATE, KEYS, SECONDS = 500, 200, 2
"""Rows per second of a stream, keys, and the seconds of event time in a file."""
WARM = 0.4
"""The part of the time that is not looked at: caches fill, and Java compiles."""
BEGUN = 40
"""Micro-batches after which the time begins: Spark keeps the files of the last twenty."""
LOOK_S = 3.0
BEARABLE = 0.05
"""A slope that adds less than this part in an hour is no fault."""
JOB = """SET max_ahead = '1 hour';
CREATE STREAM {a} (ts TIMESTAMP, k BIGINT, v DOUBLE, closed BOOLEAN) TIMESTAMP BY ts LATENESS 2 seconds
  PUNCTUATION WHEN closed BINDING 20 seconds
  WITH (format = 'parquet', path = '{root}/data/{a}', cleanSource = 'delete');
"""
QUERIES = (
    "SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k AND A.v > {n} WINDOW {w} seconds",
    "SELECT A.k, COUNT(*) AS n, AVG(B.v) AS m FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW {w} seconds "
    "EMIT EVERY 5 seconds",
    "SELECT A.k, A.v AS a, B.v AS b FROM A LEFT JOIN B ON A.k = B.k AND B.v < {n} WINDOW {w} seconds",
    "SELECT A.k, MAX(A.v) AS top FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW {w} seconds EMIT CHANGES",
)


def query(name: str, n: int) -> str:
    text = QUERIES[n % len(QUERIES)].format(n=n * 7 % 90, w=5 + n % 6)
    return f"CREATE QUERY {name} AS {text};"


class Feeder:
    """Writes a file of each stream every `SECONDS`, with times of now."""

    def __init__(self, root: Path):
        self.root, self.dice, self.files = root, np.random.default_rng(7), 0
        for name in "AB":
            (root / "data" / name).mkdir(parents=True)

    def feed(self) -> None:
        now_us = time.time_ns() // 1000
        for name in "AB":
            n = RATE * SECONDS
            times = np.sort(now_us - self.dice.integers(0, (SECONDS + 1) * 1_000_000, n))
            closed = np.zeros(n, bool)
            closed[-3:] = True
            keys = self.dice.integers(0, KEYS, n)
            keys[-3:] = 10**6 + 3 * self.files + np.arange(3)  # of which indeed no more comes
            table = pa.table(
                {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": keys,
                 "v": self.dice.random(n) * 100, "closed": closed}
            )  # fmt: skip
            file = self.root / "data" / name / f"_{self.files:06d}.parquet"
            pq.write_table(table, file)
            file.rename(file.with_name(file.name[1:]))
        self.files += 1


def processes(tag: str) -> dict[int, str]:
    """Those that descend from the run, by what they are."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{TAG}={tag}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        kind = "java" if "java" in line.split(" ")[0] else "workers" if "daemon" in line else "driver"
        found[int(folder.name)] = kind
    return found


def figures(root: Path, tag: str, temporary: Path) -> dict[str, float]:
    """What is looked at."""
    found: dict[str, float] = defaultdict(float)
    for pid, kind in processes(tag).items():
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            found[f"{kind}: memory, MB"] += _number(status, "RssAnon:") / 1024
            found[f"{kind}: threads"] += _number(status, "Threads:")
            found[f"{kind}: handles"] += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue
    for name, folder in (("checkpoint", root / "ckpt"), ("temporary", temporary)):
        files, size = 0, 0
        for place, _, names in os.walk(folder):
            for file in names:
                try:
                    size += os.stat(os.path.join(place, file)).st_size
                    files += 1
                except OSError:
                    continue
        found[f"{name}: files"], found[f"{name}: MB"] = files, size / 1e6
    status = read_status(root / "ckpt")
    found["micro-batch: seconds"] = status["seconds"].get("whole", sum(status["seconds"].values()))
    found["status: KB"] = (root / "ckpt" / "muntin" / "status.json").stat().st_size / 1e3
    return dict(found)


def _number(text: str, name: str) -> float:
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name)))


def slope(times: list[float], values: list[float]) -> tuple[float, float, float]:
    """The median slope per hour, and its bounds for 95% of the cases (Sen's, from the variance of Kendall's S)."""
    x, y = np.asarray(times) / 3600, np.asarray(values)
    i, j = np.triu_indices(len(x), 1)
    slopes = np.sort((y[j] - y[i]) / (x[j] - x[i]))
    n = len(x)
    spread = 1.96 * np.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = int(max(0, (len(slopes) - spread) / 2))
    high = int(min(len(slopes) - 1, (len(slopes) + spread) / 2))
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])


def _batches(root: Path) -> int:
    try:
        return int(read_status(root / "ckpt")["batches"])
    except MuntinError:
        return 0


def change_queries(checkpoint: Path, present: list[str], number: int, dice: random.Random) -> None:
    """One comes, and one goes: there are always about as many."""
    name = f"c{number}"
    client.send(checkpoint, query(name, number))
    present.append(name)
    if len(present) > 4:
        client.send(checkpoint, client.dropping(present.pop(dice.randrange(len(present)))))
    for id in requests.answers(checkpoint):
        requests.forget(checkpoint, id)


def soak(root: Path, minutes: float) -> dict[str, tuple[list[float], list[float]]]:
    feeder, dice, tag, temporary = Feeder(root), random.Random(3), root.name, root / "tmp"
    temporary.mkdir()
    text = "".join(JOB.format(a=name, root=root) if name == "A" else JOB.format(a=name, root=root).split("\n", 1)[1]
                   for name in "AB")  # fmt: skip
    (root / "job.sql").write_text(text + "\n".join(query(f"q{n}", n) for n in range(4)))
    feeder.feed()
    environment = {**os.environ, TAG: tag, "TMPDIR": str(temporary)}
    command = [sys.executable, "-m", "muntin.cli.main", "run", "job.sql", "--output", "out", "--checkpoint", "ckpt"]
    with open(root / "log", "w") as log:
        local = f"spark.local.dir={temporary}"  # hot state lies there; Java does not heed TMPDIR
        run = subprocess.Popen(
            [*command, "--quiet", "--conf", local], cwd=root, env=environment, stdout=log, stderr=log
        )
    seen: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    present: list[str] = []
    began = looked = changed = fed = time.monotonic()
    number, is_up = 0, False
    try:
        while (now := time.monotonic()) - began < minutes * 60 or not is_up:
            if run.poll() is not None:
                raise SystemExit(f"the run has ended:\n{(root / 'log').read_text()}")
            if now - fed >= SECONDS:
                fed += SECONDS
                feeder.feed()
            if not is_up and (is_up := _batches(root) >= BEGUN):
                began = changed = now
            if is_up and now - changed >= 10:
                changed = now
                change_queries(root / "ckpt", present, number, dice)
                number += 1
            if is_up and now - looked >= LOOK_S:
                looked = now
                try:
                    for name, value in figures(root, tag, temporary).items():
                        seen[name][0].append(now - began)
                        seen[name][1].append(value)
                except (MuntinError, OSError):
                    pass
            time.sleep(0.2)
        run.send_signal(signal.SIGTERM)
        code = run.wait()
        for _ in range(300):
            if not processes(tag):
                break
            time.sleep(0.1)
        status = read_status(root / "ckpt")
        print(
            f"exit code {code}, {status['batches']} micro-batches, {number} queries came, {feeder.files} files of each"
        )
        print(f"dead letters: {status['dead_letters']}; left behind: {len(processes(tag))} processes")
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
    return dict(seen)


def report(seen: dict[str, tuple[list[float], list[float]]], minutes: float) -> list[str]:
    """A line for each figure; those that grow."""
    growing = []
    print(f"{'figure':<26}{'first':>12}{'last':>12}{'per hour':>12}{'from':>12}{'to':>12}")
    for name, (times, values) in sorted(seen.items()):
        warm = [n for n, t in enumerate(times) if t >= WARM * minutes * 60]
        if len(warm) < 8:
            continue
        found, low, high = slope([times[n] for n in warm], [values[n] for n in warm])
        level = float(np.median([values[n] for n in warm]))
        grows = low > 0 and found > BEARABLE * max(level, 1e-9)
        growing += [name] if grows else []
        marks = (values[warm[0]], values[warm[-1]], found, low, high)
        print(f"{name:<26}" + "".join(f"{value:>12,.2f}" for value in marks) + ("  GROWS" if grows else ""))
    return growing


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    root = args.keep or Path(tempfile.mkdtemp(prefix="muntin-soak-"))
    root.mkdir(exist_ok=True)
    try:
        growing = report(soak(root, args.minutes), args.minutes)
    finally:
        if args.keep is None:
            shutil.rmtree(root, ignore_errors=True)
    print(f"grows: {', '.join(growing)}" if growing else "nothing grows")
    return 1 if growing else 0


if __name__ == "__main__":
    sys.exit(main())
