"""Sharing changes nothing: any cut, shard count, restart or neighbour gives the oracle's answer (semantics, section 3).

Tiny domains on purpose (3 keys, times 0 to 12, ties, NULLs, late rows, duplicates): they meet the corners more often
than large random ones.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.model import Axis, JobSpec
from muntin.plan import Plan, share
from muntin.plan.invalidations import INVALIDATIONS
from muntin.plan.schedulers import SCHEDULERS
from muntin.plan.strategies import STRATEGIES
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, ROW, STREAMS, order_of, orders, queries, rows, summed


@st.composite
def scenarios(draw: st.DrawFn) -> dict:
    steps = draw(st.integers(1, 4))
    order = draw(orders(steps))
    batches = [(draw(rows(2 * n)), draw(rows(2 * n + order["lead"]))) for n in range(steps)]
    count = draw(st.integers(1, 4))
    return {
        **order,
        "lateness": draw(st.sampled_from([0, 2, 20])),
        "batches": batches,
        "queries": [draw(queries(f"q{n}")) for n in range(count)],
        "shards": draw(st.sampled_from([1, 2, 3])),
        "invalidation": draw(st.sampled_from(["auto", *INVALIDATIONS.names])),
        "strategy": draw(st.sampled_from(STRATEGIES.names)),
        "merged": draw(st.integers(0, 255)),
        "restarts": [draw(st.booleans()) for _ in batches],
    }


def job(scenario: dict, chosen: list[dict] | None = None) -> JobSpec:
    settings = f"SET invalidation = '{scenario['invalidation']}'; SET ordering = '{scenario['ordering']}';"
    text = settings + STREAMS.format(late=scenario["lateness"])
    return parse_job(text + "\n".join(q["sql"] for q in (chosen or scenario["queries"])))


def planned(spec: JobSpec, strategy: str, merged: int) -> Plan:
    """A plan whose chains are merged at random: bit n of `merged` takes away cut n of both sides, never the last."""
    plan = share(spec, strategy)
    joins = []
    for join in plan.joins:
        left, right = (
            tuple(cut for n, cut in enumerate(cuts) if cut == cuts[-1] or not merged >> n & 1) for cuts in join.cuts
        )
        joins.append(replace(join, cuts=(left, right)))
    return replace(plan, joins=tuple(joins))


def simulate(
    scenario: dict,
    spec: JobSpec,
    shards: int,
    restarts: list[bool],
    plan: Plan | None = None,
    run_length: int | None = None,
) -> tuple[dict, LocalJob]:
    """Each query's rows as tuples in output order."""
    local = LocalJob(spec, shards, plan or planned(spec, scenario["strategy"], scenario["merged"]), run_length)
    got: dict[str, list] = {name: [] for name in spec.queries}
    rules = [*scenario["rules"], None]
    for batch, restart, rule in zip([*scenario["batches"], None], [*restarts, False], rules, strict=True):
        if rule is not None:
            local.follow(rule)
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, ROW) for s, r in zip("AB", batch, strict=True)}
        for name, table in local.push(tables, ended=batch is None).items():
            times = table["_ts"].cast(pa.int64()).to_pylist()
            got[name] += zip(table["a"].to_pylist(), table["b"].to_pylist(), table["s"].to_pylist(), times, strict=True)
        if restart:
            local.restart()
    return got, local


def expected(scenario: dict) -> tuple[dict, list[list]]:
    """The oracle's rows per query, and its late rows per stream."""
    sides = [[batch[side] for batch in scenario["batches"]] for side in (0, 1)]
    admitted = [oracle.admit(side, scenario["lateness"]) for side in sides]
    want = {}
    for q in scenario["queries"]:
        keys = (oracle.columns(*q["key"]), oracle.columns(*q["key"])) if q["key"] else None
        terms = {"holds": q["pairs"], "untils": q["untils"]}
        pairs = oracle.answer(q["window"], *(a for a, _ in admitted), keys, tuple(q["keeps"]), **terms)
        want[q["name"]] = [(p.left["id"], p.right["id"], summed(p.left["v"], p.right["v"]), p.ts) for p in pairs]
    return want, [[letter.row for letter in letters] for _, letters in admitted]


