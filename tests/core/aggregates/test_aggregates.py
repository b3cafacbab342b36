"""Aggregates over live pairs are those of the oracle (semantics, section 7), whatever the cuts, shards, restarts and
neighbours; and the work for them is shared.

Tiny domains on purpose: ties, NULLs, and pairs that come and go at the same instant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.aggregates.calls import CALLS, GROUPS, HAVING, Answer
from muntin import oracle
from muntin.core.batch import stream_schema
from muntin.core.results import ResultBatch
from muntin.model import JobSpec, Window
from muntin.plan import share
from muntin.plan.strategies import STRATEGIES
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, ORDERINGS, RESIDUALS, ROW, SELECTIONS, STREAMS, UNTILS, order_of, rows


def drawn(draw: st.DrawFn, name: str, groups: dict, when: str) -> dict:
    """An aggregate query that tells `when`, as SQL and in the oracle's terms."""
    size = draw(st.integers(1, 8))
    window = Window(size, draw(st.sampled_from([size, size, size, 1, 3, 6])))
    wheres = [draw(st.sampled_from(["TRUE", "TRUE", *SELECTIONS])) for _ in "AB"]
    residual = draw(st.sampled_from(["TRUE", "TRUE", *RESIDUALS]))
    group, having = draw(st.sampled_from(list(groups))), draw(st.sampled_from(["", "", *HAVING]))
    calls = draw(st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=3, unique=True))
    selection = " AND ".join("(" + w.replace("{}", alias) + ")" for w, alias in zip(wheres, "AB", strict=True))
    columns = [f"{call} AS c{n}" for n, call in enumerate(calls)]
    times = [draw(st.sampled_from(["", "", *UNTILS])) for _ in "AB"]
    until = ", ".join(time.replace("{}", alias) for time, alias in zip(times, "AB", strict=True) if time)
    until = f"WINDOW UNTIL {until}" if until else ""
    columns = [f"{g.strip()} AS g{n}" for n, g in enumerate(group.split(",")) if g] + columns
    sql = (
        f"CREATE QUERY {name} AS SELECT {', '.join(columns)} "
        f"FROM A [RANGE {window.left} microseconds] A, B [RANGE {window.right} microseconds] B "
        f"WHERE A.k = B.k AND {selection} AND {residual} {f'GROUP BY {group}' if group else ''} "
        f"{having} {until} {when};"
    )

    def values(pairs: list) -> Answer:
        found = Answer(CALLS[call](pairs) for call in calls)
        found.shown = HAVING[having](len(pairs))
        return found

    shape: dict = {"untils": tuple(map(UNTILS.get, times))}
    shape |= {"window": window, "keeps": [SELECTIONS[w] for w in wheres], "holds": RESIDUALS[residual]}
    return {"name": name, "sql": sql, "group": groups[group], "values": values, **shape}


@st.composite
def queries(draw: st.DrawFn, name: str) -> dict:
    """One that looks at live pairs; `answer` makes its rows of the pairs."""
    every = draw(st.sampled_from([None, None, None, 1, 2, 5]))
    query = drawn(draw, name, GROUPS, "EMIT CHANGES" if every is None else f"EVERY {every} microseconds")

    def answer(pairs: list) -> list:
        told = oracle.aggregate(
            query["window"], pairs, query["group"], query["values"], lambda found: found.shown, every,
            untils=query["untils"],
        )  # fmt: skip
        return [(*group, *found, t) for t, group, found in told]

    return {**query, "answer": answer}


@st.composite
def scenarios(draw: st.DrawFn) -> dict:
    steps = draw(st.integers(1, 4))
    batches = [(draw(rows(2 * n)), draw(rows(2 * n))) for n in range(steps)]
    return {
        "lateness": draw(st.sampled_from([0, 2, 20])),
        "batches": batches,
        "queries": [draw(queries(f"q{n}")) for n in range(draw(st.integers(1, 4)))],
        "shards": draw(st.sampled_from([1, 2, 3])),
        "strategy": draw(st.sampled_from(STRATEGIES.names)),
        "ordering": draw(st.sampled_from(ORDERINGS)),
        "restarts": [draw(st.booleans()) for _ in batches],
        "beside": draw(st.booleans()),
    }


PLAIN = "CREATE QUERY plain AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k AND A.v > 1 WINDOW 4 microseconds;"


