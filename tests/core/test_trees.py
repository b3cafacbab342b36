"""Joins of more than two streams, and queries over queries: against the definition, for any cut, shards, restarts."""

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
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import seeds

STREAMS = """
SET strategy = '{strategy}';
SET ordering = '{ordering}';
{streams}"""
NAMES = "ABCD"
STREAM = (
    "CREATE STREAM {} (ts TIMESTAMP, id BIGINT, k BIGINT, j BIGINT, v BIGINT) TIMESTAMP BY ts LATENESS 2 us "
    "WITH (format = 'json', path = '.');\n"
)
SEEDS = seeds(int(os.environ.get("MUNTIN_TREES", "12")), 3)


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
    return pa.table(
        {f.name: pa.array([r[f.name] for r in rows], pa.int64()).cast(f.type) for f in schema}, schema=schema
    )


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
    head = STREAMS.format(strategy=strategy, ordering=ordering, streams="".join(map(STREAM.format, NAMES)))
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


@pytest.mark.parametrize("seed", SEEDS)
def test_queries_that_come_and_go_have_all_rows_from_where_they_are_said_to_be_complete(seed):
    rng = random.Random(1000 + seed)
    shapes = ["ABC", "AAB", "AB", "ABC", "BCA", "ABD"]
    pool = [_asked(rng, f"q{n}", rng.choice(shapes)) for n in range(6)]
    present = {query.name: query for query in pool[: rng.choice([1, 2, 3])]}
    since, complete, until = ({name: edge for name in present} for edge in (-(10**9), -(10**9), 10**9))
    rows = _rows(rng, 16)
    batches = _batches(rng, rows)
    job, got = LocalJob(_spec([*present.values()]), rng.choice([1, 2]), checks=True), {q.name: [] for q in pool}
    for number, batch in enumerate(batches):
        tables = {name: _table(job.spec, name, mine) for name, mine in batch.items()}
        for name, table in job.push(tables, ended=number == len(batches) - 1).items():
            got[name].append(table)
        if number < len(batches) - 1 and rng.random() < 0.7:
            fresh = [q for q in pool if q.name not in since]
            gone = [name for name in present if len(present) > 1 and rng.random() < 0.3]
            present = {name: query for name, query in present.items() if name not in gone}
            present |= {query.name: query for query in rng.sample(fresh, min(len(fresh), rng.choice([0, 1, 2])))}
            done = job.change(_spec([*present.values()]))
            for name in present:
                if name not in since:
                    since[name], complete[name] = done[name].applied_from, done[name].complete_from[name]
                    until[name] = 10**9
            for name in gone:
                until[name] = job.shards[0][0].operator.release + 1
        if rng.random() < 0.3:
            job.restart()
    for query in pool:
        if query.name not in since or not got[query.name]:
            continue
        expected, found = _expected(query, rows), _got(got[query.name])
        assert not found - expected, query.statement
        if until[query.name] == 10**9:
            lacking = [row for row in (expected - found) if row[-1] >= complete[query.name]]
            assert not lacking, (query.statement, since[query.name], complete[query.name])


def test_a_new_query_over_a_running_sub_join_is_complete_at_once():
    text = "SELECT A.id AS a, A.v, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k WINDOW 8 us"
    by_k = Asked("one", text, "ABC", (8,), None)
    smaller = replace(by_k, name="two", text=by_k.text.replace("8 us", "4 us").replace("WHERE", "WHERE A.v > 1 AND"))
    rng = random.Random(3)
    rows = _rows(rng, 16)
    early, late = ({n: [r for r in rows[n] if (r["ts"] < 20) is first] for n in rows} for first in (True, False))
    job = LocalJob(_spec([by_k]), 2, checks=True)
    job.push({name: _table(job.spec, name, mine) for name, mine in early.items()})
    joins = [join.index for join in job.plan.joins]
    done = job.change(_spec([by_k, smaller]))
    assert [join.index for join in job.plan.joins] == joins, "it takes up both joins"
    assert done["two"].complete_from["two"] == done["two"].applied_from
    got = job.push({name: _table(job.spec, name, mine) for name, mine in late.items()}, ended=True)["two"]
    assert got.num_rows
    dropped = job.change(_spec([smaller]))
    assert not dropped and [join.index for join in job.plan.joins] == joins


def test_the_join_of_two_streams_is_done_once_for_ten_queries():
    few = "SELECT A.id AS a, B.id AS b, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.j = C.j AND A.v > {} WINDOW {} us"
    asked = [Asked(f"q{n}", few.format(n % 3, 2 + n), "ABC", (2 + n,) * 3, None) for n in range(9)]
    plain = Asked("ab", "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 9 us", "AB", (9, 9), None)
    rows = _rows(random.Random(4), 40)
    work = {}
    for name, queries in {"ten": [*asked, plain], "one": [plain]}.items():
        job = LocalJob(_spec(queries), 1)
        job.push({name: _table(job.spec, name, mine) for name, mine in rows.items()}, ended=True)
        work[name] = job.counters(0)[0]
        joins = len(job.plan.joins)
        assert joins == (2 if name == "ten" else 1)
    assert work["ten"].inserted == work["one"].inserted
    assert work["ten"].probes == work["one"].probes


ALONE = """
CREATE QUERY kept AS SELECT A.id AS a, B.id AS b, C.id AS c
  FROM A JOIN B ON A.k = B.k LEFT JOIN C ON B.k = C.k WINDOW 5 us;
CREATE QUERY has AS SELECT A.id AS a, B.id AS b FROM A JOIN B ON A.k = B.k
  WHERE EXISTS (SELECT 1 FROM C WHERE C.j = B.j) WINDOW 5 us;
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_left_join_and_exists_at_the_top_of_a_tree(seed):
    rng = random.Random(seed)
    rows = _rows(rng, 14)
    found = _run(rng, _spec([], more=ALONE), _batches(rng, rows), rng.choice([1, 3]))
    pairs = answer_of_many((5, 5), [rows["A"], rows["B"]], lambda a, b: a["k"] is not None and a["k"] == b["k"])
    kept, has = Counter(), Counter()
    for (a, b), ts in pairs:
        until = min(a["ts"], b["ts"]) + 5
        later = [(c, max(ts, c["ts"])) for c in rows["C"] if c["ts"] < until and ts - c["ts"] < 5]
        mine = [(c["id"], at) for c, at in later if c["k"] == b["k"]]
        kept.update((a["id"], b["id"], *row) for row in mine or [(None, until)])
        first = min((at for c, at in later if c["j"] == b["j"]), default=None)
        if first is not None:
            has[a["id"], b["id"], first] += 1
    assert found["has"] == has
    assert found["kept"] == kept


def test_a_new_query_takes_up_a_running_sub_join_only_where_that_has_its_rows():
    """What one of several alternatives within a selection takes, the selection need not take."""
    text = "SELECT A.id AS a, A.v, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.k = C.k AND {} WINDOW 8 us"
    narrow = text.format("A.j > 0 AND (A.v = 0 OR (A.v = 1) OR A.v = 2)")
    one, two = Asked("one", narrow, "ABC", (8,) * 3, None), Asked("two", text.format("A.v = 1"), "ABC", (8,) * 3, None)
    either = Asked("one", text.format("(A.v = 1 OR A.v = 2)"), "ABC", (8,) * 3, None)
    for running, shared in ((one, False), (either, True)):
        job = LocalJob(_spec([running]), 1, checks=True)
        job.change(_spec([running, two]))
        read = {query.left for join in job.plan.joins for query in join.queries if query.name in ("one", "two")}
        assert (len(read) == 1) is shared
