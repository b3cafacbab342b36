"""Results in order over streams that are not (hammad2005): three orderings, the same rows in the same order, and what
each of them holds while one stream is behind."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.core.policy import LimitError
from muntin.model import JobSpec, Window
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, ORDERINGS, ROW, STREAMS, order_of, orders, summed

KEYS = {"A.k = B.k": ("k",), "A.v < B.v": None}
CONDITIONS = {"TRUE": lambda a, b: True, "A.v < B.v": lambda a, b: a["v"] < b["v"]}


@st.composite
def races(draw: st.DrawFn) -> dict:
    """Two streams that run at their own pace: each row later or earlier than the one before, within the lateness.

    `cuts` divides the arrivals of both into micro-batches. Few keys and no NULLs: most rows find partners.
    """
    lateness = draw(st.sampled_from([0, 3]))
    arrivals = []
    now = [0, draw(st.integers(0, 12))]
    for n in range(draw(st.integers(4, 24))):
        side = draw(st.integers(0, 1))
        now[side] += draw(st.integers(0, 4))
        row = {"ts": now[side] - draw(st.integers(0, lateness)), "id": n, "k": draw(st.integers(1, 2)), "g": "x"}
        arrivals.append((side, {**row, "v": draw(st.integers(0, 3))}))
    cuts = sorted(draw(st.lists(st.integers(0, len(arrivals)), max_size=6)))
    cuts = list(range(len(arrivals) + 1)) if draw(st.integers(0, 3)) == 0 else [0, *cuts, len(arrivals)]
    batches = [arrivals[a:b] for a, b in pairwise(cuts)]
    windows = [(draw(st.integers(1, 14)), draw(st.integers(1, 14))) for _ in range(draw(st.integers(1, 3)))]
    return {
        **draw(orders(len(batches))),
        "lateness": lateness,
        "batches": batches,
        "windows": windows,
        "key": draw(st.sampled_from([*KEYS, "A.k = B.k", "A.k = B.k"])),
        "condition": draw(st.sampled_from(list(CONDITIONS))),
        "shards": draw(st.sampled_from([1, 2])),
        "restarts": [draw(st.booleans()) for _ in batches],
        "changes": [draw(st.integers(0, 3)) for _ in batches],
    }


def spec_of(race: dict, names: set[int] | None = None, more: str = "") -> JobSpec:
    queries = "".join(
        f"CREATE QUERY q{n} AS SELECT A.id AS a, B.id AS b, A.v + B.v AS s FROM A [RANGE {left} microseconds] A, "
        f"B [RANGE {right} microseconds] B WHERE {race['key']} AND {race['condition']};"
        for n, (left, right) in enumerate(race["windows"])
        if names is None or n in names
    )
    return parse_job(f"SET ordering = '{race['ordering']}';{more}" + STREAMS.format(late=race["lateness"]) + queries)


def tables(batch: list) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist([r for s, r in batch if s == n], ROW) for n, name in enumerate("AB")}


def run(race: dict, local: LocalJob) -> dict[str, list]:
    got: dict[str, list] = {name: [] for name in local.spec.queries}
    for batch, rule, restart in zip(
        [*race["batches"], None], [*race["rules"], None], [*race["restarts"], False], strict=True
    ):
        if rule is not None:
            local.follow(rule)
        for name, table in local.push(tables(batch or []), ended=batch is None).items():
            got[name] += _rows(table)
        if restart:
            local.restart()
    return got


def _rows(table: pa.Table) -> list:
    columns = [table[c].to_pylist() for c in "abs"]
    return list(zip(*columns, table["_ts"].cast(pa.int64()).to_pylist(), strict=True))


def expected(race: dict) -> dict[str, list]:
    sides = [[[r for s, r in batch if s == side] for batch in race["batches"]] for side in (0, 1)]
    admitted = [oracle.admit(side, race["lateness"])[0] for side in sides]
    found = {}
    for n, (left, right) in enumerate(race["windows"]):
        keys = KEYS[race["key"]]
        both = (oracle.columns(*keys), oracle.columns(*keys)) if keys else None
        holds = CONDITIONS["A.v < B.v"] if keys is None else CONDITIONS[race["condition"]]
        pairs = oracle.answer(Window(left, right), *admitted, both, holds=holds)
        found[f"q{n}"] = [(p.left["id"], p.right["id"], summed(p.left["v"], p.right["v"]), p.ts) for p in pairs]
    return found


@pytest.mark.slow
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(races())
def test_every_ordering_gives_the_oracles_rows_in_order_and_holds_nothing_at_the_end(race):
    local = LocalJob(spec_of(race), race["shards"])
    got, want = run(race, local), expected(race)
    for name, rows in want.items():
        assert sorted(got[name], key=order_of) == sorted(rows, key=order_of)
        assert [row[-1] for row in got[name]] == sorted(row[-1] for row in got[name])
    for counters in local.counters():
        assert counters.state_rows == counters.held_rows == [0, 0] and counters.held_pairs == counters.held_bytes == 0


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(races())
def test_results_leave_in_the_same_micro_batch_under_every_ordering(race):
    """What is joined when is nobody's business outside: R alone lets results go, for every key and over all keys."""
    jobs = [LocalJob(spec_of({**race, "ordering": ordering}), race["shards"]) for ordering in ORDERINGS]
    for batch, rule in zip(race["batches"], race["rules"], strict=True):
        if rule is not None:
            jobs[-1].follow(rule)
        outputs = [{name: sorted(_rows(table)) for name, table in local.push(tables(batch)).items()} for local in jobs]
        assert outputs[0] == outputs[1] == outputs[2]
        sync, filter_order = (local.shards[0][0].operator for local in jobs[:2])
        assert sync.counters.held_pairs == 0, "Sync-Filter holds rows only"
        if race["lateness"] == 0 and filter_order.join.keys:
            assert filter_order.counters.held_rows == [0, 0], "Filter-Order holds results only"


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(races())
def test_queries_come_and_go_while_rows_are_joined_ahead(race):
    """Results after the release point of a change follow the new queries, also where they had been found before it."""
    first, others = {0}, set(range(1, len(race["windows"])))
    local, present = LocalJob(spec_of(race, first), race["shards"]), first
    want, got = expected(race), {f"q{n}": [] for n in range(len(race["windows"]))}
    stays = {"q0": [[-100, -100, 10**9]]}  # per query: results from, complete from, until
    for batch, rule, change, restart in zip(
        [*race["batches"], None],
        [*race["rules"], None],
        [*race["changes"], 0],
        [*race["restarts"], False],
        strict=True,
    ):
        if rule is not None:
            local.follow(rule)
        for name, table in local.push(tables(batch or []), ended=batch is None).items():
            got[name] += _rows(table)
        chosen = {0} | {n for n in others if change & n}
        if batch is not None and chosen != present:
            release = local.shards[0][0].operator.release
            for n in present - chosen:
                stays[f"q{n}"][-1][2] = release + 1
            changed = local.change(spec_of(race, chosen))
            for name, how in changed.items():
                stays.setdefault(name, []).append([how.applied_from, how.complete_from[name], 10**9])
            present = chosen
        if restart:
            local.restart()
    for name, rows in want.items():
        assert [row[-1] for row in got[name]] == sorted(row[-1] for row in got[name])
        rest = sorted(rows)
        for row in got[name]:
            assert row in rest, "a row that the oracle does not have, or once too often"
            rest.remove(row)
        for since, complete, until in stays.get(name, []):
            assert not [row for row in rest if max(since, complete) <= row[-1] < until - 1], "a row is missing"


