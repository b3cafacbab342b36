"""One Spark session for all tests, and a laboratory: streams as files, jobs over them, answers from the oracle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.model import JobSpec, Window
from muntin.oracle import admit, answer, columns
from muntin.sql import parse_job
from whole_way.drive import kept_apart
from whole_way.stand_in import Session

US = 1_000_000
EPOCH_US = 1_700_000_000 * US


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from muntin.spark.session.session import open_session

    session = open_session("local[2,4]", shards=2)
    yield session
    session.stop()


@pytest.fixture
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Spark's, or with the mark `stand_in` that of the stand-in, unless all tests are to run on Spark."""
    if request.node.get_closest_marker("spark") is not None:
        yield request.getfixturevalue("spark")
        return
    assert request.node.get_closest_marker("stand_in") is not None, "say on what it runs"
    with kept_apart(tmp_path):
        yield Session()


@pytest.fixture
def muntin(session: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command line in this process and on the session of the tests: arguments in; exit code, stdout, stderr out."""
    from muntin.cli.main import main

    monkeypatch.setattr("muntin.spark.session.open_session", lambda *_, **__: session)
    monkeypatch.setattr(session, "stop", lambda: None, raising=False)

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def make_rows(seed: int, count: int, *, lateness_s: float = 0, nulls: bool = False, keys: int = 12) -> pa.Table:
    """Rows of about 10 per second, ties included, out of order within the lateness."""
    rng = np.random.default_rng(seed)
    us = np.sort(rng.integers(0, count * 10, count)) * (US // 100) + EPOCH_US
    order = np.argsort(us + rng.integers(0, int(lateness_s * US) + 1, count), kind="stable")
    return pa.table(
        {
            "ts": pa.array(us[order], pa.timestamp("us", "UTC"), mask=(rng.random(count) < 0.04) if nulls else None),
            "id": np.arange(count),
            "k": pa.array(rng.integers(0, keys, count), mask=(rng.random(count) < 0.05) if nulls else None),
            "v": np.round(rng.random(count) * 100, 2),
        }
    )


QUERIES = {
    "short": ("A.k = B.k WINDOW 1 s", Window(US, US), (None, None)),
    "long": ("A.k = B.k WINDOW 8 s", Window(8 * US, 8 * US), (None, None)),
    "hot": ("A.k = B.k AND A.v > 60 WINDOW 20 s", Window(20 * US, 20 * US), (lambda r: r["v"] > 60, None)),
}
"""Text after WHERE, window and selections of the same query for the oracle."""


@dataclass
class Lab:
    """Two streams A and B in folders of Parquet files, and a job of several queries over them."""

    root: Path
    spark: Any
    lateness_s: float = 0
    per_trigger: int = 2
    settings: str = ""
    tables: dict[str, list[pa.Table]] = field(default_factory=lambda: {"A": [], "B": []})

    @property
    def queries(self) -> dict[str, Any]:
        return dict(QUERIES)

    @property
    def output(self) -> Path:
        return self.root / "out"

    @property
    def checkpoint(self) -> Path:
        return self.root / "ckpt"

    def folder(self, stream: str) -> Path:
        folder = self.root / "data" / stream
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def add_files(self, stream: str, rows: pa.Table, files: int) -> None:
        """Write rows as files that Spark takes in this order; it sees each only with the time that says so."""
        for part in np.array_split(np.arange(rows.num_rows), files):
            number = len(self.tables[stream])
            table = rows.take(pa.array(part))
            path = self.folder(stream) / f"_{number:04d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (1_700_000_000 + number,) * 2)
            path.rename(path.with_name(path.name.removeprefix("_")))
            self.tables[stream].append(table)

    def sql(self, queries: dict[str, Any] = QUERIES) -> str:
        late = f" LATENESS {int(self.lateness_s * 1000)} milliseconds" if self.lateness_s else ""
        streams = "".join(
            f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts{late} WITH "
            f"(format = 'parquet', path = '{self.folder(name)}', maxFilesPerTrigger = '{self.per_trigger}');\n"
            for name in "AB"
        )
        select = "SELECT A.id AS a, B.id AS b, B.v AS bv FROM A, B WHERE"
        return self.settings + streams + "".join(f"CREATE QUERY {q} AS {select} {t[0]};\n" for q, t in queries.items())

    def spec(self) -> JobSpec:
        return parse_job(self.sql())

    def run(self, mode: str = "bounded", **more: Any) -> dict[str, Any]:
        from muntin.spark.run import Job

        place = {"output": self.output, "checkpoint": self.checkpoint} | more
        run = Job(self.spark, self.spec()).start(mode=mode, **place)
        run.await_termination()
        return run.status()

    def files(self, query: str) -> list[Path]:
        return sorted(p for p in (self.output / query).glob("*.parquet") if not p.name.startswith((".", "_")))

    def got(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query as (a, b, bv, ts), in file-name order."""
        table = pa.concat_tables([pq.read_table(f) for f in self.files(query)])
        return [tuple(row) for row in zip(*(_plain(c).to_pylist() for c in table.columns), strict=True)]

    def letters(self) -> list[dict[str, Any]]:
        return [row for f in self.files("_dead_letters") for row in pq.read_table(f).to_pylist()]

    def wanted(self, query: str) -> list[tuple[Any, ...]]:
        """What the oracle says, for micro-batches of `per_trigger` files."""
        _, window, keeps = QUERIES[query]
        lefts, rights = (self._accepted(name) for name in "AB")
        pairs = answer(window, lefts, rights, (columns("k"), columns("k")), keeps)
        return [(p.left["id"], p.right["id"], p.right["v"], p.ts) for p in pairs]

    def _accepted(self, name: str) -> list[Any]:
        lists = [_oracle_rows(t) for t in self.tables[name]]
        starts = range(0, len(lists), self.per_trigger)
        batches = [[row for rows in lists[i : i + self.per_trigger] for row in rows] for i in starts]
        return admit(batches, int(self.lateness_s * US))[0]

    def check(self, ordered: bool = True) -> None:
        """Every query has exactly the oracle's rows, and in timestamp order."""
        for query in QUERIES:
            got, wanted = self.got(query), self.wanted(query)
            assert wanted, "an empty expectation proves nothing"
            assert sorted(got) == sorted(wanted), query
            if ordered:
                times = [row[-1] for row in got]
                assert times == sorted(times), query


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _oracle_rows(table: pa.Table) -> list[dict[str, Any]]:
    return pa.table({n: _plain(table[n]) for n in table.column_names}).to_pylist()


@pytest.fixture
def lab(tmp_path: Path, session: Any) -> Lab:
    return Lab(tmp_path, session)


@pytest.fixture
def rows() -> Any:
    return make_rows