def job(scenario: dict, chosen: list[dict] | None = None) -> JobSpec:
    beside = PLAIN if scenario["beside"] else ""
    text = f"SET ordering = '{scenario['ordering']}';" + STREAMS.format(late=scenario["lateness"]) + beside
    return parse_job(text + "\n".join(q["sql"] for q in (chosen or scenario["queries"])))


def simulate(scenario: dict, spec: JobSpec, shards: int, restarts: list[bool]) -> tuple[dict[str, list], LocalJob]:
    """Each query's rows as tuples in output order."""
    local = LocalJob(spec, shards, share(spec, scenario["strategy"]))
    got: dict[str, list] = {name: [] for name in spec.queries}
    for batch, restart in zip([*scenario["batches"], None], [*restarts, False], strict=True):
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, ROW) for s, r in zip("AB", batch, strict=True)}
        for name, table in local.push(tables, ended=batch is None).items():
            got[name] += tuples(table)
        if restart:
            local.restart()
    return got, local


def tuples(table: pa.Table) -> list[tuple]:
    at = table.column_names.index("_ts")
    columns = table.set_column(at, "_ts", table["_ts"].cast(pa.int64())).columns
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


def pairs_of(scenario: dict, query: dict) -> list:
    sides = [[batch[side] for batch in scenario["batches"]] for side in (0, 1)]
    admitted = [oracle.admit(side, scenario["lateness"])[0] for side in sides]
    key = oracle.columns("k")
    terms = {"holds": query["holds"], "untils": query["untils"]}
    return oracle.answer(query["window"], *admitted, (key, key), tuple(query["keeps"]), **terms)


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(scenarios())
def test_every_aggregate_is_the_oracles_whatever_the_cuts_shards_and_restarts(scenario):
    got, local = simulate(scenario, job(scenario), scenario["shards"], scenario["restarts"])
    for query in scenario["queries"]:
        found = got[query["name"]]
        assert sorted(found, key=order_of) == sorted(query["answer"](pairs_of(scenario, query)), key=order_of)
        assert [row[-1] for row in found] == sorted(row[-1] for row in found)
    for n in range(len(local.plan.joins)):
        for shard in local.shards[n]:
            assert shard.operator.counters.groups == 0 and not shard.log, "an ended job keeps nothing"
            for state in shard.operator.aggregates.states:
                layers = [state.main, *state._within]
                assert all(layer.cells == layer.live == 0 for layer in layers)
                assert all(not layer.sums.ints.any() and not layer.sums.doubles.any() for layer in layers)


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(scenarios(), st.data())
def test_aggregates_come_and_go_with_the_oracles_rows_for_the_time_they_are_there(scenario, data):
    """From when on an added one is complete, all of its rows are the oracle's: live pairs are found again."""
    keep = {**scenario, "beside": True}
    for query, got, due in come_and_go(scenario, data, lambda chosen: job(keep, chosen or [{"sql": ""}])):
        assert sorted(got, key=order_of) == sorted(due, key=order_of), query["name"]


def come_and_go(scenario: dict, data: st.DataObject, spec: Callable[[list[dict]], JobSpec]) -> Iterator[tuple]:
    """Let the queries be there for a while each, beside `plain`: each with the rows that it got and those due."""
    scenario["strategy"] = data.draw(st.sampled_from([s for s in STRATEGIES.names if s != "push-down"]))
    steps = len(scenario["batches"])
    stays = {
        q["name"]: sorted(data.draw(st.tuples(st.integers(0, steps), st.integers(0, steps + 1))))
        for q in scenario["queries"]
    }
    local, present = LocalJob(spec([]), scenario["shards"]), set()
    asked: dict[str, dict] = {}
    for n, batch in enumerate([*scenario["batches"], None]):
        wanted = {name for name, (first, last) in stays.items() if first <= n < last}
        if wanted != present:
            release = local.shards[0][0].operator.release
            for name in present - wanted:
                asked[name]["until"] = release
            chosen = [q for q in scenario["queries"] if q["name"] in wanted]
            for name, changed in local.change(spec(chosen)).items():
                complete = changed.complete_from[name]
                asked[name] = {"since": max(changed.applied_from - (n == 0), complete), "until": 1 << 61, "got": []}
            present = wanted
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, ROW) for s, r in zip("AB", batch, strict=True)}
        for name, table in local.push(tables, ended=batch is None).items():
            if name != "plain":
                asked[name]["got"] += tuples(table)
        if batch is not None and scenario["restarts"][n]:
            local.restart()
    for query in scenario["queries"]:
        if (there := asked.get(query["name"])) is not None:
            # at the very instant from which it is complete, what was before is not known to be so
            every = query["answer"](pairs_of(scenario, query))
            due = [row for row in every if there["since"] < row[-1] < there["until"]]
            yield query, [row for row in there["got"] if row[-1] > there["since"]], due