@settings(max_examples=EXAMPLES, deadline=None)
@given(scenarios())
def test_every_query_gets_the_oracles_rows_in_order_whatever_the_cuts_shards_and_restarts(scenario):
    got, local = simulate(scenario, job(scenario), scenario["shards"], scenario["restarts"])
    want, late = expected(scenario)
    for name, rows_ in want.items():
        assert sorted(got[name], key=order_of) == sorted(rows_, key=order_of)
        times = [row[-1] for row in got[name]]
        assert times == sorted(times)
    for name, letters in zip("AB", late, strict=True):
        found = [row for table in local.late[name] for row in table["id"].to_pylist()]
        assert sorted(found) == sorted(row["id"] for row in letters)
    for n, join in enumerate(local.plan.joins):
        for shard, counters in zip(local.shards[n], local.counters(n), strict=True):
            assert counters.state_rows == counters.held_rows == [0, 0], "an ended job keeps nothing"
            assert counters.held_pairs == counters.held_bytes == counters.out_of_order == 0
            assert counters.keys == 0 and not shard.log, join


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(scenarios(), st.sampled_from(["auto", *SCHEDULERS.names]), st.integers(1, 6))
def test_every_scheduler_gives_the_oracles_rows_in_order_whatever_the_runs(scenario, scheduler, run_length):
    spec = job(scenario)
    spec = replace(spec, settings=replace(spec.settings, delivery="eager", scheduler=scheduler))
    shards = min(scenario["shards"], 2)
    got, local = simulate(scenario, spec, shards, scenario["restarts"], run_length=run_length)
    for name, rows_ in expected(scenario)[0].items():
        assert sorted(got[name], key=order_of) == sorted(rows_, key=order_of)
        times = [row[-1] for row in got[name]]
        assert times == sorted(times)
    for n in range(len(local.plan.joins)):
        for counters in local.counters(n):
            assert counters.state_rows == counters.held_rows == [0, 0], "an ended job keeps nothing"


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(scenarios())
def test_a_query_alone_gets_the_same_rows_as_beside_others(scenario):
    together, _ = simulate(scenario, job(scenario), scenario["shards"], scenario["restarts"])
    for query in scenario["queries"]:
        alone, _ = simulate(scenario, job(scenario, [query]), 1, [False] * len(scenario["batches"]))
        assert sorted(alone[query["name"]], key=order_of) == sorted(together[query["name"]], key=order_of)


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(scenarios())
def test_a_row_is_kept_exactly_as_long_as_some_query_can_want_it(scenario):
    """Mem-Opt with selections pushed into the chain keeps what theorem 4 of wang2006 says, and no strategy less."""
    spec = job({**scenario, "ordering": "sync-filter"})
    batches = scenario["batches"]
    local = LocalJob(spec, scenario["shards"], share(spec))
    others = [LocalJob(spec, 1, planned(spec, s, scenario["merged"])) for s in STRATEGIES.names]
    for n in range(len(batches)):
        for engine in (local, *others):
            tables = {s: pa.Table.from_pylist(r, ROW) for s, r in zip("AB", batches[n], strict=True)}
            engine.push(tables)
        mine = _kept(local)
        assert mine == _needed(scenario, n + 1)
        assert all(mine <= _kept(other) for other in others)


def _kept(local: LocalJob) -> int:
    return sum(sum(c.state_rows) for j in range(len(local.plan.joins)) for c in local.counters(j))


def _needed(scenario: dict, count: int) -> int:
    """Rows that have been joined and that a query of theirs can still want, counted once for each shared join."""
    sides = [[batch[side] for batch in scenario["batches"][:count]] for side in (0, 1)]
    rows = [oracle.admit(side, scenario["lateness"])[0] for side in sides]
    frontiers = [max((r["ts"] for r in side), default=-(10**9)) - scenario["lateness"] for side in rows]
    groups: dict = {}
    for q in scenario["queries"]:
        groups.setdefault((q["key"], q["window"].axes), []).append(q)
    total = 0
    for (key, axes), queries_ in groups.items():
        counted = Axis.ROWS in axes
        release = min(frontiers) - counted
        for side in (0, 1):
            ordered = sorted((r["ts"], n) for n, r in enumerate(rows[side]) if r["ts"] <= release)
            for place, (ts, n) in enumerate(ordered):
                row = rows[side][n]
                age = len(ordered) - 1 - place if axes[side] is Axis.ROWS else release - ts
                if key is None or all(row[k] is not None for k in key):
                    wants = [_waits(q, side, row) for q in queries_ if q["keeps"][side](row)]
                    total += age < max(wants, default=0)
    return total


def _waits(q: dict, side: int, row: dict) -> int:
    """For how long a query lets a row wait."""
    until = q["untils"][side] and q["untils"][side](row)
    window = q["window"].side(side)
    return window if until is None else min(window, max(1, until - row["ts"]))


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(scenarios())
def test_a_restart_changes_neither_answers_nor_work_nor_state(scenario):
    count = len(scenario["batches"])
    plain, one = simulate(scenario, job(scenario), 2, [False] * count)
    restarted, two = simulate(scenario, job(scenario), 2, [True] * count)
    ties = lambda rows: sorted(rows, key=lambda row: (row[-1], str(row)))  # noqa: E731 - those come in any order
    assert {name: ties(rows) for name, rows in plain.items()} == {name: ties(rows) for name, rows in restarted.items()}
    for n in range(len(one.plan.joins)):
        assert one.counters(n) == two.counters(n)


