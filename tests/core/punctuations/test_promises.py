"""What promises free, what they cost, and that what is remembered of them stays bounded: by counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from muntin.core.punctuations import NoPromises
from muntin.core.punctuations.compaction import SLACK
from muntin.kernels.promises import Table
from muntin.model import JobSpec, Side, UsageError
from muntin.plan import make_plan
from muntin.plan.explain import describe, explain
from muntin.plan.punctuation import punctuates_no_key, rows_after
from muntin.sql import parse_job, parse_query
from muntin.testing.local_job import LocalJob

ROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("closed", pa.bool_())])


def job(window: int = 100, a: str = "", b: str = "", unique: str = "", how: str = "pwjoin", key: str = "k") -> JobSpec:
    """Two streams that promise as `a` and `b` say; `unique` names those with UNIQUE (k)."""
    streams = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN"
        f"{', UNIQUE (k)' if name in unique else ''}) TIMESTAMP BY ts {clause} WITH (format = 'x', path = 'y');"
        for name, clause in (("A", a), ("B", b))
    )
    equal = " AND ".join(f"A.{column} = B.{column}" for column in key.split())
    query = f"SELECT A.id AS a, B.id AS b FROM A, B WHERE {equal} WINDOW {window} microseconds;"
    return parse_job(f"SET punctuations = '{how}';{streams}CREATE QUERY q AS {query}")


MARKS = "PUNCTUATION WHEN closed"


def rows(*of: tuple) -> pa.Table:
    """(time, key) is a row, (time, key, True) a punctuation."""
    return pa.Table.from_pylist(
        [{"ts": r[0], "id": n, "k": r[1], "closed": len(r) > 2} for n, r in enumerate(of)], schema=ROW
    )


def many(ts: np.ndarray, keys: np.ndarray, closed: bool = False) -> pa.Table:
    columns = [pa.array(ts).cast(ROW.field("ts").type), np.arange(len(ts)), keys, np.full(len(ts), closed)]
    return pa.table(columns, schema=ROW)


def test_a_promise_purges_stored_rows_and_spares_the_state_those_to_come():
    local = LocalJob(job(a=MARKS))
    local.push({"A": rows((1, 7), (5, 7, True), (20, 8)), "B": rows((2, 7), (3, 7), (4, 8), (20, 9))})
    counters = local.counters()[0]
    assert counters.purged == [0, 2] and counters.state_rows == [2, 2]
    local.push({"A": rows((30, 9)), "B": rows((21, 7), (22, 7), (30, 9))})
    assert counters.dropped == [0, 2] and counters.state_rows == [3, 3]
    assert counters.pairs == 2 + 1 + 2 + 2, "rows of a promised key still find what is there"
    assert counters.broken == [0, 0]


def test_rows_that_come_after_the_output_is_over_do_not_even_probe():
    local = LocalJob(job(window=10, a=MARKS + " BINDING 100 microseconds"))
    local.push({"A": rows((1, 7), (2, 7, True), (50, 8)), "B": rows((3, 7), (50, 8))})
    before = local.counters()[0].probes
    assert local.punctuations["q"][0].to_pylist()[0]["rule"] == "early"
    local.push({"A": rows((60, 8)), "B": rows((51, 7), (52, 7), (60, 8))})
    counters = local.counters()[0]
    assert counters.silent == 2 and counters.probes == before + 2


def test_unique_rows_promise_by_themselves_and_a_second_one_is_turned_away():
    local = LocalJob(job(unique="A"))
    local.push({"A": rows((1, 7), (1, 7), (3, 8), (9, 7)), "B": rows((2, 7), (4, 7), (9, 9))})
    counters = local.counters()[0]
    assert counters.broken == [1, 0] and counters.pairs == 2 and counters.inserted == [2, 1]
    assert counters.dropped == [0, 2], "no row of B waits for a key that has come"
    assert [t["id"].to_pylist() for t in local.refused["A"]] == [[1]]
    local.restart()
    local.push({"A": rows((9, 7)), "B": rows()})
    assert [t["id"].to_pylist() for t in local.refused["A"]] == [[1]], "others of that time may come"
    local.push({"A": rows((10, 9)), "B": rows((10, 8))})
    assert [t["id"].to_pylist() for t in local.refused["A"]] == [[1], [3, 0]]
    assert local.counters()[0].broken == [3, 0]


def test_a_broken_promise_is_reported_once_where_a_join_that_waits_for_ties_takes_over():
    """The as-of join releases results up to just before the frontier; the row is before it for both joins alike."""
    pairs = job(unique="B", b="LATENESS 2 microseconds")
    asof = parse_query(
        "CREATE QUERY last AS SELECT A.id AS a FROM A ASOF JOIN B ON A.k = B.k AND A.ts >= B.ts WINDOW 9 microseconds",
        pairs,
    )
    both = replace(
        pairs, queries={**pairs.queries, "last": asof}, settings=replace(pairs.settings, strategy="isolated")
    )
    local = LocalJob(both)
    local.push({"A": rows((7, 2)), "B": rows((3, 1), (4, 1), (7, 2))})
    assert [t["id"].to_pylist() for t in local.refused["B"]] == [[1]]
    local.change(replace(both, queries={"last": asof}))
    local.push({}, ended=True)
    assert [t["id"].to_pylist() for t in local.refused["B"] if t.num_rows] == [[1]]


def test_a_unique_row_and_a_punctuation_of_its_time_are_one_promise_also_after_a_restart():
    found = []
    for restarts in (False, True):
        local = LocalJob(job(unique="A", a=MARKS))
        local.push({"A": rows((1, 7), (1, 7, True), (4, 8)), "B": rows((4, 9))})
        if restarts:
            local.restart()
        found.append(local.push({"B": rows((5, 7))}, ended=True)["q"].num_rows)
    assert found == [1, 1]


def test_broken_malformed_and_unheard_punctuations_are_told_apart():
    local = LocalJob(job(a=MARKS))
    local.push({"A": rows((1, 7, True), (2, 7), (3, None, True), (9, 9)), "B": rows((2, 7), (9, 9))})
    reasons = [r for t in local.refused["A"] for r in t["_reason"].to_pylist()]
    assert reasons == ["punctuation: it is about no value", "broken: the stream had promised no more of this key"]
    assert local.counters()[0].malformed == [1, 0] and local.counters()[0].broken == [1, 0]
    other = job(a=MARKS + " FOR id", b=MARKS + " FOR (k, id)")
    assert [punctuates_no_key(make_plan(other), s) for s in other.streams.values()] == [True, True]
    assert not punctuates_no_key(make_plan(job(a=MARKS)), job(a=MARKS).streams["A"])


@pytest.mark.parametrize("about", ["FOR k IN (k, id)", "FOR k BETWEEN k AND id"])
def test_lists_and_ranges_purge_the_keys_that_they_are_about(about):
    local = LocalJob(job(a=f"{MARKS} {about}"))
    marks = pa.table([pa.array([50]).cast(ROW.field("ts").type), [7], [3], [True]], schema=ROW)
    b = many(np.arange(40), np.arange(40) % 10)
    local.push({"A": pa.concat_tables([marks, rows((60, 99))]), "B": pa.concat_tables([b, rows((60, 5))])})
    keys = 5 if "BETWEEN" in about else 2
    counters = local.counters()[0]
    assert counters.purged == [0, 4 * keys]
    assert counters.dropped == [0, 1 if "BETWEEN" in about else 0]


EVERY = MARKS + " FOR * BINDING 1 second"


@pytest.mark.parametrize("key", ["k", "k id"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_wildcard_frees_all_rows_of_the_other_stream_and_spares_the_state_those_to_come(key, shards):
    local = LocalJob(job(a=EVERY, key=key), shards)
    local.push({"A": rows((1, 7), (2, 8), (9, None, True)), "B": rows((3, 7), (4, 8), (5, 9), (10, 8))})
    assert _sum(local, "purged") == [0, 3], "also those whose key A never had"
    assert _sum(local, "state_rows") == [2, 0] and _sum(local, "dropped") == [0, 1]


def _sum(local: LocalJob, counter: str) -> list[int]:
    return [sum(getattr(c, counter)[side] for c in local.counters()) for side in Side]


def test_nobody_waits_for_a_stream_whose_last_word_is_a_wildcard():
    waits, goes_on = (LocalJob(job(a=about)) for about in (MARKS + " BINDING 1 second", EVERY))
    for local, found, held in ((waits, 0, 3), (goes_on, 1, 0)):
        assert local.push({"A": rows((1, 7), (9, 7, True)), "B": rows((3, 7))})["q"].num_rows == 1
        for ts in (20, 50):
            assert local.push({"B": rows((ts, 7))})["q"].num_rows == found
        local.restart()
        assert local.push({"B": rows((60, 7))})["q"].num_rows == found
        assert local.counters()[0].held_rows == [0, held]
    late = goes_on.push({"A": rows((5, 7), (70, 7), (80, 8))})["q"]
    assert late.num_rows == 0 and [t["id"].to_pylist() for t in goes_on.late["A"] if t.num_rows] == [[0]]
    assert [t["id"].to_pylist() for t in goes_on.refused["A"]] == [], "the stream speaks again: B waits for it"
    goes_on.push({"B": rows((90, 9))})
    assert [t["id"].to_pylist() for t in goes_on.refused["A"]] == [[1]], "rows of the release point wait"
    goes_on.push({}, ended=True)
    assert [t["id"].to_pylist() for t in goes_on.refused["A"]] == [[1], [2]], "both broke the promise"


def test_rows_up_to_a_wildcard_that_come_after_it_do_not_make_the_other_stream_wait():
    local = LocalJob(job(a="LATENESS 8 microseconds " + EVERY))
    local.push({"A": rows((9, 1, True)), "B": rows((3, 7))})
    assert local.push({"A": rows((8, 7)), "B": rows((30, 7))})["q"]["_ts"].cast(pa.int64()).to_pylist() == [8, 30]
    assert local.counters()[0].held_rows == [0, 0]


def test_a_wildcard_ends_the_outputs_of_keys_that_have_a_row():
    local = LocalJob(job(window=5, a=EVERY))
    local.push({"A": rows((1, 7), (8, 8), (9, 1, True)), "B": rows((3, 7), (4, 6), (40, 5))})
    told = [
        (r["k"], int(r["_ts"].timestamp() * 1e6), r["rule"]) for t in local.punctuations["q"] for r in t.to_pylist()
    ]
    assert told == [(8, 12, "early")], "of the others no row was left that could have been met"


@pytest.mark.parametrize("about", ["FOR k IN ()", "FOR k BETWEEN id + 1 AND id", "FOR k IN (CAST(NULL AS BIGINT))"])
@pytest.mark.parametrize("shards", [1, 3])
def test_an_empty_pattern_says_nothing_but_how_far_the_stream_has_come(about, shards):
    local = LocalJob(job(a=f"{MARKS} {about}"), shards)
    assert local.push({"A": rows((1, 7)), "B": rows((2, 7), (50, 8))})["q"].num_rows == 0
    assert local.push({"A": rows((30, 7, True))})["q"].num_rows == 1, "the frontier has moved"
    local.push({"A": rows((20, 7), (40, 7, True), (41, 7))})
    for name in ("purged", "dropped", "broken", "malformed", "punctuations", "promises"):
        assert _sum(local, name) == [0, 0], name
    assert sum(t.num_rows for t in local.refused["A"]) == 0
    assert [t["id"].to_pylist() for t in local.late["A"] if t.num_rows] == [[0]]
    spec = job(a=f"{MARKS} {about}")
    assert not punctuates_no_key(make_plan(spec), spec.streams["A"])


def test_an_empty_pattern_that_is_late_is_told_once():
    local = LocalJob(job(a=MARKS + " FOR k BETWEEN id + 1 AND id"), 3)
    local.push({"A": rows((30, 7)), "B": rows((2, 7))})
    local.push({"A": rows((20, 7, True))})
    assert sum(t.num_rows for t in local.late["A"]) == 1


def test_a_range_without_an_end_is_a_fault():
    local = LocalJob(job(a=MARKS + " FOR k BETWEEN CAST(NULL AS BIGINT) AND id"))
    local.push({"A": rows((1, 7, True)), "B": rows((1, 7))})
    assert local.counters()[0].malformed == [1, 0]


def test_pjoin_is_not_content_with_punctuations_about_nothing():
    with pytest.raises(UsageError, match="promises nothing"):
        make_plan(job(how="pjoin", a=MARKS, b=MARKS + " FOR k IN ()"))


def test_without_promises_there_is_nothing_to_look_after():
    plain, off = LocalJob(job()), LocalJob(job(a=MARKS, b=MARKS, unique="A", how="off"))
    for local in (plain, off):
        assert type(local.shards[0][0].operator.promises) is NoPromises
        local.push({"A": rows((1, 7), (3, 7)), "B": rows((2, 7), (3, 7))})
    assert plain.counters() == off.counters()
    off.push({"A": rows((4, 7, True), (5, 7)), "B": rows((5, 7))})
    assert off.counters()[0].arrived == [3, 3], "a punctuation is no data, used or not"
    assert off.counters()[0].broken == [0, 0]


@pytest.mark.parametrize("how", ["off", "pwjoin"])
def test_aggregates_begin_with_the_live_pairs_unless_promises_may_have_freed_their_rows(how):
    """Also beside other aggregates: rows may have been freed before these came."""
    live = "SELECT count(*) AS n FROM A, B WHERE A.k = B.k WINDOW 100 microseconds EMIT CHANGES;"
    local, spec = LocalJob(job(a=MARKS, how=how)), job(a=MARKS, how=how)
    local.push({"A": rows((1, 7), (2, 8, True)), "B": rows((1, 8), (3, 7))})
    release = local.shards[0][0].operator.release
    filled = 3 + 1 + 100
    for name in ("first", "second"):
        spec = replace(spec, queries={**spec.queries, name: parse_query(f"CREATE QUERY {name} AS {live}", spec)})
        assert local.change(spec)[name].complete_from == {name: release + 1 if how == "off" else filled}


def test_irrelevant_promises_cost_a_look_each_and_nothing_else():
    ts = np.arange(0, 3000, 3)
    data = {"A": many(ts, ts % 50), "B": many(ts, ts % 50)}
    plain, promised = LocalJob(job()), LocalJob(job(a=MARKS, b=MARKS))
    marks = many(ts[::30], -ts[::30] - 1, closed=True)
    plain.push(data)
    promised.push({name: pa.concat_tables([table, marks]) for name, table in data.items()})
    one, two = plain.counters()[0], promised.counters()[0]
    for name in ("probes", "comparisons", "inserted", "expired", "pairs", "state_rows"):
        assert getattr(one, name) == getattr(two, name), name
    assert two.punctuations == [34, 34] and two.purged == two.dropped == [0, 0]


@pytest.mark.slow
def test_a_million_promises_about_keys_never_seen_leave_no_trace_once_they_have_lapsed():
    local = LocalJob(job(window=20_000, a=MARKS))
    counts, sizes = [], []
    for step in range(50):
        ts = step * 20_000 + np.arange(20_000)
        marks = many(ts, 10**9 + ts, closed=True)
        local.push({"A": marks, "B": many(ts[-1:], ts[-1:])})
        operator = local.shards[0][0].operator
        counts.append(operator.promises.count[0])
        sizes.append(operator.nbytes)
    assert sum(local.counters()[0].punctuations) == 1_000_000
    assert max(counts) <= 2.5 * 20_000, "those of the binding time and half of it, and of one micro-batch"
    assert max(sizes[25:]) <= 1.5 * max(sizes[:25])
    assert sum(table.num_rows for table in local.shards[0][0].log.values()) < 5 * 20_000


@pytest.mark.slow
def test_no_more_rows_lie_dead_than_live_and_a_few_thousand():
    """Each key comes once in A; the rows of B that follow are freed at once, however long their window."""
    local = LocalJob(job(window=10**9, unique="A", b=MARKS))
    operator = local.shards[0][0].operator
    for step in range(20):
        ts = step * 5000 + np.arange(5000)
        closed = many(ts[:1000] + 4000, ts[:1000] - 5000, closed=True)
        data = {"A": many(ts[:1000], ts[:1000]), "B": pa.concat_tables([many(ts, ts - ts % 5), closed])}
        local.push(data)
        if step == 10:
            local.restart()
            operator = local.shards[0][0].operator
        for side in Side:
            stored = sum(rows_ for name, (_, _, rows_) in operator.chunks.live.items() if name[1].isdigit()
                         and name[0] == "lr"[side])  # fmt: skip
            assert stored <= 2 * operator.state.rows(side) + SLACK + 6000
            assert len(operator.payload[side]) <= 2 * operator.state.rows(side) + 2 * SLACK + 12000
        assert len(operator.state.expiry) <= 2 * sum(operator.state.rows(s) for s in Side) + 3 * SLACK
        assert set(local.shards[0][0].log) == set(operator.chunks.live)
    assert sum(local.counters()[0].dropped) > 19_000 and local.counters()[0].purged[0] > 15_000
    assert sum(sum(operator.slice_rows(side)) for side in Side) == sum(operator.state.rows(side) for side in Side)


def test_pjoin_keeps_rows_until_a_promise_frees_them_and_brings_the_same_rows():
    data = {"A": rows((1, 7), (2, 8), (300, 8), (400, 7, True)), "B": rows((3, 7), (310, 8), (350, 8, True), (400, 9))}
    got = {}
    for how in ("pwjoin", "pjoin"):
        local = LocalJob(job(a=MARKS, b=MARKS, how=how))
        got[how] = local.push(data)["q"].to_pylist(), local.counters()[0].state_rows
        rules = [p["rule"] for t in local.punctuations["q"] for p in t.to_pylist()]
        got[how] += (rules,)
    assert got["pwjoin"][0] == got["pjoin"][0] and len(got["pjoin"][0]) == 2
    assert got["pwjoin"][1] == [0, 2] and got["pjoin"][1] == [1, 3], "8 of A is freed, nothing leaves with a window"
    assert got["pjoin"][2] == [], "neither key is over on both sides"


@pytest.mark.parametrize("clauses", [{"a": MARKS}, {"unique": "B"}, {"a": MARKS + " FOR id", "unique": "B"}])
def test_pjoin_needs_promises_of_both_sides(clauses):
    with pytest.raises(UsageError, match="promises nothing about the key of query q"):
        make_plan(job(how="pjoin", **clauses))
    make_plan(job(how="pjoin", a=MARKS, unique="B"))


def test_equation_1_in_its_best_case_and_without_promises():
    assert rows_after(100, 5, 0, 60, 1000) == 500, "a pure window join"
    assert rows_after(100, 5, 10, 60, 600) == 0, "each cluster comes after the promise for it"
    assert rows_after(100, 5, 5, 60, 600) == 250


def test_a_table_of_promises_is_as_large_as_what_it_holds():
    local = LocalJob(job(window=1000, a=MARKS))
    ts = np.arange(0, 2000)
    local.push({"A": many(ts, ts, closed=True), "B": many(ts[-1:], ts[-1:])})
    (table, _) = local.shards[0][0].operator.promises.tables
    assert isinstance(table, Table) and 2 * table.used[0] <= len(table.keys) <= 8192


def test_explain_says_what_is_promised_and_what_that_frees():
    text = explain(job(window=60_000_000, unique="A", b=MARKS + " BINDING 1 hour"))
    assert (
        "A: each row says that its key is over for 1 min, which frees rows of B: about 2,500 rows if rows and promises"
        in text
    )
    assert "B: punctuations say which keys are over for 1 h, which frees rows of A\n" in text
    assert "sync-filter: the join is told by promises" in text
    plain = explain(job(a=MARKS, how="off"))
    assert "over for" not in plain and "told by promises" not in plain
    assert [j.promises for j in describe(job()).joins] == [[]]


@pytest.mark.parametrize(("about", "bound"), [("(7, NULL)", [7]), ("(NULL, id)", [5]), ("(NULL, NULL)", [])])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_list_is_about_its_values_that_are_not_null_and_without_any_about_nothing(about, bound, shards):
    local = LocalJob(job(a=f"{MARKS} FOR k IN {about.replace('NULL', 'CAST(NULL AS BIGINT)')}"), shards)
    mark = pa.table([pa.array([50]).cast(ROW.field("ts").type), [5], [3], [True]], schema=ROW)
    after = rows(*((60, key) for key in (3, 5, 7)), (70, 99))
    local.push({"A": pa.concat_tables([mark, after]), "B": rows((70, 99))})
    told = [(r["k"], r["id"], r["_reason"].split(":")[0]) for t in local.refused["A"] for r in t.to_pylist()]
    assert told == [(k, n, "broken") for k, n in ((3, 0), (5, 1), (7, 2)) if k in bound]
    assert sum(c.malformed[0] for c in local.counters()) == 0