def _dense(count: int, spacing: int, keys: int = 1, first: int = 0) -> pa.Table:
    made = [{"ts": (first + n) * spacing, "id": n, "k": n % keys, "g": "x", "v": n * 7 % 13} for n in range(count)]
    return pa.Table.from_pylist(made, ROW)


def _job(*queries_: str, settings_: str = "") -> JobSpec:
    named = (f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(queries_))
    return parse_job(settings_ + STREAMS.format(late=0) + "".join(named))


def _windows(sizes: list[int], select: str, rest: str = "") -> JobSpec:
    return _job(*(f"SELECT {select} FROM A, B WHERE A.k = B.k {rest} WINDOW {w} microseconds" for w in sizes))


@pytest.mark.parametrize("rest", ["GROUP BY A.k", "EVERY 10 microseconds"])
def test_twelve_windows_add_each_pair_up_twice_and_not_twelve_times(rest):
    select = "COUNT(*) AS n, SUM(A.v) AS s, MAX(B.v) AS top"
    tables = {"A": _dense(200, 3, 4), "B": _dense(200, 3, 4)}
    work = []
    for sizes in ([60], [5 * n for n in range(1, 13)]):
        spec = _windows(sizes, select, rest) if "GROUP" in rest else _job(
            *(f"SELECT {select} FROM A, B WHERE A.k = B.k WINDOW {w} microseconds {rest}" for w in sizes))  # fmt: skip
        local = LocalJob(spec)
        local.push(tables, ended=True)
        counters = local.counters()[0]
        assert counters.pairs > 1000 and counters.aggregated <= 2 * counters.pairs
        work.append(counters.aggregated)
    assert work[0] == work[1]


def test_the_pairs_of_aggregate_queries_do_not_leave_the_shard(monkeypatch):
    aggregate = "SELECT COUNT(*) AS n FROM A, B WHERE A.k = B.k WINDOW 30 microseconds"
    pairs = "SELECT A.id AS a FROM A, B WHERE A.k = B.k AND A.v = 3 WINDOW 6 microseconds"
    for queries_, some in (((aggregate,), False), ((aggregate, pairs), True)):
        local = LocalJob(_job(*queries_))
        shard = local.shards[0][0]
        sent: list[ResultBatch] = []
        monkeypatch.setattr(ResultBatch, "merge", lambda runs, sent=sent: sent.extend(runs) or runs[0])
        found = local.push({"A": _dense(100, 3), "B": _dense(100, 3)}, ended=True)
        assert len(sent[0]) == (found["q1"].num_rows if some else 0)
        assert found["q0"].num_rows > 10 and shard.operator.counters.pairs > len(sent[0])


def test_many_groups_are_counted_and_given_back():
    local = LocalJob(_job("SELECT A.k, COUNT(*) AS n, MIN(B.v) AS low FROM A, B WHERE A.k = B.k GROUP BY A.k "
                          "WINDOW 50 microseconds"))  # fmt: skip
    for n in range(20):
        batch = _dense(2000, 1, 10**6, 2000 * n)
        local.push({"A": batch, "B": batch})
    counters, state = local.counters()[0], local.shards[0][0].operator.aggregates.states[0]
    assert counters.groups == 51, "of the window, and of the release point, at which more may come"
    assert counters.aggregated == 2 * counters.pairs == 80_000
    assert state.main._room <= 4096 and state._groups._end <= 8192, "room follows the groups that are there"
    local.push({}, ended=True)
    assert counters.groups == 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 40])
def test_work_and_rows_do_not_depend_on_the_size_of_micro_batches(size):
    spec, table = _windows([30, 9], "COUNT(*) AS n, MAX(A.v) AS top, COUNT(DISTINCT B.v) AS d"), _dense(40, 3)
    whole, cut = LocalJob(spec, 1), LocalJob(spec, 2)
    wanted = whole.push({"A": table, "B": table}, ended=True)
    got: dict[str, list] = {name: [] for name in wanted}
    for start in range(0, 40 + size, size):
        batch = {} if start >= 40 else {"A": table.slice(start, size), "B": table.slice(start, size)}
        for name, rows_ in cut.push(batch, ended=start >= 40).items():
            got[name] += tuples(rows_)
    for name, rows_ in wanted.items():
        assert got[name] == tuples(rows_) and rows_.num_rows > 20
    assert sum(c.aggregated for c in cut.counters()) == whole.counters()[0].aggregated


