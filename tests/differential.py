"""Every kind of join in one job, through the command line on Spark, and each query again in plain SQL on DuckDB.

    python tests/differential.py --seed 7 --set strategy=pull-up --files 5 --per-trigger 2

Exit code 0 where every query agrees: the same rows, as often, in order of time. DuckDB reads the files themselves and
knows nothing of Muntin.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

US = 1_000_000
EPOCH_US = 1_700_000_000 * US
LATENESS_S = 3


@dataclass(frozen=True)
class Case:
    """One query in both languages: `A` and `B` are the streams, in DuckDB with the time `us` in microseconds."""

    muntin: str
    duckdb: str


@dataclass(frozen=True)
class Options:
    seed: int = 1
    rows: int = 3_000
    files: int = 4
    per_trigger: int = 2
    settings: dict[str, str] = field(default_factory=dict)


LATER = "greatest(A.us, B.us) AS _ts"
ALONE = "CASE WHEN B.id IS NULL THEN A.us + {} ELSE greatest(A.us, B.us) END AS _ts"
CASES = {
    "pairs": Case(
        "SELECT A.id AS a, B.id AS b, A.v + B.v AS s FROM A JOIN B ON A.k = B.k WINDOW 5 s",
        f"SELECT A.id AS a, B.id AS b, A.v + B.v AS s, {LATER} FROM A JOIN B ON A.k = B.k "
        "AND abs(B.us - A.us) < 5000000",
    ),
    "selected": Case(
        "SELECT A.id AS a, B.id AS b FROM A [RANGE 12 s], B [RANGE 2 s] WHERE A.k = B.k AND A.v > 60 AND B.tag <> 'y'",
        f"SELECT A.id AS a, B.id AS b, {LATER} FROM A JOIN B ON A.k = B.k WHERE A.v > 60 AND B.tag <> 'y' "
        "AND B.us - A.us < 12000000 AND A.us - B.us < 2000000",
    ),
    "band": Case(
        "SELECT A.id AS a, B.id AS b FROM A JOIN B ON A.k = B.k "
        "AND B.ts BETWEEN A.ts - INTERVAL '10' SECOND AND A.ts + INTERVAL '5' SECOND",
        f"SELECT A.id AS a, B.id AS b, {LATER} FROM A JOIN B ON A.k = B.k "
        "AND B.us BETWEEN A.us - 10000000 AND A.us + 5000000",
    ),
    "long_after": Case(
        "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND B.ts >= A.ts + INTERVAL 6 SECONDS "
        "AND B.ts < A.ts + INTERVAL 15 SECONDS",
        f"SELECT A.id AS a, B.id AS b, {LATER} FROM A, B WHERE A.k = B.k AND B.us >= A.us + 6000000 "
        "AND B.us < A.us + 15000000",
    ),
    "left_outer": Case(
        "SELECT A.id AS a, B.id AS b, B.v FROM A LEFT JOIN B ON A.k = B.k AND B.v > 50 WINDOW 4 s",
        f"SELECT A.id AS a, B.id AS b, B.v, {ALONE.format(4000000)} FROM A LEFT JOIN B ON A.k = B.k AND B.v > 50 "
        "AND abs(B.us - A.us) < 4000000",
    ),
    "right_outer": Case(
        "SELECT A.id AS a, B.id AS b FROM A RIGHT JOIN B ON A.k = B.k "
        "AND A.ts BETWEEN B.ts AND B.ts + INTERVAL 3 SECONDS",
        "SELECT A.id AS a, B.id AS b, CASE WHEN A.id IS NULL THEN B.us + 3000001 ELSE A.us END AS _ts "
        "FROM A RIGHT JOIN B ON A.k = B.k AND A.us BETWEEN B.us AND B.us + 3000000",
    ),
    "full_outer": Case(
        "SELECT A.id AS a, B.id AS b FROM A FULL JOIN B ON A.k = B.k AND A.v < B.v "
        "WHERE A.tag = 'x' OR B.tag = 'x' WINDOW 2 s",
        "SELECT A.id AS a, B.id AS b, CASE WHEN A.id IS NULL THEN B.us + 2000000 WHEN B.id IS NULL THEN A.us + 2000000 "
        "ELSE greatest(A.us, B.us) END AS _ts FROM A FULL JOIN B ON A.k = B.k AND A.v < B.v "
        "AND abs(B.us - A.us) < 2000000 WHERE A.tag = 'x' OR B.tag = 'x'",
    ),
    "semi": Case(
        "SELECT A.id AS a FROM A WHERE A.v > 20 AND EXISTS "
        "(SELECT 1 FROM B WHERE B.k = A.k AND B.tag = A.tag) WINDOW 7 s",
        "SELECT A.id AS a, min(greatest(A.us, B.us)) AS _ts FROM A JOIN B ON A.k = B.k AND A.tag = B.tag "
        "AND abs(B.us - A.us) < 7000000 WHERE A.v > 20 GROUP BY A.id",
    ),
    "anti": Case(
        "SELECT B.id AS b FROM B LEFT ANTI JOIN A ON A.k = B.k AND A.v > 40 WINDOW 9 s",
        "SELECT B.id AS b, B.us + 9000000 AS _ts FROM B WHERE NOT EXISTS "
        "(FROM A WHERE A.k = B.k AND A.v > 40 AND abs(A.us - B.us) < 9000000)",
    ),
    "missing": Case(
        "SELECT A.id AS a FROM A LEFT JOIN B ON A.k = B.k AND B.ts > A.ts WHERE B.k IS NULL AND A.v < 70 WINDOW 3 s",
        "SELECT A.id AS a, A.us + 3000000 AS _ts FROM A WHERE A.v < 70 AND NOT EXISTS "
        "(FROM B WHERE A.k = B.k AND B.us > A.us AND B.us < A.us + 3000000)",
    ),
    "as_of": Case(
        "SELECT A.id AS a, B.id AS b FROM A ASOF JOIN B ON A.k = B.k AND A.ts >= B.ts WINDOW 10 s",
        "SELECT A.id AS a, arg_max(B.id, B.us) AS b, A.us AS _ts FROM A JOIN B ON A.k = B.k AND A.us >= B.us "
        "AND A.us - B.us < 10000000 GROUP BY A.id, A.us",
    ),
    "as_of_left": Case(
        "SELECT A.id AS a, B.v AS v FROM A ASOF LEFT JOIN B ON A.k = B.k AND A.ts > B.ts AND B.tag = 'z' WINDOW 6 s",
        "SELECT A.id AS a, (SELECT B.v FROM B WHERE A.k = B.k AND A.us > B.us AND A.us - B.us < 6000000 "
        "AND B.tag = 'z' ORDER BY B.us DESC LIMIT 1) AS v, A.us AS _ts FROM A",
    ),
    "with_itself": Case(
        "SELECT x.id AS one, y.id AS other FROM A x JOIN A y ON x.k = y.k AND x.id < y.id WINDOW 2 s",
        "SELECT x.id AS one, y.id AS other, greatest(x.us, y.us) AS _ts FROM A x JOIN A y ON x.k = y.k AND x.id < y.id "
        "AND abs(x.us - y.us) < 2000000",
    ),
}


def rows_of(rng: np.random.Generator, count: int, tick_us: int, once: bool) -> pa.Table:
    """About 100 rows a second, out of order within the lateness; no two at the same time where `once`."""
    ticks = np.cumsum(rng.exponential(US / 100, count)).astype(np.int64) // tick_us
    if once:
        ticks = np.maximum.accumulate(ticks - np.arange(count)) + np.arange(count)
    us = EPOCH_US + ticks * tick_us
    table = pa.table(
        {
            "ts": pa.array(us, pa.timestamp("us", "UTC"), mask=rng.random(count) < 0.01),
            "id": np.arange(count),
            "k": pa.array(rng.integers(0, max(3, count // 8), count), mask=rng.random(count) < 0.05),
            "tag": pa.array(np.array(["x", "y", "z"])[rng.integers(0, 3, count)], mask=rng.random(count) < 0.05),
            "v": pa.array(np.round(rng.random(count) * 100, 3), mask=rng.random(count) < 0.02),
        }
    )
    delays = rng.integers(0, LATENESS_S * US, count)
    return table.take(np.argsort(us + delays, kind="stable"))


def write_job(folder: Path, options: Options) -> Path:
    """The files of both streams, and a job with all cases."""
    rng = np.random.default_rng(options.seed)
    text = "".join(f"SET {name} = '{value}';\n" for name, value in options.settings.items())
    for name, tick_us, once in (("A", 10_000, False), ("B", 1_000, True)):
        table, path = rows_of(rng, options.rows, tick_us, once), folder / "data" / name
        path.mkdir(parents=True)
        for number, part in enumerate(np.array_split(np.arange(table.num_rows), options.files)):
            pq.write_table(table.take(part), path / f"{number:03d}.parquet")
            os.utime(path / f"{number:03d}.parquet", (EPOCH_US // US + number,) * 2)
        text += (
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, tag STRING, v DOUBLE) TIMESTAMP BY ts\n"
            f"  LATENESS {LATENESS_S} seconds WITH (format = 'parquet', path = '{path}',\n"
            f"  maxFilesPerTrigger = '{options.per_trigger}');\n"
        )
    job = folder / "job.sql"
    job.write_text(text + "".join(f"CREATE QUERY {name} AS {case.muntin};\n" for name, case in CASES.items()))
    return job


def arguments(folder: Path) -> list[str]:
    """What `muntin` is called with."""
    place = ["--output", str(folder / "out"), "--checkpoint", str(folder / "ckpt")]
    return ["run", str(folder / "job.sql"), *place, "--bounded", "--quiet"]


def faults(folder: Path, in_order: bool = True) -> list[str]:
    """Where the output is not what DuckDB says, one line for each query."""
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    for name in "AB":
        files = f"read_parquet('{folder}/data/{name}/*.parquet')"
        base.execute(f"CREATE TABLE {name} AS SELECT *, epoch_us(ts) AS us FROM {files} WHERE ts IS NOT NULL")
    found = []
    for name, case in CASES.items():
        base.execute(f"CREATE OR REPLACE TABLE want AS {case.duckdb}")
        files = sorted(file for file in (folder / "out" / name).glob("*.parquet") if file.name[0] not in "._")
        got = pa.concat_tables([pq.read_table(file) for file in files]) if files else None
        times = got["_ts"].cast(pa.int64()) if got is not None else pa.chunked_array([[]], pa.int64())
        if got is not None:
            base.register("got", got.set_column(got.column_names.index("_ts"), "_ts", times))
        else:
            base.execute("CREATE OR REPLACE TEMP VIEW got AS FROM want LIMIT 0")
        columns = ", ".join(column[0] for column in base.execute("DESCRIBE want").fetchall())
        sides = [f"SELECT {columns} FROM {table}" for table in ("want", "got")]
        missing, extra = (base.execute(f"{a} EXCEPT ALL {b}").fetchall() for a, b in (sides, sides[::-1]))
        (count,) = base.execute("SELECT count(*) FROM want").fetchall()[0]
        base.execute("DROP VIEW IF EXISTS got")
        if missing or extra or not count:
            found.append(f"{name}: {len(missing)} of {count} missing {missing[:2]}, {len(extra)} too many {extra[:2]}")
        if in_order and (np.diff(times.to_numpy()) < 0).any():
            found.append(f"{name}: not in order of time")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=3_000, help="of each stream")
    parser.add_argument("--files", type=int, default=4, help="of each stream")
    parser.add_argument("--per-trigger", type=int, default=2, help="files of a micro-batch")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    args = parser.parse_args()
    settings = dict(given.split("=", 1) for given in args.set)
    with tempfile.TemporaryDirectory(prefix="differential-") as name:
        folder = Path(name)
        write_job(folder, Options(args.seed, args.rows, args.files, args.per_trigger, settings))
        done = subprocess.run([sys.executable, "-m", "muntin.cli.main", *arguments(folder)], check=False)
        if done.returncode:
            return done.returncode
        found = faults(folder, in_order="key" not in (settings.get("order"), settings.get("output_order")))
    print("\n".join([*found, f"seed {args.seed}: {len(CASES)} queries, {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
