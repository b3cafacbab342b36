"""DuckDB as a second opinion: each query on its own, over the files themselves, knowing nothing of Muntin."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq

US = 1_000_000


def within(window_a_s: float, window_b_s: float) -> str:
    """The window condition of the semantics over `A.ts` and `B.ts`, in whole microseconds."""
    a, b = "epoch_us(A.ts)", "epoch_us(B.ts)"
    after = f"{a} <= {b} AND {b} - {a} < {round(window_a_s * US)}"
    before = f"{b} <= {a} AND {a} - {b} < {round(window_b_s * US)}"
    return f"(({after}) OR ({before}))"


def wanted(select: str, source: str, where: str, window_s: tuple[float, float], groups: str = "") -> str:
    """One query for DuckDB: what it selects and the output timestamp; of `groups` over all time without one."""
    time = "" if groups else ", greatest(A.ts, B.ts) AS _ts"
    return f"SELECT {select}{time} FROM {source} WHERE ({where}) AND {within(*window_s)} {groups}"


def connect(streams: dict[str, Path]) -> duckdb.DuckDBPyConnection:
    """A database with a table per stream, read from the stream's own files."""
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    for name, folder in streams.items():
        base.execute(f"CREATE TABLE {name} AS FROM read_parquet('{folder}/*.parquet')")
    return base


def output_files(folder: Path) -> list[Path]:
    """The files of a query in output order."""
    return sorted(file for file in folder.glob("*.parquet") if not file.name.startswith((".", "_")))


def difference(base: duckdb.DuckDBPyConnection, wanted: str, folder: Path) -> tuple[int, int, int]:
    """Rows wanted, missing and too many: multisets, so a row that comes twice is one too many."""
    base.execute(f"CREATE OR REPLACE TEMP TABLE want AS {wanted}")
    columns = ", ".join(f'"{column[0]}"' for column in base.execute("DESCRIBE want").fetchall())
    base.execute(f"CREATE OR REPLACE TEMP TABLE got AS SELECT {columns} FROM read_parquet('{folder}/*.parquet')")
    counts = [
        base.execute(f"SELECT count(*) FROM ({rows})").fetchall()[0][0]
        for rows in ("FROM want", "FROM want EXCEPT ALL FROM got", "FROM got EXCEPT ALL FROM want")
    ]
    return counts[0], counts[1], counts[2]


def is_ordered(folder: Path) -> bool:
    """Whether the output timestamps never step back, within and across files."""
    times = [pq.read_table(file, columns=["_ts"])["_ts"].to_numpy() for file in output_files(folder)]
    return bool((np.diff(np.concatenate(times).astype("int64")) >= 0).all())