def test_a_sum_that_does_not_fit_is_a_fault_for_as_long_as_it_does_not():
    spec = _job("SELECT A.g, SUM(A.id) AS s FROM A, B WHERE A.k = B.k GROUP BY A.g WINDOW 10 microseconds")
    big = (1 << 62) + 5
    left = [{"ts": t, "id": big, "k": 1, "g": "x", "v": 0} for t in (0, 4, 8)]
    local = LocalJob(spec, 2)
    right = pa.Table.from_pylist([{"ts": 0, "id": 0, "k": 1, "g": "x", "v": 0}], ROW)
    found = local.push({"A": pa.Table.from_pylist(left, ROW), "B": right}, ended=True)["q0"]
    assert tuples(found) == [("x", big, 0), ("x", None, 10)]
    faults = local.faults["q0"][0].to_pylist()
    assert [f["_ts"].microsecond for f in faults] == [4, 8]
    assert faults[0]["g.0"] == "x" and faults[0]["_fault"] == "overflow: SUM(A.id) does not fit into bigint"


def test_doubles_leave_no_trace_when_they_go():
    """Sums are exact within 106 bits and rounded once: nobody can see the order of additions, or an infinity gone."""
    query = "SELECT SUM(A.v) AS s, MAX(A.v) AS top FROM A, B WHERE A.k = B.k WINDOW 10 microseconds"
    schema, values = (
        ROW.set(4, pa.field("v", pa.float64())),
        [0.1, 1e12, 0.2, math.inf, 0.3, math.nan, -1e12, 0.1, 0.7],
    )
    left = [{"ts": 6 * n, "id": n, "k": 1, "g": "x", "v": v} for n, v in enumerate(values)]
    right = [{"ts": t, "id": 0, "k": 1, "g": "x", "v": 0.0} for t in range(0, 60, 5)]
    spec = parse_job(STREAMS.format(late=0).replace("v BIGINT", "v DOUBLE") + f"CREATE QUERY q AS {query};")
    tables = {name: pa.Table.from_pylist(rows_, schema) for name, rows_ in (("A", left), ("B", right))}
    found = LocalJob(spec, 1).push(tables, ended=True)["q"]

    def said(live: list) -> str:
        known_ = [p.left["v"] for p in live]
        top = max(known_, key=lambda v: (math.isnan(v), v), default=None)
        return str((math.fsum(known_) if known_ else None, top))

    key = oracle.columns("k")
    pairs = oracle.answer(Window(10, 10), left, right, (key, key))
    wanted = oracle.aggregate(Window(10, 10), pairs, lambda p: (), said)
    assert [(row[-1], str(row[:2])) for row in tuples(found)] == [(t, v) for t, _, v in wanted]
    assert len(wanted) > 12


def test_distinct_rows_are_told_when_they_appear():
    local = LocalJob(_job("SELECT DISTINCT A.g, B.v FROM A, B WHERE A.k = B.k WINDOW 4 microseconds"), 2)
    left = [{"ts": t, "id": t, "k": 1, "g": g, "v": 0} for t, g in ((0, "x"), (1, "x"), (2, None), (9, "x"))]
    right = [{"ts": t, "id": t, "k": 1, "g": "y", "v": 7} for t in (0, 2, 9)]
    tables = {name: pa.Table.from_pylist(rows_, ROW) for name, rows_ in (("A", left), ("B", right))}
    assert tuples(local.push(tables, ended=True)["q0"]) == [("x", 7, 0), (None, 7, 2), ("x", 7, 9)]


