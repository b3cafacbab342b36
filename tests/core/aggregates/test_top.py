"""The first pairs of groups are those of the oracle (semantics, section 7), whatever the cuts, shards, restarts and
neighbours; and no more pairs are kept for them than can come to be among the first.

Tiny domains on purpose: ties, NULLs, equal pairs, and pairs that come and go at the same instant.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.aggregates.calls import GROUPS, both
from core.aggregates.test_aggregates import PLAIN, come_and_go, pairs_of, simulate, tuples
from muntin import oracle
from muntin.core.aggregates import labels
from muntin.core.batch import stream_schema
from muntin.model import JobSpec, Window
from muntin.plan.strategies import STRATEGIES
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, ORDERINGS, RESIDUALS, ROW, SELECTIONS, STREAMS, UNTILS, rows

VALUES = {
    "A.v": lambda p: p.left["v"],
    "B.v": lambda p: p.right["v"],
    "A.g": lambda p: p.left["g"],
    "B.g": lambda p: p.right["g"],
    "A.v + B.v": both,
    "B.v / 4": lambda p: None if p.right["v"] is None else p.right["v"] / 4,
    "A.ts": lambda p: p.left["ts"],
    "A.k": lambda p: p.left["k"],
}
SELECT = ["A.v", "B.g", "A.v + B.v", "A.k", "B.v / 4"]


def by(draw: st.DrawFn) -> tuple[str, oracle.By]:
    """A part of an order as SQL and for the oracle."""
    value, descending = draw(st.sampled_from(list(VALUES))), draw(st.booleans())
    nulls = draw(st.sampled_from(["", "", "NULLS FIRST", "NULLS LAST"]))
    first = nulls == "NULLS FIRST" if nulls else not descending
    return f"{value} {'DESC' if descending else ''} {nulls}", oracle.By(VALUES[value], descending, first)


@st.composite
def queries(draw: st.DrawFn, name: str, shape: dict) -> dict:
    """A query as SQL and in the oracle's terms; those of one shape are a family."""
    size, limit, every = draw(st.integers(1, 8)), draw(st.integers(1, 4)), shape["every"]
    window = Window(size + shape["delta"], size)
    selection = " AND ".join("(" + w.replace("{}", alias) + ")" for w, alias in zip(shape["where"], "AB", strict=True))
    columns = ", ".join(f"{column} AS c{n}" for n, column in enumerate(shape["select"]))
    group, times = shape["group"], shape["until"]
    until = ", ".join(time.replace("{}", alias) for time, alias in zip(times, "AB", strict=True) if time)
    sql = (
        f"CREATE QUERY {name} AS SELECT {columns} "
        f"FROM A [RANGE {window.left} microseconds] A, B [RANGE {window.right} microseconds] B "
        f"WHERE A.k = B.k AND {selection} AND {shape['residual']} {f'GROUP BY {group}' if group else ''} "
        f"ORDER BY {', '.join(text for text, _ in shape['order'])} LIMIT {limit} "
        f"{f'WINDOW UNTIL {until} ' if until else ''}"
        f"{'EMIT CHANGES' if every is None else f'EVERY {every} microseconds'};"
    )
    keys, untils = [g.strip() for g in group.split(",") if g], tuple(map(UNTILS.get, times))

    def answer(pairs: list) -> list:
        values = oracle.first(limit, [part for _, part in shape["order"]], [VALUES[c] for c in shape["select"]])
        found = []
        told = oracle.aggregate(window, pairs, GROUPS[group], values, every=every, untils=untils)
        for t, of, ranked in told:
            found += [(*row, n + 1, t) for n, row in enumerate(ranked)]
            if not ranked:
                known = dict(zip(keys, of, strict=True))
                found.append((*(known.get(column) for column in shape["select"]), 0, t))
        return found

    keeps = [SELECTIONS[w] for w in shape["where"]]
    terms = {"keeps": keeps, "holds": RESIDUALS[shape["residual"]], "untils": untils}
    return {"name": name, "sql": sql, "window": window, "answer": answer, **terms}


