"""What the contenders of `muntin bench spark` and `muntin bench flink` are given: the same files and the same queries.

Two streams A and B bring 1,000 rows per second of event time each. File n of a stream holds its part of micro-batch n,
as Parquet or as CSV. Event times are whole milliseconds, the finest that Flink's rowtime knows. The rows of each query
over the first n files are counted by DuckDB, so that every contender, also one that ran out of time, can be checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

RATE = 1_000
"""Rows a second of event time and stream."""
ROWS = 1_000_000
"""Of each stream, unless asked otherwise: then keys, windows and micro-batches are smaller in proportion."""
START_MS = 1_704_067_200_000
FIRST_MODIFIED = 1_700_000_000
STREAMS = ("A", "B")
EVERYTHING = "everything"
COLUMNS = "ts TIMESTAMP, k BIGINT, v DOUBLE"


@dataclass(frozen=True)
class Question:
    """One query: pairs of equal keys less than a window apart, of rows of A and B with at least these values."""

    name: str
    window_ms: int
    least_a: float = 0.0
    least_b: float = 0.0

    @property
    def near(self) -> str:
        """That rows of A and B have equal keys and are less than the window apart, as Spark's SQL."""
        window = f"INTERVAL '{self.window_ms / 1000:.3f}' SECOND"
        return f"A.k = B.k AND A.ts < B.ts + {window} AND B.ts < A.ts + {window}"

    @property
    def selection(self) -> str:
        """The selections as SQL over A and B, with AND in front; empty where there are none."""
        floors = (("A", self.least_a), ("B", self.least_b))
        return "".join(f" AND {stream}.v >= {least:g}" for stream, least in floors if least)


@dataclass(frozen=True)
class Workload:
    """Values are even between 0 and 100, keys even over `keys`; `batch_rows` are of both streams together."""

    name: str
    says: str
    keys: int
    questions: tuple[Question, ...]
    rows: int = ROWS
    batch_rows: int = 100_000

    @property
    def batches(self) -> int:
        return 2 * self.rows // self.batch_rows

    @property
    def batch_ms(self) -> int:
        return self.batch_rows * 1000 // 2 // RATE

    @property
    def largest(self) -> Question:
        return max(self.questions, key=lambda q: q.window_ms)

    @property
    def warm(self) -> int:
        """Micro-batches that are not measured: until the largest window is full, and the first half in any case."""
        return max(-(-self.largest.window_ms // self.batch_ms), self.batches // 2)

    def scaled(self, share: float) -> Workload:
        """Fewer rows, shorter windows and fewer keys: as many partners per row and as many micro-batches to warm up."""
        half = max(1, round(self.batch_rows * share / 2))
        questions = tuple(replace(q, window_ms=max(1, int(q.window_ms * share))) for q in self.questions)
        keys = max(1, round(self.keys * share))
        return replace(self, keys=keys, questions=questions, rows=half * self.batches, batch_rows=2 * half)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Workload:
        stored = json.loads(text)
        return cls(**{**stored, "questions": tuple(Question(**q) for q in stored["questions"])})

    def job_sql(self, folder: Path, format: str, shards: int | None = None) -> str:
        """The job file over the files of this workload."""
        options = "" if format == "parquet" else ", timestampFormat = 'yyyy-MM-dd HH:mm:ss.SSS'"
        streams = "".join(
            f"CREATE STREAM {s} ({COLUMNS}) TIMESTAMP BY ts RATE {RATE} PER SECOND\n"
            f"  WITH (format = '{format}', path = '{folder / format / s}', maxFilesPerTrigger = '1'{options});\n"
            for s in STREAMS
        )
        queries = "".join(
            f"CREATE QUERY {q.name} AS SELECT A.k, A.v AS a, B.v AS b FROM A, B WHERE A.k = B.k{q.selection} "
            f"WINDOW {q.window_ms} milliseconds;\n"
            for q in self.questions
        )
        return (f"SET shards = {shards};\n" if shards else "") + streams + queries


def part(workload: Workload, stream: str, batch: int) -> pa.Table:
    """What a stream brings in one micro-batch; the same at every call."""
    rng = np.random.default_rng([batch, ord(stream)])
    rows = workload.batch_rows // 2
    ts = START_MS + batch * workload.batch_ms + np.sort(rng.integers(0, workload.batch_ms, rows))
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
            "k": rng.integers(0, workload.keys, rows),
            "v": np.round(100 * rng.random(rows), 2),
        }
    )


