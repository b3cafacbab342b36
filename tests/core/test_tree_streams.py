"""Trees of joins over streams that are not equally far: one of three is idle, or hours behind (semantics, 1 and 8)."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from muntin import oracle
from muntin.core.batch import stream_schema
from muntin.model import JobSpec, Side, UsageError
from muntin.sql import parse_job
from muntin.testing import LocalJob

HOUR = 3_600_000_000
STREAM = (
    "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT) TIMESTAMP BY ts IDLE AFTER 1 minute "
    "WITH (format = 'json', path = '.');\n"
)
QUERIES = {
    "same": "SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 1 hour",
    "other": "SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.j = C.j WINDOW 1 hour",
}
LINKS = {"same": ("k", "k"), "other": ("k", "j")}
PER_HOUR = 6


def _spec() -> JobSpec:
    queries = "".join(f"CREATE QUERY {name} AS {text};\n" for name, text in QUERIES.items())
    return parse_job("".join(map(STREAM.format, "ABC")) + queries)


def _rows(rng: random.Random, hours: int) -> dict[str, list[dict]]:
    """In each hour so many rows of each stream."""
    found = {}
    for n, name in enumerate("ABC"):
        times = [h * HOUR + (m * 3 + n) * (HOUR // (3 * PER_HOUR)) for h in range(hours) for m in range(PER_HOUR)]
        found[name] = [{"ts": t, "id": i, "k": rng.randrange(3), "j": rng.randrange(3)} for i, t in enumerate(times)]
    return found


def _table(spec: JobSpec, name: str, rows: list[dict]) -> pa.Table:
    schema = stream_schema(spec.streams[name])
    columns = {f.name: pa.array([row[f.name] for row in rows], pa.int64()).cast(f.type) for f in schema}
    return pa.table(columns, schema=schema)


def _expected(name: str, rows: dict[str, list[dict]]) -> Counter:
    first, second = LINKS[name]
    found = oracle.answer_of_many(
        (HOUR,) * 3, [rows[s] for s in "ABC"], lambda a, b, c: a[first] == b[first] and b[second] == c[second]
    )
    return Counter((a["id"], b["id"], c["id"], ts) for (a, b, c), ts in found)


def _tuples(table: pa.Table) -> list[tuple]:
    return list(zip(*(table[c].to_pylist() for c in "abc"), table["_ts"].cast(pa.int64()).to_pylist(), strict=True))


def _kept(job: LocalJob) -> list[list[int]]:
    """Of each join, the rows of each side that have been joined and are kept, over all shards."""
    joins = range(len(job.plan.joins))
    return [[sum(c.state_rows[side] for c in job.counters(n)) for side in Side] for n in joins]


def _bounds(job: LocalJob, shards: int) -> list[list[int]]:
    """An hour of a stream, in every shard where it goes to all; an hour of pairs is at most all of two hours' rows."""
    most = PER_HOUR + 1
    return [
        [(most * most * 2 if join.reads[side] is not None else most) * (shards if join.everywhere[side] else 1)
         for side in Side]
        for join in job.plan.joins
    ]  # fmt: skip


