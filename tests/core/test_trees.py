"""Joins of more than two streams, and queries over queries: against the definition, for any cut, shards and restarts."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from muntin.core.batch import stream_schema
from muntin.model import JobSpec
from muntin.oracle import answer_of_many
from muntin.sql import parse_job, parse_query
from muntin.testing import LocalJob

STREAMS = """
SET strategy = '{strategy}';
SET ordering = '{ordering}';
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 us WITH (format = 'json', path = '.');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 us WITH (format = 'json', path = '.');
CREATE STREAM C (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 us WITH (format = 'json', path = '.');
CREATE STREAM D (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 us WITH (format = 'json', path = '.');
"""
NAMES = "ABCD"
SEEDS = range(int(os.environ.get("MUNTIN_TREES", "12")))


@dataclass(frozen=True)
class Asked:
    """A query as text, and what it means: streams, windows and a condition over one row of each."""

    name: str
    text: str
    streams: str
    windows: tuple[int, ...]
    holds: object

    @property
    def statement(self) -> str:
        return f"CREATE QUERY {self.name} AS {self.text};"


def _select(streams: str) -> str:
    return ", ".join(f"{alias}.id AS {alias.lower()}" for alias in _aliases(streams))


def _aliases(streams: str) -> list[str]:
    """The stream itself, or where it comes again, with a number."""
    return [name if name not in streams[:n] else f"{name}{n}" for n, name in enumerate(streams)]


def _asked(rng: random.Random, name: str, streams: str) -> Asked:
    aliases = _aliases(streams)
    windows = tuple(rng.choice([2, 3, 5, 8]) for _ in streams)
    if rng.random() < 0.5:
        windows = (windows[0],) * len(streams)
    links = []
    for n in range(1, len(streams)):
        links.append((rng.randrange(n), n, rng.choice(["k", "k", "j"])))
    selected = rng.choice([None, None, 0, 1, 2])
    compared = rng.random() < 0.3
    conditions = [f"{aliases[a]}.{c} = {aliases[b]}.{c}" for a, b, c in links]
    if selected is not None:
        conditions.append(f"{aliases[0]}.v > {selected}")
    if compared:
        conditions.append(f"{aliases[0]}.v <= {aliases[-1]}.v")
    rng.shuffle(conditions)
    items = [f"{s} [RANGE {w} us] {alias}" for s, w, alias in zip(streams, windows, aliases, strict=True)]
    text = f"SELECT {_select(streams)} FROM {', '.join(items)} WHERE {' AND '.join(conditions)}"

    def holds(*rows):
        return (
            all(rows[a][c] is not None and rows[a][c] == rows[b][c] for a, b, c in links)
            and (selected is None or rows[0]["v"] > selected)
            and (not compared or rows[0]["v"] <= rows[-1]["v"])
        )

    return Asked(name, text, streams, windows, holds)


def _rows(rng: random.Random, count: int) -> dict[str, list[dict]]:
    """Rows of all streams in order of time, but for two microseconds."""
    found = {}
    for name in NAMES:
        times = sorted(rng.randrange(40) for _ in range(count))
        found[name] = [
            {"ts": t, "id": n, "k": rng.choice([0, 1, 2, None]), "j": rng.randrange(3), "v": rng.randrange(4)}
            for n, t in enumerate(times)
        ]
    return found


def _batches(rng: random.Random, rows: dict[str, list[dict]]) -> list[dict[str, list[dict]]]:
    cuts = sorted(rng.randrange(42) for _ in range(rng.randrange(1, 7)))
    lags = {name: rng.choice([0, 0, 3]) for name in rows}
    return [
        {name: [r for r in rows[name] if low <= r["ts"] + lags[name] < high] for name in rows}
        for low, high in zip([-99, *cuts], [*cuts, 99], strict=True)
    ]


def _table(spec: JobSpec, name: str, rows: list[dict]) -> pa.Table:
    schema = stream_schema(spec.streams[name])
    return pa.table({f.name: pa.array([r[f.name] for r in rows], pa.int64()).cast(f.type) for f in schema}, schema=schema)


def _expected(asked: Asked, rows: dict[str, list[dict]]) -> Counter:
    found = answer_of_many(asked.windows, [rows[name] for name in asked.streams], asked.holds)
    return Counter((*(row["id"] for row in together), ts) for together, ts in found)


def _got(tables: list[pa.Table]) -> Counter:
    table = pa.concat_tables(tables)
    times = table["_ts"].cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    return Counter(zip(*(table[c].to_pylist() for c in table.column_names[:-1]), times, strict=True))


def _run(rng: random.Random, spec: JobSpec, batches, shards: int, restarts: bool = True) -> dict[str, Counter]:
    job, found = LocalJob(spec, shards, checks=True), {name: [] for name in spec.queries}
    for number, batch in enumerate(batches):
        tables = {name: _table(spec, name, rows) for name, rows in batch.items()}
        for name, table in job.push(tables, ended=number == len(batches) - 1).items():
            found[name].append(table)
        if restarts and rng.random() < 0.3:
            job.restart()
    assert not any(table.num_rows for late in job.late.values() for table in late)
    return {name: _got(tables) for name, tables in found.items()}


def _spec(asked: list[Asked], strategy: str = "state-slice", ordering: str = "adaptive", more: str = "") -> JobSpec:
    head = STREAMS.format(strategy=strategy, ordering=ordering)
    return parse_job(head + "".join(query.statement for query in asked) + more)


@pytest.mark.parametrize("seed", SEEDS)
def test_three_and_four_streams_are_as_defined_for_any_cut_shards_neighbours_and_restarts(seed):
    rng = random.Random(seed)
    shapes = ["ABC", "ABCD", "AAB", "BCA", "AB", "ABC", "DCB"]
    asked = [_asked(rng, f"q{n}", rng.choice(shapes)) for n in range(rng.choice([1, 3, 6]))]
    strategy = rng.choice(["state-slice", "state-slice", "pull-up", "isolated", "push-down"])
    spec = _spec(asked, strategy, rng.choice(["sync-filter", "filter-order"]))
    rows = _rows(rng, 10 if any(len(q.streams) > 3 for q in asked) else 16)
    found = _run(rng, spec, _batches(rng, rows), rng.choice([1, 2, 3]))
    for query in asked:
        assert found[query.name] == _expected(query, rows), query.statement