def write(workload: Workload, folder: Path, formats: tuple[str, ...]) -> None:
    """All files; a file source reads them in the order of their names and of their (made up) times."""
    for stream in STREAMS:
        for batch in range(workload.batches):
            table = part(workload, stream, batch)
            for format in formats:
                file = folder / format / stream / f"{batch:05d}.{format}"
                file.parent.mkdir(parents=True, exist_ok=True)
                _write(table, file)
                os.utime(file, (FIRST_MODIFIED + batch, FIRST_MODIFIED + batch))


def _write(table: pa.Table, file: Path) -> None:
    if file.suffix == ".parquet":
        pq.write_table(table, file)
        return
    texts = pa.array(np.datetime_as_string(table["ts"].to_numpy().astype("datetime64[ms]")))
    table = table.set_column(0, "ts", pa.compute.replace_substring(texts, "T", " "))
    pa.csv.write_csv(table, file, pa.csv.WriteOptions(include_header=False, quoting_style="none"))


def expected(workload: Workload, folder: Path, format: str, batches: int) -> dict[str, int]:
    """Rows of each query over the first files, by DuckDB, and of one with the largest window and no selections."""
    con = duckdb.connect(":memory:", config={"threads": 2})
    for stream in STREAMS:
        files = [str(folder / format / stream / f"{n:05d}.{format}") for n in range(batches)]
        columns = "{'ts': 'TIMESTAMP', 'k': 'BIGINT', 'v': 'DOUBLE'}"
        read = f"read_parquet({files})" if format == "parquet" else f"read_csv({files}, columns = {columns})"
        con.execute(f"CREATE TABLE {stream} AS SELECT epoch_ms(ts) AS ms, k, v FROM {read}")
    asked = [*workload.questions, Question(EVERYTHING, workload.largest.window_ms)]
    counts = ", ".join(f"count(*) FILTER (abs(A.ms - B.ms) < {q.window_ms}{q.selection})" for q in asked)
    near = f"abs(A.ms - B.ms) < {workload.largest.window_ms}"
    (found,) = con.execute(f"SELECT {counts} FROM A JOIN B ON A.k = B.k WHERE {near}").fetchall()
    con.close()
    return {name: int(n) for name, n in zip([q.name for q in asked], found, strict=True)}


# -- the workloads ------------------------------------------------------------------------------------------------

SELECTIVE, DENSE = 600_000, 50_000
"""Keys: about one partner of a row within 600 s, and about twelve."""
LARGEST_S = 600


def uniform(count: int) -> tuple[int, ...]:
    return tuple(LARGEST_S * 1000 * (n + 1) // count for n in range(count))


WINDOWS: Mapping[str, tuple[int, ...]] = {
    "uniform": uniform(12),
    "mostly-small": tuple(1000 * s for s in (*range(20, 201, 20), 400, 600)),
    "small-large": tuple(1000 * s for s in (*range(20, 121, 20), *range(500, 601, 20))),
}
"""The three sets of twelve windows of wang2006's table 4, stretched to 600 s."""


def plain(windows_ms: tuple[int, ...]) -> tuple[Question, ...]:
    return tuple(Question(f"q{n}", w) for n, w in enumerate(windows_ms))


def selections(windows_ms: tuple[int, ...], steps: int = 6) -> tuple[Question, ...]:
    """Every query keeps another part of A, from all to a sixth, and every third only half of B."""
    return tuple(
        Question(f"q{n}", w, round(100 * (n % steps) / steps, 2), 50.0 * (n % 3 == 2)) for n, w in enumerate(windows_ms)
    )


WORKLOADS: Mapping[str, Workload] = {
    w.name: w
    for w in (
        Workload("selective", "12 windows of 50 to 600 s, one partner a row", SELECTIVE, plain(uniform(12))),
        Workload("dense", "12 windows of 50 to 600 s, twelve partners a row", DENSE, plain(uniform(12))),
        Workload("one", "1 window of 600 s, one partner a row", SELECTIVE, plain(uniform(1))),
        Workload("mostly-small", "12 windows, most of them small", SELECTIVE, plain(WINDOWS["mostly-small"])),
        Workload("small-large", "12 windows, small and large", SELECTIVE, plain(WINDOWS["small-large"])),
        Workload("selections", "12 windows, each with selections", SELECTIVE, selections(uniform(12))),
        Workload("36", "36 windows, each with selections", SELECTIVE, selections(uniform(36))),
        Workload("100", "100 windows, each with selections", SELECTIVE, selections(uniform(100))),
    )
}


def describe(workload: Workload) -> dict[str, Any]:
    """The workload in figures, beside its results."""
    return {
        "says": workload.says,
        "rows_per_stream": workload.rows,
        "keys": workload.keys,
        "queries": len(workload.questions),
        "windows_s": [q.window_ms / 1000 for q in workload.questions],
        "batch_rows": workload.batch_rows,
        "warm_up_batches": workload.warm,
        "batches": workload.batches,
    }
