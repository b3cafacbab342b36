"""Keys become hot and are so no more, at any micro-batch: the rows stay the same, and the work is spread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.arrivals import key_columns
from muntin.kernels.hashing import hash_keys
from muntin.model import Axis, JobSpec, Side
from muntin.plan import share
from muntin.plan.hot_keys import why_at_home
from muntin.plan.strategies import STRATEGIES
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import EXAMPLES, ROW, STREAMS, order_of, orders, queries, rows

KEYS = (1, 2, 3)
ON = "SET hot_keys = 'auto';"


@st.composite
def worlds(draw: st.DrawFn) -> dict:
    steps = draw(st.integers(2, 6))
    order = draw(orders(steps))
    plain = queries("q", alike=True).filter(
        lambda q: q["key"] and not any(q["untils"]) and Axis.ROWS not in q["window"].axes
    )
    key = st.sets(st.sampled_from(KEYS), max_size=2)
    return {
        **order,
        "lateness": draw(st.sampled_from([0, 2, 20])),
        "queries": [{**draw(plain), "name": f"q{n}"} for n in range(draw(st.integers(1, 3)))],
        "batches": [(draw(rows(2 * n)), draw(rows(2 * n + order["lead"]))) for n in range(steps)],
        "heat": [(draw(key), draw(key)) for _ in range(steps)],
        "restarts": [draw(st.booleans()) for _ in range(steps)],
        "late": draw(st.sampled_from([None, 1, 2])),
        "shards": draw(st.sampled_from([2, 3])),
        "strategy": draw(st.sampled_from(STRATEGIES.names)),
    }


def spec_of(world: dict, count: int) -> JobSpec:
    texts = [q["sql"].replace("CREATE QUERY q ", f"CREATE QUERY {q['name']} ") for q in world["queries"][:count]]
    return parse_job(
        f"{ON} SET ordering = '{world['ordering']}';{STREAMS.format(late=world['lateness'])}" + "\n".join(texts)
    )


def hashes(job: LocalJob, join: int, keys: set[int]) -> list[tuple[int, int]]:
    """Join keys with these values of `k`, and any value of `g` where the key has it."""
    table = pa.Table.from_pylist([{"ts": 0, "id": 0, "k": k, "g": g, "v": 0} for k in keys for g in "xy"], ROW)
    h1, h2, _ = hash_keys(key_columns(job.plan.joins[join], Side.LEFT, table))
    return sorted(set(zip(h1.tolist(), h2.tolist(), strict=True)))


def answers(world: dict, heats: bool) -> tuple[dict[str, list], dict[str, list]]:
    """Each query's rows, and the late rows; the last query may come while the job runs."""
    count = len(world["queries"]) - (world["late"] is not None and len(world["queries"]) > 1)
    spec = spec_of(world, count)
    job, got = LocalJob(spec, world["shards"], share(spec, world["strategy"])), {}
    steps = zip(world["batches"], world["heat"], world["restarts"], world["rules"], strict=True)
    for n, (batch, (hot, cool), restart, rule) in enumerate(steps):
        if rule is not None:
            job.follow(rule)
        for join in range(len(job.plan.joins)) if heats else ():
            assert why_at_home(job.plan.joins[join], spec.settings) is None
            job.heat(join, hashes(job, join, hot), hashes(job, join, cool))
        _take(got, job.push({s: pa.Table.from_pylist(part, ROW) for s, part in zip("AB", batch, strict=True)}))
        if restart:
            job.restart()
        if n + 1 == world["late"] and count < len(world["queries"]):
            job.change(spec_of(world, count + 1))
    _take(got, job.push({}, ended=True))
    for found in got.values():
        assert [row[-1] for row in found] == sorted(row[-1] for row in found)
    for shards in job.shards:
        assert not any(shard.log for shard in shards), "an ended job keeps nothing"
    late = {name: sorted(i for table in tables for i in table["id"].to_pylist()) for name, tables in job.late.items()}
    return {name: sorted(found, key=order_of) for name, found in got.items()}, late