@st.composite
def shapes(draw: st.DrawFn) -> dict:
    return {
        "delta": draw(st.sampled_from([0, 0, 0, 2])),
        "every": draw(st.sampled_from([None, None, None, 1, 2, 5])),
        "where": [draw(st.sampled_from(["TRUE", "TRUE", *SELECTIONS])) for _ in "AB"],
        "residual": draw(st.sampled_from(["TRUE", "TRUE", *RESIDUALS])),
        "group": draw(st.sampled_from(list(GROUPS))),
        "until": [draw(st.sampled_from(["", "", *UNTILS])) for _ in "AB"],
        "order": [by(draw) for _ in range(draw(st.integers(1, 2)))],
        "select": draw(st.lists(st.sampled_from(SELECT), min_size=1, max_size=3, unique=True)),
    }


@st.composite
def scenarios(draw: st.DrawFn) -> dict:
    steps = draw(st.integers(1, 4))
    batches = [(draw(rows(2 * n)), draw(rows(2 * n))) for n in range(steps)]
    found = []
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(shapes())
        found += [draw(queries(f"q{len(found) + n}", shape)) for n in range(draw(st.integers(1, 3)))]
    return {
        "lateness": draw(st.sampled_from([0, 2, 20])),
        "batches": batches,
        "queries": found,
        "shards": draw(st.sampled_from([1, 2, 3])),
        "strategy": draw(st.sampled_from(STRATEGIES.names)),
        "ordering": draw(st.sampled_from(ORDERINGS)),
        "restarts": [draw(st.booleans()) for _ in batches],
    }


def job(scenario: dict, chosen: list[dict] | None = None) -> JobSpec:
    text = f"SET ordering = '{scenario['ordering']}';" + STREAMS.format(late=scenario["lateness"]) + PLAIN
    return parse_job(text + "\n".join(q["sql"] for q in (scenario["queries"] if chosen is None else chosen)))


def in_order(found: list[tuple]) -> list[tuple]:
    return sorted(found, key=lambda row: (row[-1], *((x is not None, x) for x in row[:-1])))


def ranks(found: list[tuple]) -> list[int]:
    return [row[-2] for row in found]


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(scenarios())
def test_the_first_pairs_are_the_oracles_whatever_the_cuts_shards_and_restarts(scenario):
    got, local = simulate(scenario, job(scenario), scenario["shards"], scenario["restarts"])
    for query in scenario["queries"]:
        found = got[query["name"]]
        assert in_order(found) == in_order(query["answer"](pairs_of(scenario, query)))
        assert [row[-1] for row in found] == sorted(row[-1] for row in found)
        assert all(b in (0, 1, a + 1) for a, b in zip([0, *ranks(found)], ranks(found), strict=False)), (
            "lists are whole"
        )
    for n in range(len(local.plan.joins)):
        for shard in local.shards[n]:
            assert shard.operator.counters.groups == 0 and not shard.log, "an ended job keeps nothing"
            for state in shard.operator.aggregates.states:
                assert state.candidates == state.main.cells == 0


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(scenarios(), st.data())
def test_queries_for_the_first_pairs_come_and_go(scenario, data):
    for query, got, due in come_and_go(scenario, data, lambda chosen: job(scenario, chosen)):
        assert in_order(got) == in_order(due), query["name"]


def _spec(*queries_: str, streams: str = STREAMS.format(late=0)) -> JobSpec:
    return parse_job(streams + "".join(f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(queries_)))


def _dense(count: int, first: int = 0) -> pa.Table:
    made = [{"ts": first + n, "id": first + n, "k": 1, "g": "x", "v": (first + n) * 7919 % 1009} for n in range(count)]
    return pa.Table.from_pylist(made, ROW)


