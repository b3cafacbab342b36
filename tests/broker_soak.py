"""A broker, twelve queries and an output, with `kill -9` again and again: every row once, in order, as DuckDB says.

    python tests/broker_soak.py kafka --output delta --minutes 5
    python tests/broker_soak.py nats --output parquet --minutes 5

The broker lives on while the job dies. A job is killed some seconds after it has committed a micro-batch, with all its
processes; so each life gets somewhere. At the end the streams are ended and each query is asked again of DuckDB, over
the rows that were sent. Exit code 0 where all agree.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from muntin.formats import json_rows
from servers import MockKafka, Nats, running_nats

US = 1_000_000
KEYS = 40
LATENESS_S = 20
"""A broker does not hold rows of several partitions in one order."""
WINDOWS = (1, 2, 3, 5, 8, 10)
COLUMNS = "ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE"
QUERIES = {f"q{w}_{limit}": (w, limit) for w in WINDOWS for limit in (0, 60)}
PATIENCE_S = 240


class Feed:
    """Sends rows of both streams as time goes by, and remembers them."""

    def __init__(self, send: Callable[[str, list[bytes], int], None], rate: int, seed: int):
        self.rows: dict[str, list[pa.Table]] = {"A": [], "B": []}
        self._send, self._rate, self._random = send, rate, random.Random(seed)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        sent = 0
        while not self._stopped.wait(0.25):
            now, count = time.time_ns() // 1000, max(1, self._rate // 4)
            for name, kept in self.rows.items():
                values = [
                    {"ts": now + n, "id": sent + n, "k": self._random.randrange(KEYS), "v": self._random.random() * 100}
                    for n in range(count)
                ]
                table = pa.Table.from_pylist(values)
                kept.append(table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC"))))
                for part in (0, 1):
                    self._send(name, json_rows(kept[-1])[part::2], part)
            sent += count

    def stop(self) -> dict[str, pa.Table]:
        self._stopped.set()
        self._thread.join()
        return {name: pa.concat_tables(kept) for name, kept in self.rows.items()}


def kafka_streams(kafka: MockKafka) -> str:
    late = f"LATENESS {LATENESS_S} seconds VALUE FORMAT JSON"
    return "".join(kafka.stream(name, COLUMNS, name, late) for name in "AB")


def nats_streams(nats: Nats) -> str:
    for name in "AB":
        nats.ask(lambda js, name=name: js.add_stream(name=name, subjects=[name]))
    return "".join(
        f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY ts LATENESS {LATENESS_S} seconds VALUE FORMAT JSON WITH (format"
        f" = 'nats', 'nats.servers' = '{nats.address}', stream = '{name}', startingOffsets = 'earliest');\n"
        for name in "AB"
    )


def job(streams: str) -> str:
    return streams + "".join(
        f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v >= {limit} "
        f"WINDOW {w} s;\n"
        for name, (w, limit) in QUERIES.items()
    )


def last_commit(checkpoint: Path) -> int:
    return max((int(p.stem) for p in (checkpoint / "muntin" / "commits").glob("*.json")), default=-1)


def live_and_die(command: list[str], checkpoint: Path, wait_s: float) -> bool:
    """One life of the job: killed so many seconds after it has got somewhere; False where it did not."""
    before, began = last_commit(checkpoint), time.monotonic()
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        while last_commit(checkpoint) <= before:
            if process.poll() is not None:
                raise SystemExit(f"the job ended by itself with {process.returncode}")
            if time.monotonic() - began > PATIENCE_S:
                return False
            time.sleep(0.1)
        time.sleep(wait_s)
        return True
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def files_of(output: Path, kind: str, query: str) -> list[str]:
    """The files of a query in output order."""
    if kind == "delta":
        return sorted(DeltaTable(output / query).file_uris(), key=lambda uri: Path(uri).name)
    return sorted(str(p) for p in (output / query).glob("*b*.parquet"))


def compare(output: Path, kind: str, rows: dict[str, pa.Table]) -> int:
    """The rows of all queries; stops where one has others than DuckDB."""
    base, total = duckdb.connect(), 0
    for name, table in rows.items():
        base.register(f"{name}_rows", table)
        base.execute(f"CREATE TABLE {name} AS SELECT *, epoch_us(ts) AS us FROM {name}_rows")
    for query, (w, limit) in QUERIES.items():
        wanted = base.execute(
            "SELECT A.id, B.id, greatest(A.us, B.us) FROM A JOIN B ON A.k = B.k "
            f"WHERE A.v >= {limit} AND abs(A.us - B.us) < {w * US} ORDER BY ALL"
        ).fetchall()
        got: list[tuple[int, int, int]] = []
        for file in files_of(output, kind, query):
            table = pq.read_table(file, partitioning=None)
            columns = (table["a"], table["b"], table["_ts"].cast(pa.int64()))
            got += zip(*(c.to_pylist() for c in columns), strict=True)
        times = [row[2] for row in got]
        if sorted(got) != wanted or not wanted:
            lost, twice = len(set(wanted) - set(got)), len(got) - len(set(got))
            raise SystemExit(f"{query}: {len(got)} rows, DuckDB has {len(wanted)}; {lost} lost, {twice} twice")
        if times != sorted(times):
            raise SystemExit(f"{query}: rows are out of order")
        total += len(got)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=["kafka", "nats"])
    parser.add_argument("--output", choices=["parquet", "delta"], default="parquet")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rate", type=int, default=40, help="rows per second of each stream")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    wait = random.Random(args.seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="muntin-soak-")))
        if args.broker == "kafka":
            kafka = MockKafka()
            text, send = kafka_streams(kafka), lambda name, values, part: kafka.send(name, values, part)
        else:
            nats = stack.enter_context(running_nats(folder / "nats"))
            text, send = nats_streams(nats), lambda name, values, part: nats.send(name, values)
        (folder / "job.sql").write_text(job(text))
        output, checkpoint = folder / "out", folder / "ckpt"
        feed = Feed(send, args.rate, args.seed)
        time.sleep(1)
        scheme = "delta:" if args.output == "delta" else ""
        program = [sys.executable, "-m", "muntin.cli.main", "run", str(folder / "job.sql"), "--quiet"]
        command = [*program, "--output", f"{scheme}{output}", "--checkpoint", str(checkpoint)]
        until, lives, kills = time.monotonic() + 60 * args.minutes, 0, 0
        while time.monotonic() < until:
            kills += live_and_die(command, checkpoint, wait.uniform(0, 6))
            lives += 1
            print(f"killed {lives} times, last micro-batch {last_commit(checkpoint)}", flush=True)
        rows = feed.stop()
        subprocess.run([*command, "--bounded"], check=True, stdout=subprocess.DEVNULL)
        total, sent = compare(output, args.output, rows), sum(t.num_rows for t in rows.values())
        print(
            f"{args.broker} to {args.output}: {sent:,} rows in, {lives} kills, {kills} of them after a commit, "
            f"{last_commit(checkpoint) + 1} micro-batches, {total:,} rows of {len(QUERIES)} queries: "
            "each once, in order"
        )


if __name__ == "__main__":
    main()
