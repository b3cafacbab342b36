"""Rows that wait until a time of their own leave the state then: work and room; answers are in test_properties."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from muntin import oracle
from muntin.model import Side, Window
from muntin.sql import parse_job
from muntin.testing import LocalJob

STREAMS = """
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, expires TIMESTAMP{unique}) TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, price BIGINT) TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'b');
"""
PAIRS = "SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k"
UNTIL = f"CREATE QUERY own AS {PAIRS} WINDOW UNTIL A.expires AT MOST 1000 microseconds;"
TIME = pa.timestamp("us", "UTC")
LEFT = pa.schema([("ts", TIME), ("id", pa.int64()), ("k", pa.int64()), ("expires", TIME)])
RIGHT = pa.schema([("ts", TIME), ("id", pa.int64()), ("k", pa.int64()), ("price", pa.int64())])
Rows = list[dict[str, Any]]


def rows_of(seed: int, keys: int = 7, count: int = 400, right: int | None = None) -> tuple[Rows, Rows]:
    """Rows of A with windows of their own, most of them short, and rows of B; in time order."""
    dice = random.Random(seed)
    times = sorted(dice.randrange(2000) for _ in range(count))
    windows = [dice.choice([-5, 0, 1, dice.randrange(40), dice.randrange(40), dice.randrange(2000)]) for _ in times]
    left = [
        {"ts": ts, "id": n, "k": n if keys == 0 else n % keys, "expires": None if n % 50 == 0 else ts + w}
        for n, (ts, w) in enumerate(zip(times, windows, strict=True))
    ]
    partners = [
        {"ts": ts, "id": n, "k": dice.randrange(keys or count), "price": dice.randrange(100)}
        for n, ts in enumerate(sorted(dice.randrange(2000) for _ in range(right or count)))
    ]
    return left, partners


def batches(left: Rows, right: Rows, every: int = 50) -> list[dict[str, pa.Table]]:
    """The rows in micro-batches of so many microseconds."""
    return [
        {
            name: pa.Table.from_pylist([r for r in side if start <= r["ts"] < start + every], schema)
            for name, side, schema in (("A", left, LEFT), ("B", right, RIGHT))
        }
        for start in range(0, 2000, every)
    ]


def own_end(row: dict[str, Any], window: int = 1000) -> int:
    return row["ts"] + (window if row["expires"] is None else min(window, max(1, row["expires"] - row["ts"])))


@pytest.mark.parametrize("restarts", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("keys", [1, 7])
def test_after_each_step_the_state_has_the_rows_that_still_wait_and_no_others(keys: int, restarts: bool):
    left, right = rows_of(1, keys)
    local = LocalJob(parse_job(STREAMS.format(unique="") + UNTIL))
    most, found = 0, []
    for batch in batches(left, right):
        found += local.push(batch)["own"].to_pylist()
        (shard,) = local.shards[0]
        release = shard.operator.release
        waiting = [r for r in left if r["ts"] <= release < own_end(r)]
        assert (
            shard.operator.counters.state_rows[Side.LEFT] == len(waiting) == sum(shard.operator.slice_rows(Side.LEFT))
        )
        most = max(most, len(waiting))
        if restarts:
            local.restart()
    found += local.push({}, ended=True)["own"].to_pylist()
    assert 0 < most < 130, "with the window of 1000 it would be 200"
    key, window = oracle.columns("k"), Window(1000, 1000)
    pairs = oracle.answer(window, left, right, (key, key), untils=(lambda r: r["expires"], None))
    assert sorted((row["a"], row["b"]) for row in found) == sorted((p.left["id"], p.right["id"]) for p in pairs)


def test_a_row_stays_for_as_long_as_the_last_query_that_wants_it():
    left, right = rows_of(2)
    other = f"CREATE QUERY odd AS {PAIRS} AND A.id % 2 = 1 WINDOW 300 microseconds;"
    local = LocalJob(parse_job(STREAMS.format(unique="") + UNTIL + other))
    for batch in batches(left, right):
        local.push(batch)
        (shard,) = local.shards[0]
        release = shard.operator.release
        ends = {r["id"]: max(own_end(r), r["ts"] + 300 if r["id"] % 2 else 0) for r in left}
        waiting = [r for r in left if r["ts"] <= release < ends[r["id"]]]
        assert shard.operator.counters.state_rows[Side.LEFT] == len(waiting)


def test_what_a_query_leaves_behind_goes_with_it():
    left, right = rows_of(3)
    streams, plain = STREAMS.format(unique=""), f"CREATE QUERY plain AS {PAIRS} WINDOW 1000 microseconds;"
    local = LocalJob(parse_job(streams + UNTIL + plain))
    for n, batch in enumerate(batches(left, right)):
        local.push(batch)
        if n == 20:
            before = local.counters()[0].state_rows[Side.LEFT]
            local.change(parse_job(streams + UNTIL))
        (shard,) = local.shards[0]
        waiting = [r for r in left if r["ts"] <= shard.operator.release < (r["ts"] + 1000 if n < 20 else own_end(r))]
        assert shard.operator.counters.state_rows[Side.LEFT] == len(waiting)
    assert before > 2 * local.counters()[0].state_rows[Side.LEFT]


def test_a_query_that_asks_for_no_more_than_was_kept_is_complete_at_once():
    left, right = rows_of(4)
    streams = STREAMS.format(unique="")
    local = LocalJob(parse_job(streams + UNTIL))
    for batch in batches(left, right)[:20]:
        local.push(batch)
    same = f"CREATE QUERY shorter AS {PAIRS} WINDOW UNTIL A.expires AT MOST 200 microseconds;"
    plain = f"CREATE QUERY plain AS {PAIRS} WINDOW 200 microseconds;"
    (shard,) = local.shards[0]
    release = shard.operator.release
    done = local.change(parse_job(streams + UNTIL + same + plain))
    assert done["shorter"].complete_from["shorter"] == release + 1
    assert done["plain"].complete_from["plain"] > release + 200, "rows that waited for less are gone"


def test_short_windows_give_their_bytes_back_before_long_ones():
    """One row in fifty waits for the whole window: the chunks of the others go long before."""
    left, right = rows_of(5, count=2000)
    local = LocalJob(parse_job(STREAMS.format(unique="") + UNTIL))
    for batch in batches(left, right):
        local.push(batch)
    (shard,) = local.shards[0]
    release = shard.operator.release
    kept = sum(table.num_rows for name, table in shard.log.items() if name.startswith("l"))
    within = sum(1 for r in left if release - 1000 < r["ts"] <= release)
    waiting = sum(1 for r in left if r["ts"] <= release < own_end(r))
    assert waiting <= kept < 0.6 * within


@pytest.mark.slow
def test_a_total_is_final_when_the_row_has_come_to_its_own_end():
    left, right = rows_of(6, keys=0, right=8000)
    final = (
        "CREATE QUERY won AS SELECT A.k, MAX(B.price) AS price FROM A, B WHERE A.k = B.k AND A.ts <= B.ts "
        "GROUP BY A.k WINDOW UNTIL A.expires AT MOST 1000 microseconds EMIT FINAL;"
    )
    local = LocalJob(parse_job(STREAMS.format(unique=", UNIQUE (k)") + final))
    found = []
    for batch in batches(left, right):
        found += local.push(batch)["won"].to_pylist()
        local.restart()
        release = local.shards[0][0].operator.release
        assert all(row["_ts"].microsecond < release for row in found)
    found += local.push({}, ended=True)["won"].to_pylist()
    want, end = {}, max(left[-1]["ts"], right[-1]["ts"])
    for a in left:
        prices = [b["price"] for b in right if b["k"] == a["k"] and a["ts"] <= b["ts"] < own_end(a)]
        if prices:
            want[a["k"]] = max(prices), min(own_end(a) - 1, end)
    assert len(want) > 50
    assert {r["k"]: (r["price"], int(r["_ts"].timestamp() * 1e6 + 0.5)) for r in found} == want
    assert len(found) == len(want)


def test_times_at_the_ends_of_their_range_are_no_trouble():
    streams = STREAMS.format(unique="")
    local = LocalJob(parse_job(streams + UNTIL), checks=True)
    ends = [-(2**63) + 2, -(2**62), 2**62, 2**63 - 1]
    rows = pa.table(
        [
            pa.array([5] * 4).cast(TIME),
            pa.array(range(4)),
            pa.array([1] * 4),
            pa.array(ends).cast(TIME),
        ],
        schema=LEFT,
    )
    partner = pa.Table.from_pylist([{"ts": 5, "id": 7, "k": 1}, {"ts": 9, "id": 8, "k": 1}], RIGHT)
    found = local.push({"A": rows, "B": partner}, ended=True)["own"].to_pylist()
    assert sorted((row["a"], row["b"]) for row in found) == [(0, 7), (1, 7), (2, 7), (2, 8), (3, 7), (3, 8)]