def _dense(rows_: int, spacing: int, key: int = 1) -> pa.Table:
    return pa.Table.from_pylist(
        [{"ts": n * spacing, "id": n, "k": key, "g": "x", "v": n % 4} for n in range(rows_)], ROW
    )


def _windows(*sizes: int, where: str = "") -> JobSpec:
    return parse_job(
        STREAMS.format(late=0)
        + "".join(
            f"CREATE QUERY w{n} AS SELECT A.id AS a, B.id AS b FROM A, B "
            f"WHERE A.k = B.k{where} WINDOW {w} microseconds;"
            for n, w in enumerate(sizes)
        )
    )


def test_a_pair_is_found_once_for_all_windows():
    one, many = LocalJob(_windows(20)), LocalJob(_windows(20, 15, 10, 5, 5))
    for local in (one, many):
        local.push({"A": _dense(40, 3), "B": _dense(40, 3)})
    assert one.counters()[0].pairs > 0
    assert many.counters()[0].pairs == one.counters()[0].pairs
    assert many.counters()[0].comparisons == one.counters()[0].comparisons
    assert many.counters()[0].state_rows == one.counters()[0].state_rows


def test_the_state_holds_the_largest_window_and_no_more():
    local = LocalJob(_windows(30, 9))
    local.push({"A": _dense(100, 3), "B": _dense(100, 3)})
    counters = local.counters()[0]
    assert counters.state_rows == [10, 10], "rows of the last 30 us, one every 3 us"
    assert counters.expired == [90, 90]
    assert local.shards[0][0].operator.slice_rows(0) == [3, 7]


def test_rows_that_no_query_wants_are_neither_kept_nor_probed():
    local = LocalJob(_windows(30, 9, where=" AND A.v = 1 AND B.v < 2"))
    local.push({"A": _dense(100, 3), "B": _dense(100, 3)})
    counters = local.counters()[0]
    assert counters.inserted == [25, 50]
    assert counters.unwanted == [75, 50]
    assert counters.probes == 75


def test_keys_that_are_never_touched_again_leave_the_state():
    local = LocalJob(_windows(10))
    many_keys = pa.Table.from_pylist([{"ts": n, "id": n, "k": n, "g": "x", "v": 1} for n in range(5000)], ROW)
    local.push({"A": many_keys, "B": many_keys})
    assert local.counters()[0].state_rows == [10, 10]
    assert local.counters()[0].keys == 10


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 100])
def test_work_does_not_depend_on_the_size_of_micro_batches(size):
    table, spec = _dense(100, 3), _windows(30, 9)
    whole, cut = LocalJob(spec), LocalJob(spec)
    whole.push({"A": table, "B": table})
    for start in range(0, 100, size):
        cut.push({"A": table.slice(start, size), "B": table.slice(start, size)})
    for name in ("pairs", "probes", "state_rows", "inserted", "expired"):
        assert getattr(cut.counters()[0], name) == getattr(whole.counters()[0], name)


def test_the_index_is_in_proportion_to_the_live_rows_also_after_a_burst_of_keys():
    spec = _windows(100)
    local = LocalJob(spec)
    burst = pa.Table.from_pylist([{"ts": n // 200, "id": n, "k": n, "g": "x", "v": 1} for n in range(20_000)], ROW)
    local.push({"A": burst, "B": burst})
    state = local.shards[0][0].operator.state
    at_peak, rows_at_peak = state.nbytes, state.rows(0) + state.rows(1)
    assert rows_at_peak == 40_000
    later = pa.Table.from_pylist([{"ts": 10_000 + n, "id": n, "k": n, "g": "x", "v": 1} for n in range(50)], ROW)
    local.push({"A": later, "B": later})
    assert state.rows(0) + state.rows(1) == 100
    assert at_peak < 200 * rows_at_peak and state.nbytes < at_peak / 20


@pytest.mark.slow
def test_one_key_may_have_all_rows_and_grow_in_small_micro_batches():
    local, rows, start = LocalJob(_windows(10**9)), 0, 0
    for size in [2048, *[10] * 100]:
        batch = [{"ts": start + n, "id": n, "k": 1, "g": "x", "v": 1} for n in range(size)]
        local.push({"A": pa.Table.from_pylist(batch[-1:], ROW), "B": pa.Table.from_pylist(batch, ROW)})
        rows, start = rows + size, start + size
    assert local.counters()[0].state_rows == [101, rows]