def test_values_of_every_type_come_back_as_they_were():
    columns = {
        "d": ("DECIMAL(10,2)", [Decimal("1.10"), Decimal("-99999999.99"), None, Decimal("2.25")]),
        "w": ("DECIMAL(38,4)", [Decimal(10**33), Decimal("0.0001"), Decimal(-(10**33)), None]),
        "day": ("DATE", [date(2024, 2, 29), date(1969, 12, 31), None, date(2030, 1, 1)]),
        "at": ("TIMESTAMP", [datetime(2024, 1, 1, tzinfo=UTC), None, datetime(1901, 1, 1, tzinfo=UTC), None]),
        "ok": ("BOOLEAN", [None, True, False, True]),
        "f": ("FLOAT", [1.5, -2.25, None, float("-inf")]),
        "t": ("TINYINT", [-128, 127, None, 5]),
        "b": ("BIGINT", [-(1 << 63), (1 << 63) - 1, None, 0]),
        "s": ("STRING", ["z", "", None, "zé"]),
        "x": ("BINARY", [b"a\0", b"a", None, b"\xff"]),
    }
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    streams = "".join(
        f"CREATE STREAM {s} (ts TIMESTAMP, k BIGINT, {declared}) TIMESTAMP BY ts WITH (format = 'json', path = 'x');"
        for s in "AB"
    )
    calls = [f"{call}(A.{name}) AS {call}_{name}" for name in columns if name != "w" for call in ("MIN", "MAX")]
    calls += [f"SUM(A.{name}) AS SUM_{name}" for name in "dwtb"] + ["AVG(A.d) AS AVG_d", "AVG(A.t) AS AVG_t"]
    query = f"CREATE QUERY q AS SELECT {', '.join(calls)} FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;"
    spec = parse_job(streams + query)
    schema = stream_schema(spec.streams["A"])
    rows_ = [{"ts": 0, "k": 1, **{name: values[n] for name, (_, values) in columns.items()}} for n in range(4)]
    tables = {"A": pa.Table.from_pylist(rows_, schema), "B": pa.Table.from_pylist([{"ts": 0, "k": 1}], schema)}
    found = LocalJob(spec, 1).push(tables, ended=True)["q"].to_pylist()[0]
    for name, (_, values) in columns.items():
        if name == "w":
            continue  # too wide to be compared
        there = [v for v in values if v is not None]
        assert (found[f"MIN_{name}"], found[f"MAX_{name}"]) == (min(there), max(there)), name
    assert found["SUM_d"] == Decimal("-99999996.64") and found["SUM_w"] == Decimal("0.0001")
    assert found["SUM_t"] == 4 and found["SUM_b"] == -1
    assert found["AVG_d"] == Decimal("-33333332.213333") and found["AVG_t"] == pytest.approx(4 / 3)


def test_the_same_expression_may_be_written_in_several_ways():
    calls = "MIN(A.v) AS a, MAX(a.V) AS b, SUM(A.v) AS c, COUNT(a.v) AS d, MIN(A.g) AS e, MAX(a.G) AS f"
    spec = _job(f"SELECT {calls} FROM A, B WHERE A.k = B.k WINDOW 5 microseconds")
    left = [{"ts": 0, "id": n, "k": 1, "g": "xyz"[n], "v": n} for n in range(3)]
    tables = {name: pa.Table.from_pylist(rows_, ROW) for name, rows_ in (("A", left), ("B", left[:1]))}
    assert tuples(LocalJob(spec).push(tables, ended=True)["q0"])[0] == (0, 2, 3, 3, "x", "z", 0)


@pytest.mark.slow
def test_a_million_groups_keep_no_more_than_those_of_the_window():
    """State and count follow the groups that are live, and what is told those that change."""
    calls = "SELECT A.id, COUNT(*) AS n, MAX(B.v) AS top FROM A, B WHERE A.k = B.k GROUP BY A.id WINDOW 100 ms"
    first = "SELECT A.k, B.v FROM A, B WHERE A.k = B.k GROUP BY A.k ORDER BY B.v LIMIT 3 WINDOW 100 ms"
    local, size, rows_, sizes = LocalJob(_job(calls, first), checks=False), 100_000, [0, 0], []
    for start in range(0, 1_000_000, size):
        ids = np.arange(start, start + size)
        columns = [pa.array(ids), pa.array(ids), pa.array(ids), pa.nulls(size, pa.string()), pa.array(ids % 7)]
        table = pa.table(columns, names=ROW.names).cast(ROW)
        found = local.push({"A": table, "B": table})
        rows_ = [n + found[name].num_rows for n, name in zip(rows_, found, strict=True)]
        states = local.shards[0][0].operator.aggregates.states
        assert [state.main.live for state in states] == [min(start, 1) + size] * 2
        sizes.append([state.nbytes for state in states])
    assert local.counters()[0].groups == 2 * (size + 1)
    for early, late in zip(np.max(sizes[:4], axis=0), np.max(sizes[4:], axis=0), strict=True):
        assert late <= 1.1 * early and late < 700 * size
    assert rows_ == [2 * 1_000_000 - size - 2] * 2, "each group appears and goes"
