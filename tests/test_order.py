"""Results in order over streams that are not (hammad2005): three orderings, the same rows in the same order, and what
each of them holds while one stream is behind."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import oracle
from muntin.core.local import LocalJob
from muntin.model import JobSpec, Window
from muntin.sql import parse_job
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
