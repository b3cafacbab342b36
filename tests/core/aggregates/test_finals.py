"""Groups that are told once, when they are over, are the oracle's (semantics, section 7), whatever the promises, cuts,
shards, restarts and neighbours; their totals are durable, and both totals and log stay within what is open."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.aggregates.calls import GROUPS
from core.aggregates.test_aggregates import drawn, tuples
from core.punctuations.test_promises import MARKS, many, rows
from core.punctuations.test_punctuations import MARKED, Judge, worlds
from core.punctuations.test_punctuations import job as promising
from muntin import oracle
from muntin.model import JobSpec, UsageError, Window
from muntin.plan import share
from muntin.plan.explain import explain
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, RESIDUALS, SELECTIONS, order_of

KEYED = {"A.k": GROUPS["A.k"], "B.k": lambda p: (p.right["k"],), "A.k, B.g": GROUPS["A.k, B.g"]}


@st.composite
def finals(draw: st.DrawFn, name: str) -> dict:
    """A query that is told once, in the terms of test_punctuations too."""
    query = drawn(draw, name, KEYED, "EMIT FINAL")
    return {**query, "pairs": query["holds"], "key": ("k",)}


@st.composite
def scenes(draw: st.DrawFn) -> dict:
    """A world of promises with queries that are told once, perhaps beside others."""
    world = draw(worlds(time=True))
    mine = [draw(finals(f"f{n}")) for n in range(draw(st.integers(1, 3)))]
    beside = [q for q in world["queries"] if q["key"] == ("k",)] if draw(st.booleans()) else []
    kinds = ["", "marks", "unique", "both", "list", "range"]
    return {**world, "binding": 30, "finals": mine, "queries": mine + beside,
            "promises": [draw(st.sampled_from(kinds)) for _ in "AB"]}  # fmt: skip


def play(scene: dict, spec: JobSpec, shards: int, restarts: list[bool]) -> tuple[dict[str, list], LocalJob]:
    local, got = LocalJob(spec, shards, share(spec, scene["strategy"])), defaultdict(list)
    for batch, restart in zip([*scene["batches"], None], [*restarts, False], strict=True):
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, MARKED) for s, r in zip("AB", batch, strict=True)}
        for name, table in local.push(tables, ended=batch is None).items():
            got[name] += tuples(table)
        if restart:
            local.restart()
    return got, local


def answers(scene: dict, counts=lambda pair: True) -> dict[str, list]:
    """What the oracle tells of the pairs that count."""
    judge, key = Judge(scene), oracle.columns("k")
    times = [r["ts"] for batch in scene["batches"] for side in batch for r in side]
    found = {}
    for group, queries in judge.groups.items():
        kept, eras = judge.kept[group], tuple(judge.eras[group])
        for q in (q for q in queries if "values" in q):
            keeps = tuple(q["keeps"])
            pairs = oracle.answer(q["window"], *kept, (key, key), keeps, holds=q["pairs"], promises=eras,
                                  untils=q["untils"])  # fmt: skip

            def ends(pair, q=q, kept=kept, eras=eras, keeps=keeps):
                return oracle.ends(q["window"], (pair.left["k"],), kept, (key, key), eras, keeps, untils=q["untils"])

            pairs = [pair for pair in pairs if counts(pair)]
            told = oracle.final(pairs, q["group"], q["values"], ends, max(times, default=0), lambda v: v.shown)
            found[q["name"]] = [(*g, *values, at) for at, g, values in told]
    return found


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(scenes())
def test_every_group_is_told_once_when_it_is_over_whatever_the_cuts_shards_and_restarts(scene):
    got, local = play(scene, promising(scene), scene["shards"], scene["restarts"])
    for name, want in answers(scene).items():
        assert sorted(got[name], key=order_of) == sorted(want, key=order_of), name
        assert [row[-1] for row in got[name]] == sorted(row[-1] for row in got[name])
    for n in range(len(local.plan.joins)):
        for shard in local.shards[n]:
            assert shard.operator.counters.groups == 0 and not shard.log, "an ended job keeps nothing"


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(scenes(), st.sampled_from([None, 1, 4]))
def test_a_key_that_comes_again_begins_a_new_group_whatever_the_cuts(scene, binding):
    """Promises that lapse while the streams go on; nothing is late, however they are cut."""
    scene |= {"binding": binding, "lateness": 20, "strategy": "state-slice", "queries": scene["finals"]}
    spec = promising(scene)
    got, _ = play(scene, spec, scene["shards"], scene["restarts"])
    whole = {**scene, "batches": [tuple([r for b in scene["batches"] for r in b[side]] for side in (0, 1))]}
    uncut, _ = play(whole, spec, 1, [False])
    judge, key = Judge(scene), oracle.columns("k")
    (group,) = judge.groups
    for q in scene["finals"]:
        assert sorted(got[q["name"]], key=order_of) == sorted(uncut[q["name"]], key=order_of)
        rows_ = oracle.answer(q["window"], *judge.kept[group], (key, key), tuple(q["keeps"]), holds=q["pairs"],
                              promises=tuple(judge.eras[group]), untils=q["untils"])  # fmt: skip
        if "COUNT(*) AS c0" in q["sql"] and "HAVING" not in q["sql"]:
            first = q["sql"].split(" FROM ")[0].count(" AS g")
            assert sum(row[first] for row in got[q["name"]]) == len(rows_), "each pair is in one group"


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(scenes(), st.data())
def test_queries_that_come_and_go_leave_the_totals_of_the_others_alone(scene, data):
    """One that comes counts the pairs from then on; one that stays is told as if nothing had happened.

    With `isolated`, one that comes has a join of its own, without the rows that came before.
    """
    scene |= {
        "strategy": data.draw(st.sampled_from(["state-slice", "pull-up", "isolated"])),
        "queries": scene["finals"],
    }
    first, *others = scene["finals"]
    stays = {q["name"]: data.draw(st.lists(st.booleans(), min_size=5, max_size=5)) for q in others}
    stays[first["name"]] = [True] * 5
    longest = max(max(q["window"].left, q["window"].right) for q in scene["finals"])
    keep = {"name": "all", "sql": f"CREATE QUERY all AS SELECT A.id AS a FROM A, B WHERE A.k = B.k "
            f"WINDOW {longest} microseconds;", "key": ("k",), "window": Window(longest, longest)}  # fmt: skip
    keep |= {"keeps": [SELECTIONS["TRUE"]] * 2, "pairs": RESIDUALS["TRUE"], "untils": (None, None)}

    def spec(n: int) -> JobSpec:
        return promising({**scene, "queries": [keep, *(q for q in scene["finals"] if stays[q["name"]][n])]})

    local, got, since = LocalJob(spec(0), scene["shards"], share(spec(0), scene["strategy"])), defaultdict(list), {}
    for n, batch in enumerate([*scene["batches"], None]):
        if n and local.spec.queries.keys() != spec(n).queries.keys():
            for name, changed in local.change(spec(n)).items():
                since[name] = changed.applied_from
                got[name].clear()
        if data.draw(st.booleans()):
            local.restart()
        tables = {} if batch is None else {s: pa.Table.from_pylist(r, MARKED) for s, r in zip("AB", batch, strict=True)}
        for name, table in local.push(tables, ended=batch is None).items():
            got[name] += tuples(table)
    scene["queries"] = [keep, *scene["finals"]]
    want = answers(scene)
    assert sorted(got[first["name"]], key=order_of) == sorted(want[first["name"]], key=order_of)
    last = len(scene["batches"])
    for q in others:
        name = q["name"]
        counts_from_then_on = name in since and scene["strategy"] != "isolated"
        if stays[name][last] and (counts_from_then_on or all(stays[name][: last + 1])):
            begun = since.get(name, -(1 << 60))
            late = answers({**scene, "finals": [q]}, lambda pair, begun=begun: pair.ts >= begun)
            assert sorted(got[name], key=order_of) == sorted(late[name], key=order_of)


AUCTIONS = """
CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN, UNIQUE (k)) TIMESTAMP BY ts
  WITH (format = 'x', path = 'y');