# -- idle streams, rows far ahead, too much held ---------------------------------------------------------------------

ONE = "CREATE QUERY q0 AS SELECT A.id AS a, B.id AS b, A.v + B.v AS s FROM A, B WHERE A.k = B.k WINDOW 10 microseconds;"


def job(settings: str, late: int = 0, query: str = ONE) -> LocalJob:
    return LocalJob(parse_job(settings + STREAMS.format(late=late) + query))


def times(*ts: int) -> pa.Table:
    return pa.Table.from_pylist([{"ts": t, "id": t, "k": 1, "g": "x", "v": 1} for t in ts], ROW)


def pairs(output: dict[str, pa.Table]) -> list[tuple[int, int]]:
    return [row[:2] for row in _rows(output["q0"])]


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_an_idle_stream_holds_nobody_back_and_what_it_brings_too_late_is_a_dead_letter(ordering):
    local = job(f"SET ordering = '{ordering}';")
    assert pairs(local.push({"A": times(1, 2), "B": times(1)})) == [(1, 1)]
    assert pairs(local.push({"A": times(5, 9)})) == [], "B is behind"
    assert pairs(local.push({}, idle=["B"])) == [(2, 1), (5, 1), (9, 1)]
    assert pairs(local.push({"A": times(10)})) == [(10, 1)], "it stays idle until it brings a row"
    local.restart()
    found = pairs(local.push({"A": times(12), "B": times(8, 10)}))
    assert sorted(found) == [(1, 10), (2, 10), (5, 10), (9, 10), (10, 10)]
    assert [t["id"].to_pylist() for t in local.late["B"] if len(t)] == [[8]]
    assert [t["_idle"].to_pylist() for t in local.late["B"] if len(t)] == [[True]]
    assert local.shards[0][0].operator.progress.streams.idle == [False, False]
    assert local.counters()[0].held_rows[0] == (0 if ordering == "filter-order" else 1), "a12 waits for B again"