def _within(job: LocalJob, shards: int) -> bool:
    pairs = zip(_kept(job), _bounds(job, shards), strict=True)
    return all(rows <= most for kept, bounds in pairs for rows, most in zip(kept, bounds, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("idle", "ABC")
def test_one_of_three_streams_that_is_idle_holds_nobody_back(idle: str):
    rng = random.Random(idle)
    spec, rows = _spec(), _rows(rng, 8)
    rows[idle] = [row for row in rows[idle] if row["ts"] < 2 * HOUR]
    job, found = LocalJob(spec, 2, checks=True), {name: Counter() for name in QUERIES}
    for hour in range(8):
        batch = {s: [r for r in rows[s] if hour * HOUR <= r["ts"] < (hour + 1) * HOUR] for s in "ABC"}
        tables = {s: _table(spec, s, mine) for s, mine in batch.items()}
        for name, table in job.push(tables, idle={idle} if hour >= 2 else ()).items():
            found[name].update(_tuples(table))
        job.restart()
        assert _within(job, 2), (hour, _kept(job))
        ready = job.shards[-1][0].operator.release
        assert ready >= (hour + 1) * HOUR - HOUR // 2, "the others go on"
        assert sum(sum(c.held_rows) for n in range(len(job.plan.joins)) for c in job.counters(n)) <= 3 * PER_HOUR
    for name in QUERIES:
        want = Counter({row: n for row, n in _expected(name, rows).items() if row[-1] <= ready})
        assert found[name] == want and want


@pytest.mark.slow
@pytest.mark.parametrize("behind", "ABC")
def test_a_stream_hours_behind_holds_rows_and_no_state(behind: str):
    """What is ahead is held, and counted; the state of each join stays as large as its windows."""
    rng = random.Random(behind)
    spec, rows, lag = _spec(), _rows(rng, 6), 4
    job, found, held = LocalJob(spec, 2, checks=True), {name: Counter() for name in QUERIES}, []
    for hour in range(6 + lag):
        tables = {}
        for s in "ABC":
            at = hour - lag if s == behind else hour
            tables[s] = _table(spec, s, [r for r in rows[s] if at * HOUR <= r["ts"] < (at + 1) * HOUR])
        for name, table in job.push(tables, ended=hour == 5 + lag).items():
            found[name].update(_tuples(table))
        assert _within(job, 2), (hour, _kept(job))
        held.append(sum(sum(c.held_rows) for n in range(len(job.plan.joins)) for c in job.counters(n)))
    assert max(held) >= lag * PER_HOUR and held[-1] == 0
    assert {name: _expected(name, rows) for name in QUERIES} == found


def test_eager_delivery_of_a_tree_is_refused_with_the_reason():
    with pytest.raises(UsageError, match="complete only up to the release point"):
        parse_job(
            "SET delivery = 'eager';" + "".join(map(STREAM.format, "ABC")) + f"CREATE QUERY q AS {QUERIES['same']};"
        )


@pytest.mark.slow
def test_dead_letters_of_a_tree_are_rows_of_its_streams_and_are_told_once():
    """A row that comes too late is one, whichever joins read its stream; what a join finds is never late."""
    rng = random.Random(1)
    spec, rows = _spec(), _rows(rng, 3)
    job = LocalJob(spec, 3, checks=True)
    late = {s: {"ts": 5 + n, "id": 900 + n, "k": 1, "j": 1} for n, s in enumerate("ABC")}
    for n, hour in enumerate((0, 1, 2)):
        batch = {s: [r for r in rows[s] if hour * HOUR <= r["ts"] < (hour + 1) * HOUR] for s in "ABC"}
        job.push({s: _table(spec, s, mine + ([late[s]] if n else [])) for s, mine in batch.items()}, ended=n == 2)
    told = {s: [i for table in tables for i in table["id"].to_pylist()] for s, tables in job.late.items()}
    assert told == {s: [900 + n] * 2 for n, s in enumerate("ABC")}


@pytest.mark.parametrize("query", ["A.k = C.k", "A.k = B.k AND B.j = C.j"])
def test_what_was_late_stays_late_for_a_join_that_begins_with_more_lateness(query: str):
    """C has come to its second hour when its lateness grows and a join with another partner begins."""
    streams = "".join(map(STREAM.format, "ABC"))
    kept = "CREATE QUERY kept AS SELECT B.id AS b FROM B, C WHERE B.k = C.k WINDOW 1 hour;\n"
    tree = ", B" if "B." in query else ""
    new = f"CREATE QUERY new AS SELECT A.id AS a, C.id AS c FROM A{tree}, C WHERE {query} WINDOW 1 hour;"
    job = LocalJob(parse_job(streams + kept))
    spec = job.spec
    row = {"id": 1, "k": 0, "j": 0}
    job.push({name: _table(spec, name, [row | {"ts": 2 * HOUR}]) for name in "BC"})
    changed = parse_job(streams.replace("IDLE", "LATENESS 1 day IDLE") + kept + new)
    job.change(changed)
    late, timely = ({"ts": 2 * HOUR + at, "id": name, "k": 0, "j": 0} for name, at in ((7, -1), (8, 0)))
    other = _table(changed, "A", [row | {"ts": 2 * HOUR}])
    brought = {"A": other, "B": other, "C": _table(changed, "C", [late, timely])}
    job.push(brought)
    found = job.push({name: _table(changed, name, []) for name in "ABC"}, ended=True)
    assert found["new"]["c"].to_pylist() == [8]