CREATE STREAM Bid (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts {marks}
  WITH (format = 'x', path = 'y');
"""
BIDS = """CREATE QUERY bids_{n} AS SELECT A.k, COUNT(*) AS bids, COUNT(DISTINCT B.id) AS ids, MAX(B.id) AS last
FROM Auction [RANGE {n} microseconds] A JOIN Bid [NOW] B ON A.k = B.k GROUP BY A.k EMIT FINAL;"""


def auctions(*windows: int, marks: str = MARKS, more: str = "") -> JobSpec:
    return parse_job(more + AUCTIONS.format(marks=marks) + "".join(BIDS.format(n=n) for n in windows))


@pytest.mark.slow
def test_each_auction_is_final_the_moment_that_it_is_certain():
    local = LocalJob(auctions(100))
    bids = rows((11, 1), (12, 2), (14, 1), (20, 1, True), (30, 2), (50, 3), (60, 9))
    got = local.push({"Auction": rows((10, 1), (10, 2), (40, 3), (60, 4)), "Bid": bids})
    assert tuples(got["bids_100"]) == [(1, 2, 2, 2, 20)], "closed by its seller; 2 may get bids up to 109"
    local.restart()
    got = local.push({"Auction": rows((200, 5)), "Bid": rows((109, 2), (110, 2), (200, 5))})
    assert tuples(got["bids_100"]) == [(2, 3, 3, 4, 109), (3, 1, 1, 5, 139)]
    assert tuples(local.push({}, ended=True)["bids_100"]) == [(5, 1, 1, 2, 200)], "the streams are over"


AFTER_A = """CREATE QUERY later AS SELECT Bid.k, COUNT(*) AS n FROM Auction, Bid
WHERE Auction.k = Bid.k AND Auction.ts BETWEEN Bid.ts + INTERVAL 2 MICROSECONDS AND Bid.ts + INTERVAL 8 MICROSECONDS
GROUP BY Bid.k EMIT FINAL;"""


@pytest.mark.parametrize("how", ["goes on", "restart", "change"])
def test_a_key_that_ends_at_the_release_point_is_told_at_that_time_whatever_comes_between(how):
    """A row that can only be the later one of a pair is not kept; its key ends with it all the same."""
    spec = parse_job(AUCTIONS.format(marks="") + AFTER_A)
    local = LocalJob(spec)
    assert not local.push({"Bid": rows((1, 2), (4, 3)), "Auction": rows((4, 2), (8, 1))})["later"].num_rows
    if how == "restart":
        local.restart()
    if how == "change":
        local.change(parse_job(AUCTIONS.format(marks="") + AFTER_A + BIDS.format(n=6)))
    got = local.push({"Bid": rows((20, 9)), "Auction": rows((20, 9))})
    assert tuples(got["later"]) == [(2, 1, 4)]


def test_without_promises_all_is_told_at_the_end():
    spec = auctions(100, more="SET punctuations = 'off';")
    local = LocalJob(spec)
    got = local.push({"Auction": rows((10, 1), (300, 9)), "Bid": rows((11, 1), (14, 1), (300, 2))})
    assert not got["bids_100"].num_rows
    assert tuples(local.push({}, ended=True)["bids_100"]) == [(1, 2, 2, 1, 300)]
    assert "told when the streams end: no promise says before that a key is over" in explain(spec)
    assert "told once, when Auction or Bid says that the key is over" in explain(auctions(100))


@pytest.mark.slow
def test_pairs_are_added_up_once_for_all_windows_and_what_is_kept_follows_what_is_open():
    """2,000 auctions come and close with each micro-batch, of which 4,000 are open at a time."""
    local = LocalJob(auctions(500, 1000, 2000, marks=""))
    shard, counters, told = local.shards[0][0], local.counters()[0], 0
    for step in range(40):
        ts = step * 2000 + np.arange(2000)
        bids = many(np.repeat(ts, 3) + np.tile([0, 700, 1500], 2000), np.repeat(ts, 3))
        got = local.push({"Auction": many(ts, ts), "Bid": bids.filter(pa.array(bids["ts"].cast(pa.int64()).to_numpy()
                          < (step + 1) * 2000))} if step % 2 else {"Auction": many(ts, ts)})  # fmt: skip
        told += got["bids_2000"].num_rows
        if step == 20:
            local.restart()
            shard, counters = local.shards[0][0], local.counters()[0]
        assert counters.groups <= 4000 and shard.operator.finals.states[0].groups.live <= 4000
        totals = [rows_ for name, (_, _, rows_) in shard.operator.chunks.live.items() if name[1] == "t"]
        assert sum(totals) <= 8 * 4000, "groups and their different values, and closed ones that older chunks have"
        assert set(shard.log) == set(shard.operator.chunks.live)
    assert told > 10_000
    distinct = counters.pairs
    assert counters.aggregated == counters.pairs + distinct, "once each, and once for the values that are told apart"


def test_promises_free_the_rows_of_groups_that_are_not_over():
    free = LocalJob(auctions(10_000))
    plain = LocalJob(auctions(10_000, more="SET punctuations = 'off';"))
    ts = np.arange(1000)
    closed = many(ts + 500, ts, closed=True)
    for local in (free, plain):
        local.push({"Auction": many(ts, ts), "Bid": pa.concat_tables([many(ts + 1, ts), closed])})
        local.push({"Auction": rows((2000, -1)), "Bid": rows((2000, -2))})
    assert sum(plain.counters()[0].state_rows) > 1000 > 10 > sum(free.counters()[0].state_rows)
    assert free.counters()[0].groups == 0 and plain.counters()[0].groups == 1000


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT COUNT(*) FROM Auction A, Bid B WHERE A.k = B.k EMIT FINAL WINDOW 1 s", "GROUP BY the join key"),
        (
            "SELECT A.id FROM Auction A, Bid B WHERE A.k = B.k GROUP BY A.id EMIT FINAL WINDOW 1 s",
            "GROUP BY the join key",
        ),
        ("SELECT A.k FROM Auction A, Bid B WHERE A.k = B.k EMIT FINAL WINDOW 1 s", "go with aggregates"),
        (
            "SELECT A.k, COUNT(*) FROM Auction A, Bid B WHERE A.k = B.k GROUP BY A.k EMIT LATER WINDOW 1 s",
            "FINAL or EVERY",
        ),
    ],
)
def test_what_cannot_be_final_is_refused_with_a_reason(query, message):
    with pytest.raises(UsageError, match=message):
        parse_job(AUCTIONS.format(marks=MARKS) + f"CREATE QUERY q AS {query};")


def test_one_that_is_added_later_counts_from_then_on_and_says_that_its_start_is_unknown():
    local = LocalJob(auctions(100))
    local.push({"Auction": rows((10, 1), (20, 4)), "Bid": rows((11, 1), (20, 9))})
    changed = local.change(auctions(100, 200))
    assert changed["bids_200"].complete_from == {"bids_200": None}
    got = local.push({"Auction": rows((30, 5)), "Bid": rows((25, 1), (28, 1, True), (30, 9))})
    assert tuples(got["bids_100"])[0][:2] == (1, 2) and tuples(got["bids_200"])[0][:2] == (1, 1)


def test_each_strategy_is_foretold_where_some_are_told_once_and_others_select():
    more = "CREATE QUERY pairs AS SELECT A.id FROM Auction A, Bid B WHERE A.k = B.k AND B.id > 5 WINDOW 9 microseconds;"
    some = BIDS.format(n=7).replace("ON A.k = B.k", "ON A.k = B.k AND B.id > 100")
    spec = parse_job(AUCTIONS.format(marks=MARKS) + more + some)
    assert all(strategy in explain(spec) for strategy in ("state-slice", "pull-up", "push-down", "isolated"))
    assert [len(join.queries) for join in share(spec, "push-down").joins] == [1, 1]


def test_the_totals_of_the_last_query_that_is_told_once_leave_the_log_with_it():
    streams = "".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN) TIMESTAMP BY ts "
        "WITH (format = 'x', path = 'y');"
        for name in "AB"
    )
    pairs = "CREATE QUERY q AS SELECT A.id FROM A, B WHERE A.k = B.k WINDOW 9 microseconds;"
    told = (
        "CREATE QUERY f AS SELECT A.k, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY A.k "
        "WINDOW 3 microseconds EMIT FINAL;"
    )
    local = LocalJob(parse_job(streams + pairs + told))
    local.push({"A": rows((1, 7), (5, 8)), "B": rows((2, 7), (5, 8))})
    assert local.counters()[0].groups == 2
    local.change(parse_job(streams + pairs))
    local.push({}, ended=True)
    assert local.counters()[0].groups == 0 and not local.shards[0][0].log