def test_a_row_that_comes_with_the_message_keeps_its_stream_awake():
    local = job("")
    local.push({"A": times(1, 9), "B": times(1)})
    local.push({"B": times(2)}, idle=["B"])
    assert local.shards[0][0].operator.release == 2


@pytest.mark.parametrize("cut", [1, 2, 100])
def test_one_row_in_the_far_future_goes_to_the_dead_letters_however_the_input_is_cut(cut):
    local = job("SET max_ahead = '50 microseconds';", late=3)
    stream = [1, 4, 3, 9000, 5, 8, 7, 30, 60, 61]
    got = []
    for start in range(0, len(stream), cut):
        got += pairs(local.push({"A": times(*stream[start : start + cut]), "B": times(*range(start, start + cut))}))
        local.restart()
    got += pairs(local.push({}, ended=True))
    others = [t for t in stream if t != 9000]
    assert [t["id"].to_pylist() for t in local.ahead["A"] if len(t)] == [[9000]]
    assert not any(len(t) for t in local.late["A"]) and local.counters()[0].ahead == [1, 0]
    last = -(-len(stream) // cut) * cut
    assert sorted(got) == sorted((a, b) for a in others for b in range(last) if abs(a - b) < 10)


def test_a_stream_that_jumps_is_believed_when_more_rows_say_so():
    whole, cut = (job("SET max_ahead = '50 microseconds';") for _ in range(2))
    whole.push({"A": times(1, 2, 1000, 1001, 1002)})
    for ts in (1, 2, 1000, 1001, 1002):
        cut.push({"A": times(ts)})
    for local in (whole, cut):
        assert local.shards[0][0].operator.progress.streams.max_ts[0] == 1002
    assert whole.counters()[0].ahead == [0, 0] and cut.counters()[0].ahead == [1, 0], "alone, the first is doubted"


@pytest.mark.parametrize("ordering", ["sync-filter", "filter-order"])
def test_more_than_may_be_held_stops_the_job_with_the_name_of_the_stream(ordering):
    local = job(f"SET held_limit = '2 KB'; SET ordering = '{ordering}';")
    local.push({"A": times(*[0] * 40), "B": times(0)})
    with pytest.raises(LimitError, match="because A is behind") as error:
        for start in range(1, 400, 40):
            local.push({"B": times(*range(start, start + 40)), "A": times()})
    assert "nothing is lost" in error.value.render()


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(races())
def test_results_that_leave_out_of_order_are_counted_and_none_is_lost_or_comes_twice(race):
    race = {**race, "key": "A.k = B.k"}
    local = LocalJob(spec_of(race, more="SET held_limit = '250 B'; SET on_held_limit = 'release';"), race["shards"])
    got, want = run(race, local), expected(race)
    counted = sum(counters.out_of_order for counters in local.counters())
    for name, rows in want.items():
        assert sorted(got[name]) == sorted(rows)
        assert counted or [row[-1] for row in got[name]] == sorted(row[-1] for row in got[name])


def test_a_join_that_counts_rows_cannot_release_out_of_order():
    query = ONE.replace("10 microseconds", "10 ROWS")
    local = job("SET held_limit = '1 KB'; SET on_held_limit = 'release';", query=query)
    with pytest.raises(LimitError, match="nothing can leave out of order, since the join counts rows"):
        local.push({"A": times(0), "B": times(*range(100))})
