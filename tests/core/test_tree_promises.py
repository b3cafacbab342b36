"""Promises in trees of joins: they never show in an answer, and free rows of the joins above, too (semantics, 8)."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from muntin import oracle
from muntin.core.batch import stream_schema
from muntin.model import JobSpec, Side
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import EXAMPLES

STREAM = (
    "CREATE STREAM {0} (ts TIMESTAMP, id BIGINT, k BIGINT, v BIGINT, closed BOOLEAN{1}) TIMESTAMP BY ts{2}{3} "
    "WITH (format = 'json', path = '.');\n"
)
SHAPES = {
    "three": "SELECT A.id AS a, B.id AS b, C.id AS c, A.k AS k FROM A [RANGE {0} us] A, B [RANGE {1} us] B, "
    "C [RANGE {2} us] C WHERE A.k = B.k AND B.k = C.k",
    "four": "SELECT A.id AS a, B.id AS b, C.id AS c, D.id AS d, A.k AS k FROM A [RANGE {0} us] A, B [RANGE {1} us] B, "
    "C [RANGE {2} us] C, D [RANGE {0} us] D WHERE A.k = B.k AND B.k = C.k AND C.k = D.k",
}
KEYS = 12


def _spec(promises: dict[str, str], binding: int, queries: dict[str, str], more: str = "") -> JobSpec:
    text = more
    for name in "ABCD":
        said = promises.get(name, "")
        unique = ", UNIQUE (k)" if said == "unique" else ""
        marks = " PUNCTUATION WHEN closed" if said == "marks" else ""
        text += STREAM.format(name, unique, marks, f" BINDING {binding} us" if said and binding else "")
    return parse_job(text + "".join(f"CREATE QUERY {name} AS {query};\n" for name, query in queries.items()))


def _rows(rng: random.Random, promises: dict[str, str]) -> dict[str, list[dict]]:
    """Rows that keep their promises for good: of a key that was promised, none comes again."""
    found = {}
    for name in "ABCD":
        rows, over = [], set[int]()
        for n, ts in enumerate(sorted(rng.randrange(60) for _ in range(40))):
            low = ts // 8
            key = rng.choice([low % KEYS, (low + 1) % KEYS, rng.randrange(KEYS)])
            if key in over:
                continue
            closed = promises.get(name) == "marks" and rng.random() < 0.4
            rows.append({"ts": ts, "id": n, "k": key, "v": rng.randrange(4), "closed": closed})
            over |= {key} if closed or promises.get(name) == "unique" else set()
        found[name] = rows
    return found


def _table(spec: JobSpec, name: str, rows: list[dict]) -> pa.Table:
    schema = stream_schema(spec.streams[name])
    types = {"closed": pa.bool_()}
    columns = {f.name: pa.array([r[f.name] for r in rows], types.get(f.name, pa.int64())).cast(f.type) for f in schema}
    return pa.table(columns, schema=schema)


def _run(rng: random.Random, spec: JobSpec, rows: dict[str, list[dict]], shards: int) -> tuple[LocalJob, dict, list]:
    """The job, the rows of each query, and after each micro-batch the rows that the last join keeps of its stream."""
    job = LocalJob(spec, shards, checks=True)
    read = {s for q in spec.queries.values() for part in (*q.inputs, q) for s in (part.left, part.right)}
    used = [name for name in "ABCD" if name in read]
    found, kept = {name: [] for name in spec.queries}, []
    cuts = sorted(rng.sample(range(1, 60), 8))
    for low, high in zip([-1, *cuts], [*cuts, 99], strict=True):
        tables = {n: _table(spec, n, [r for r in rows[n] if low <= r["ts"] < high]) for n in used}
        for name, table in job.push(tables, ended=high == 99).items():
            found[name] += list(zip(*(_plain(c) for c in table.columns), strict=True))
        kept.append(sum(c.state_rows[Side.RIGHT] for c in job.counters(len(job.plan.joins) - 1)))
        if rng.random() < 0.3:
            job.restart()
    return job, {name: Counter(got) for name, got in found.items()}, kept


def _plain(column: pa.ChunkedArray) -> list:
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def _expected(streams: str, windows: tuple[int, ...], rows: dict[str, list[dict]]) -> Counter:
    data = [[row for row in rows[name] if not row["closed"]] for name in streams]
    together = oracle.answer_of_many(windows, data, lambda *found: len({row["k"] for row in found}) == 1)
    return Counter((*(row["id"] for row in found), found[0]["k"], ts) for found, ts in together)


def _promises(rng: random.Random) -> dict[str, str]:
    return {name: rng.choice(["", "marks", "unique"]) for name in "ABCD"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(EXAMPLES // 2))
def test_promises_never_show_in_the_answer_of_a_tree(seed: int):
    rng = random.Random(seed)
    shape = rng.choice(["three", "three", "four"])
    windows = tuple(rng.choice([2, 4, 8, 16]) for _ in range(3))
    promises, binding = _promises(rng), rng.choice([0, 10, 1000])
    neighbour = (
        {"ab": "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 20 us"} if rng.random() < 0.5 else {}
    )
    rows = _rows(rng, promises)
    spec = _spec(promises, binding, {"q": SHAPES[shape].format(*windows), **neighbour})
    job, found, _ = _run(rng, spec, rows, rng.choice([1, 2, 3]))
    streams = "ABC" if shape == "three" else "ABCD"
    assert found["q"] == _expected(streams, (*windows, windows[0])[: len(streams)], rows)
    for table in job.punctuations["q"]:
        for key, at, _ in zip(*(_plain(c) for c in table.columns), strict=True):
            assert not [row for row in found["q"] if row[-2] == key and row[-1] > at], (key, at)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(EXAMPLES // 5))
@pytest.mark.parametrize("how", ["unique", "marks"])
def test_promises_free_rows_of_the_join_above(seed: int, how: str):
    """Both streams below promise, the one above does not: it keeps fewer rows, and the answer is the same."""
    rng = random.Random(seed)
    promises = {"A": how, "B": how}
    rows, query = _rows(rng, promises), {"q": SHAPES["three"].format(16, 16, 30)}
    kept, answers, heard = {}, {}, {}
    for mode in ("pwjoin", "off"):
        spec = _spec(promises, 1000, query, f"SET punctuations = '{mode}';")
        job, answers[mode], kept[mode] = _run(random.Random(seed), spec, rows, 2)
        heard[mode] = sum(c.punctuations[Side.LEFT] for c in job.counters(1))
        freed = sum(c.purged[Side.RIGHT] + c.dropped[Side.RIGHT] for c in job.counters(1))
        assert (freed > 0) is (mode == "pwjoin")
    assert answers["pwjoin"]["q"] == answers["off"]["q"] == _expected("ABC", (16, 16, 30), rows)
    assert heard["pwjoin"] > 0 and heard["off"] == 0
    assert sum(kept["pwjoin"]) < sum(kept["off"])
    assert all(with_promises <= without for with_promises, without in zip(kept["pwjoin"], kept["off"], strict=True))


def test_a_promise_that_lapses_before_rows_have_left_frees_none_of_them():
    """A key comes again after its promise has lapsed, and meets a row of the stream above from before."""
    spec = _spec({"A": "marks", "B": "marks"}, 6, {"q": SHAPES["three"].format(4, 4, 30)})
    row = {"k": 1, "v": 0, "closed": False}
    batches = [
        {"A": [{**row, "ts": 1, "id": 1}], "B": [{**row, "ts": 1, "id": 2}], "C": [{**row, "ts": 2, "id": 3}]},
        {n: [{**row, "ts": 3, "id": 0, "closed": n != "C", "k": 1 if n != "C" else 2}] for n in "ABC"},
        {n: [{**row, "ts": 8, "id": 0, "k": 5 + ord(n)}] for n in "ABC"},
        {n: [{**row, "ts": 12, "id": 4, "k": 1 if n != "C" else 2}] for n in "ABC"},
    ]
    job, found = LocalJob(spec, 1, checks=True), Counter[tuple]()
    for n, batch in enumerate(batches):
        tables = {name: _table(spec, name, rows) for name, rows in batch.items()}
        table = job.push(tables, ended=n == 3)["q"]
        found.update(zip(*(_plain(c) for c in table.columns), strict=True))
    assert found == Counter({(1, 2, 3, 1, 2): 1, (4, 4, 3, 1, 12): 1})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(EXAMPLES // 5))
def test_a_query_over_a_query_hears_its_promises(seed: int):
    rng = random.Random(seed)
    promises = {"A": "unique", "B": rng.choice(["unique", "marks"])}
    queries = {
        "ab": "SELECT A.id AS a, B.id AS b, A.k AS k FROM A, B WHERE A.k = B.k WINDOW 16 us",
        "q": "SELECT P.a, P.b, C.id AS c, P.k FROM ab [RANGE 8 us] P JOIN C [RANGE 30 us] C ON P.k = C.k",
    }
    rows = _rows(rng, promises)
    job, found, _ = _run(rng, _spec(promises, 1000, queries), rows, rng.choice([1, 2]))
    want = Counter[tuple]()
    for (a, b, key, ts), count in _expected("AB", (16, 16), rows).items():
        for c in rows["C"]:
            if c["k"] == key and (ts - c["ts"] < 30 if ts >= c["ts"] else c["ts"] - ts < 8):
                want[a, b, c["id"], key, max(ts, c["ts"])] += count
    assert found["q"] == want
    assert sum(c.purged[Side.RIGHT] + c.dropped[Side.RIGHT] for c in job.counters(1)) > 0


def test_a_join_by_another_key_hears_nothing():
    query = "SELECT A.id AS a, C.id AS c FROM A, B, C WHERE A.k = B.k AND B.v = C.v WINDOW 5 us"
    spec = _spec({"A": "unique", "B": "unique"}, 1000, {"q": query})
    assert [join.hears for join in LocalJob(spec, 2).plan.joins] == [(False, False), (False, False)]


def test_totals_that_are_not_over_yet_are_emitted_at_their_time_also_after_a_restart():
    """The join below has let the row of the last stream go; when its key is over follows from that row all the same."""
    query = "SELECT A.k AS k, COUNT(*) AS n FROM B A JOIN B M ON A.k = M.k JOIN B B ON A.k = B.k GROUP BY A.k "
    spec = _spec({"B": "unique"}, 1000, {"q": query + "WINDOW 3 us EMIT FINAL"})
    rows = [{"ts": ts, "id": ts, "k": k, "v": 0, "closed": False} for ts, k in ((3, 1), (4, 2), (7, 3))]
    job = LocalJob(spec)
    assert not job.push({"B": _table(spec, "B", rows[:2])})["q"].num_rows
    job.restart()
    found = job.push({"B": _table(spec, "B", rows[2:])})["q"]
    assert list(zip(found["k"].to_pylist(), _plain(found["_ts"]), strict=True)) == [(1, 5), (2, 6)]


@pytest.mark.parametrize("restart", [False, True])
def test_totals_are_final_by_the_last_row_of_the_last_stream_though_the_join_below_is_over(restart: bool):
    """Neither the row of C that was there nor a plain query beside it lets the total be final sooner, or later."""
    totals = "SELECT A.k, COUNT(*) AS n FROM A [RANGE 3 us] A, B [RANGE 8 us] B, C [RANGE 4 us] C " + (
        "WHERE A.k = B.k AND B.k = C.k GROUP BY A.k EMIT FINAL"
    )
    promises = {"A": "unique", "B": "unique", "C": "marks"}
    plain = SHAPES["three"].format(3, 8, 4)
    for queries in ({"totals": totals}, {"totals": totals, "plain": plain}):
        spec = _spec(promises, 1000, queries)
        job, found = LocalJob(spec, checks=True), Counter()
        row = {"id": 1, "k": 2, "v": 0, "closed": False}
        batches = [
            {"A": [row | {"ts": 3}], "B": [row | {"ts": 3}], "C": [row | {"ts": 0}, row | {"ts": 4}]},
            {name: [row | {"ts": 5, "k": 9}] for name in "ABC"},
            {"C": [row | {"ts": 6, "closed": True}]},
            {name: [row | {"ts": 20, "k": 10}] for name in "ABC"},
        ]
        for n, batch in enumerate([*batches, {}]):
            got = job.push({s: _table(spec, s, batch[s]) for s in batch}, ended=n == len(batches))["totals"]
            found += Counter(zip(*(_plain(c) for c in got.columns), strict=True))
            if restart:
                job.restart()
        assert found == {(2, 2, 7): 1, (9, 1, 20): 1, (10, 1, 20): 1}, "of the last two nobody says that they are over"