def test_no_more_pairs_are_kept_than_can_come_to_be_among_the_first():
    """Of 2,000 live pairs about 5 * (1 + ln(2000 / 5)); and twelve windows keep no more than the longest alone."""
    text = "SELECT B.v, B.id FROM A [RANGE {w} microseconds] A, B [RANGE {w} microseconds] B WHERE A.k = B.k "
    text += "AND A.id % 100 = 0 GROUP BY A.k ORDER BY B.v DESC LIMIT {n}"
    alone = _spec(text.format(w=600, n=5))
    shared = _spec(*(text.format(w=50 * n, n=1 + n % 5) for n in range(1, 13)))
    counts = []
    for spec in (alone, shared):
        local, most = LocalJob(spec), 0
        for n in range(8):
            batch = _dense(300, 300 * n)
            local.push({"A": batch, "B": batch})
            (state,) = local.shards[0][0].operator.aggregates.states
            most = max(most, state.candidates)
        counters = local.counters()[0]
        assert counters.pairs > 10_000 and counters.aggregated == 2 * counters.pairs
        assert 20 < most < 80 and len(state._labels) < 3000
        counts.append((counters.aggregated, most))
    assert counts[0] == counts[1]


def test_the_pairs_behind_the_first_are_not_told(monkeypatch):
    """What leaves the shard are lists: of a pair that is not among the first, nothing."""
    local = LocalJob(_spec("SELECT A.id FROM A, B WHERE A.k = B.k GROUP BY A.g ORDER BY A.id LIMIT 2 WINDOW 9 s"))
    operator = local.shards[0][0].operator
    told = []
    advance = operator.aggregates.advance
    monkeypatch.setattr(operator.aggregates, "advance", lambda *args: told.append(advance(*args)) or told[-1])
    local.push({"A": _dense(100), "B": _dense(100)})
    ((values,),) = told
    assert operator.counters.pairs == 10_000
    assert values.values["entries"].column("t.0").to_pylist() == [0]
    assert values.table.num_rows < 10


def test_order_and_columns_of_every_type_are_as_in_spark():
    """NaN is the greatest number, both zeros are one, texts compare by their octets, NULL is first or last."""
    columns = {
        "d": ("DECIMAL(10,2)", [Decimal("1.10"), Decimal("-99999999.99"), None, Decimal("2.25")]),
        "w": ("DECIMAL(38,4)", [Decimal(10**33), Decimal("0.0001"), Decimal(-(10**33)), None]),
        "day": ("DATE", [date(2024, 2, 29), date(1969, 12, 31), None, date(2030, 1, 1)]),
        "at": ("TIMESTAMP", [datetime(2024, 1, 1, tzinfo=UTC), None, datetime(1901, 1, 1, tzinfo=UTC), None]),
        "ok": ("BOOLEAN", [None, True, False, True]),
        "f": ("DOUBLE", [math.inf, -2.25, None, -math.inf]),
        "t": ("TINYINT", [-128, 127, None, 5]),
        "s": ("STRING", ["a", "", "a\0b", "é"]),
        "x": ("BINARY", [b"a\0", b"a", None, b"\xff"]),
    }
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, {declared}) TIMESTAMP BY ts WITH (format = 'json', path = 'x');"
        for s in "AB"
    )
    cases = [(name, way) for name in columns for way in ("", "DESC", "NULLS LAST", "DESC NULLS FIRST")]
    spec = _spec(
        *(f"SELECT A.{name} AS v FROM A, B WHERE A.k = B.k ORDER BY 1 {way} LIMIT 9 WINDOW 5 s" for name, way in cases),
        streams=streams,
    )
    schema = stream_schema(spec.streams["A"])
    rows_ = [{"ts": 0, "k": 1, **{name: values[n] for name, (_, values) in columns.items()}} for n in range(4)]
    tables = {"A": pa.Table.from_pylist(rows_, schema), "B": pa.Table.from_pylist([{"ts": 0, "k": 1}], schema)}
    found = LocalJob(spec, 2).push(tables, ended=True)
    for n, (name, way) in enumerate(cases):
        values = columns[name][1]
        known = sorted((v for v in values if v is not None), reverse="DESC" in way)
        nulls = [None] * values.count(None)
        due = [*nulls, *known] if way in ("", "DESC NULLS FIRST") else [*known, *nulls]
        assert [row["v"] for row in found[f"q{n}"].to_pylist() if row["_rank"]] == due, (name, way)


