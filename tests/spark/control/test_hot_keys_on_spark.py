"""A key that becomes hot and cools down again while a job runs on Spark: the rows are those that DuckDB finds."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.spark.run import Job, Run
from muntin.sql import parse_job

pytestmark = pytest.mark.spark

ROWS, MOST = 400, 12
"""Of each file, which covers a second, and files in which a key must become hot or cool down."""
START_US = 1_704_067_200_000_000


def feed(folder: Path, number: int, hot: bool) -> None:
    """A file of each stream; where a key is hot it has half of the rows."""
    for s in "AB":
        rng = np.random.default_rng([number, ord(s)])
        ts = START_US + number * 1_000_000 + np.sort(rng.integers(0, 1_000_000, ROWS))
        keys = np.where(rng.random(ROWS) < 0.5 * hot, 7, rng.integers(100, 400, ROWS))
        ids = number * ROWS + np.arange(ROWS)
        table = pa.table({"ts": pa.array(ts, pa.timestamp("us", "UTC")), "id": ids, "k": keys})
        pq.write_table(table, folder / "aside")
        os.rename(folder / "aside", folder / s / f"{number:05d}.parquet")


def play(run: Run, folder: Path, first: int, hot: bool, shown: list[str] | None) -> int:
    """Feed files until the status shows these hot keys; the number of the next file."""
    for number in range(first, first + MOST):
        feed(folder, number, hot)
        while sum(run.status()["sources"][s]["total_rows"] for s in "AB") < 2 * (number + 1) * ROWS:
            assert run.status()["state"] == "running"
            time.sleep(0.05)
        if run.status()["joins"][0].get("hot_keys") == shown:
            return number + 1
    raise AssertionError(f"after {MOST} files: {run.status()['joins'][0].get('hot_keys')}")


def test_a_key_becomes_hot_and_cools_down_on_spark_and_no_row_shows_it(spark: Any, tmp_path: Path):
    for s in "AB":
        (tmp_path / s).mkdir()
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts "
        f"WITH (format = 'parquet', path = '{tmp_path / s}');"
        for s in "AB"
    )
    select = "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k"
    text = f"SET hot_keys = 'auto'; SET shards = 2; {streams} CREATE QUERY q AS {select} WINDOW 1 second;"
    found: list[pa.Table] = []
    run = Job(spark, parse_job(text)).start(
        sink=lambda query, table, batch: found.append(table), checkpoint=tmp_path / "checkpoint"
    )
    number = play(run, tmp_path, 0, hot=True, shown=["k = 7"])
    play(run, tmp_path, number, hot=False, shown=None)
    run.stop()
    run.await_termination()
    base = duckdb.connect()
    base.register("found", pa.concat_tables(found))
    for s in "AB":
        base.execute(f"CREATE VIEW {s} AS FROM read_parquet('{tmp_path / s}/*.parquet')")
    (end,) = base.execute(
        "SELECT least((SELECT max(epoch_us(ts)) FROM A), (SELECT max(epoch_us(ts)) FROM B))"
    ).fetchone()
    near = "abs(epoch_us(A.ts) - epoch_us(B.ts)) < 1000000 AND greatest(epoch_us(A.ts), epoch_us(B.ts)) <"
    wanted = f"{select} AND {near} {end}"
    had = f"SELECT f.a, f.b FROM found f JOIN A ON A.id = f.a JOIN B ON B.id = f.b WHERE {near.split('AND')[1]} {end}"
    assert base.execute(f"SELECT count(*) FROM ({wanted})").fetchone()[0] > 100_000
    assert base.execute(f"{wanted} EXCEPT ALL {had}").fetchall() == []
    assert base.execute(f"{had} EXCEPT ALL {wanted}").fetchall() == []