def _take(got: dict[str, list], tables: dict[str, pa.Table]) -> None:
    for name, table in tables.items():
        columns = [table[c].to_pylist() for c in ("a", "b", "s")] + [table["_ts"].cast(pa.int64()).to_pylist()]
        got.setdefault(name, []).extend(zip(*columns, strict=True))


@pytest.mark.slow
@settings(max_examples=4 * EXAMPLES, deadline=None)
@given(worlds())
def test_hot_keys_change_no_answer(world):
    """Whatever becomes hot or cold when, with ties, late rows, restarts, other queries, orderings and strategies."""
    assert answers(world, True) == answers(world, False)


def skewed(heats: bool) -> LocalJob:
    """Half of all rows have one key; two shards."""
    spec = parse_job(
        STREAMS.format(late=0) + "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 6 us;"
    )
    job, rng = LocalJob(spec, 2), np.random.default_rng(3)
    for n in range(40):
        if heats and n == 5:
            job.heat(0, hashes(job, 0, {7}))
        tables = {}
        for name in "AB":
            k = np.where(rng.random(100) < 0.5, 7, rng.integers(100, 200, 100))
            times = pa.array(np.full(100, n)).cast(pa.timestamp("us", "UTC"))
            columns = {"ts": times, "id": pa.array(np.arange(100)), "k": pa.array(k)}
            tables[name] = pa.table({**columns, "g": pa.nulls(100, pa.string()), "v": pa.nulls(100, pa.int64())})
        job.push(tables, ended=n == 39)
    return job


@pytest.mark.slow
def test_the_work_of_a_hot_key_is_spread_over_all_shards():
    before, after = (skewed(heats) for heats in (False, True))
    alone, shared = ([c.comparisons for c in job.counters(0)] for job in (before, after))
    assert max(alone) > 0.9 * sum(alone), "one shard does nearly all the work"
    assert max(shared) < 0.62 * sum(shared)
    assert sum(shared) < 1.05 * sum(alone), "no pair is looked at twice"
    kept = [sum(c.inserted) for c in after.counters(0)]
    assert max(kept) < 0.6 * sum(kept)


def test_a_key_is_forgotten_when_its_last_row_elsewhere_has_left():
    job = LocalJob(replace(spec := parse_job(
        STREAMS.format(late=0) + "CREATE QUERY q AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 3 us;"
    ), settings=spec.settings), 2)  # fmt: skip
    known = []
    for n in range(9):
        row = [{"ts": n, "id": n, "k": 1, "g": "x", "v": 0}]
        if n in (1, 4):
            job.heat(0, hashes(job, 0, {1}) if n == 1 else [], hashes(job, 0, {1}) if n == 4 else [])
        job.push({name: pa.Table.from_pylist(row, ROW) for name in "AB"})
        known.append([len(shard.operator.hot_keys.known) for shard in job.shards[0]])
    assert known[0] == [0, 0] and known[3] == known[5] == [1, 1] and known[8] == [0, 0]


def test_what_needs_a_key_in_one_shard_takes_no_part():
    def why(select: str, more: str = "") -> str | None:
        spec = parse_job((more or ON) + STREAMS.format(late=0) + f"CREATE QUERY q AS SELECT {select};")
        return why_at_home(share(spec).joins[0], spec.settings)

    inner = "A.id AS a FROM A, B WHERE A.k = B.k WINDOW 3 us"
    assert why(inner) is None
    assert "off" in why(inner, "SET hot_keys = 'off';")
    assert "output_order" in why(inner, ON + "SET output_order = 'key';")
    assert "eager" in why(inner, ON + "SET delivery = 'eager';")
    assert "counts rows" in why("A.id AS a FROM A, B WHERE A.k = B.k WINDOW 3 ROWS")
    assert "match" in why("A.id AS a FROM A LEFT JOIN B ON A.k = B.k WINDOW 3 us")
    assert "groups" in why("A.k AS k, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 3 us")
    assert "no equality" in why("A.id AS a FROM A, B WHERE A.v < B.v WINDOW 3 us")