def test_a_pair_that_only_a_larger_window_has_says_nothing_of_a_smaller_one():
    """A pair comes when it would just have left the smaller window; another one begins its list at that instant."""
    text = "SELECT A.k FROM A, B WHERE A.k = B.k GROUP BY A.k ORDER BY B.v DESC LIMIT 1 WINDOW {} microseconds"
    later, earlier = ({"ts": ts, "id": ts, "k": 1, "g": "x", "v": ts} for ts in (4, 1))
    tables = {"A": pa.Table.from_pylist([later], ROW), "B": pa.Table.from_pylist([earlier, later], ROW)}
    small, _ = LocalJob(_spec(text.format(3), text.format(4))).push(tables, ended=True).values()
    assert tuples(small) == [(1, 1, 4), (1, 0, 7)]


def test_a_group_without_pairs_is_told_once():
    query = "SELECT A.g, B.v, A.g AS again, 5 AS five FROM A, B WHERE A.k = B.k GROUP BY A.g ORDER BY B.v LIMIT 2 "
    local = LocalJob(_spec(query + "WINDOW 4 microseconds"), 2)
    made = [{"ts": t, "id": t, "k": 1, "g": "x", "v": t} for t in (0, 1, 9)]
    table = pa.Table.from_pylist(made, ROW)
    assert tuples(local.push({"A": table.slice(0, 1), "B": table}, ended=True)["q0"]) == [
        ("x", 0, "x", 5, 1, 0),
        ("x", 0, "x", 5, 1, 1),
        ("x", 1, "x", 5, 2, 1),
        ("x", None, "x", None, 0, 4),
    ]


def test_pairs_that_only_a_longer_window_has_are_not_in_the_way_of_a_shorter_one():
    """The greatest pair has left the short window when the second does: the end of that one is told all the same."""
    text = "SELECT A.v FROM A, B WHERE A.k = B.k GROUP BY A.k ORDER BY A.v DESC LIMIT 1 WINDOW {} microseconds"
    left = [{"ts": t, "id": 0, "k": 1, "g": "x", "v": v} for t, v in ((0, 9), (5, 7))]
    right = [{"ts": t, "id": 0, "k": 1, "g": "x", "v": 0} for t in (0, 5)]
    tables = {name: pa.Table.from_pylist(rows_, ROW) for name, rows_ in (("A", left), ("B", right))}
    found = LocalJob(_spec(text.format(4), text.format(50))).push(tables, ended=True)
    assert tuples(found["q0"]) == [(9, 1, 0), (None, 0, 4), (7, 1, 5), (None, 0, 9)]
    assert tuples(found["q1"]) == [(9, 1, 0), (7, 1, 50), (None, 0, 55)]


@pytest.mark.slow
def test_labels_that_are_spread_out_again_change_no_answer(monkeypatch):
    """Values that come always just before the last: there is soon no room for their labels."""
    select = "SELECT MIN(A.g) AS low, MAX(A.g) AS high FROM A, B WHERE A.k = B.k WINDOW 12 microseconds"
    first = "SELECT A.g, A.id FROM A, B WHERE A.k = B.k ORDER BY A.g, A.id DESC LIMIT 3 WINDOW 12 microseconds"
    made = [{"ts": n, "id": n, "k": 1, "g": "b" if n % 9 == 0 else "a" * n, "v": n} for n in range(60)]
    table, found, spread, again = pa.Table.from_pylist(made, ROW), [], [], labels.Labels._spread
    monkeypatch.setattr(labels.Labels, "_spread", lambda own: spread.append(labels.STEP) or again(own))
    for step in (labels.STEP, 4):
        monkeypatch.setattr(labels, "STEP", step)
        local, got = LocalJob(_spec(select, first)), {"q0": [], "q1": []}
        for n in range(61):
            batch = {} if n == 60 else {"A": table.slice(n, 1), "B": table.slice(n, 1)}
            for name, rows_ in local.push(batch, ended=n == 60).items():
                got[name] += tuples(rows_)
        found.append(got)
    assert found[0] == found[1] and len(found[0]["q0"]) > 40 and len(found[0]["q1"]) > 80
    assert spread.count(4) > 4
