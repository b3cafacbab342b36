"""Joins without an equality whose rows are in order of a value: the same rows as from every pair, with less work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.join import ordered_rows
from muntin.model import JobSpec
from muntin.plan import share
from muntin.plan.ordered import ordered_values, why_every_pair
from muntin.plan.schedulers import SCHEDULERS
from muntin.plan.strategies import STRATEGIES
from muntin.sql import parse_job
from muntin.testing import LocalJob
from worlds import EXAMPLES

STREAM = """
CREATE STREAM {0} (ts TIMESTAMP, id BIGINT, k BIGINT, x DOUBLE, f FLOAT, n DECIMAL(12,2), d DATE, t TIMESTAMP)
  TIMESTAMP BY ts LATENESS 3 microseconds WITH (format = 'parquet', path = '{0}');
"""
ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("x", pa.float64()), ("f", pa.float32()),
     ("n", pa.decimal128(12, 2)), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))]
)  # fmt: skip
CONDITIONS = [
    "ABS(A.x - B.x) < 2",
    "A.x < B.x",
    "NOT (A.x <= B.x - 1)",
    "A.x - B.x > 1",
    "A.x - B.x >= 0 AND A.x - B.x < 4",
    "B.x * 2 > A.x + 1 AND A.k <> B.k",
    "A.x BETWEEN B.x - 1 AND B.x + 1.5",
    "ABS(A.k - B.k) <= 1",
    "A.k > B.k + 9223372036854775806",
    "A.k - B.k < 2",
    "ABS(A.f - B.f) < 0.25",
    "A.f < B.x",
    "A.n - B.n BETWEEN -0.01 AND 1.5",
    "A.n < B.k",
    "A.d <= B.d",
    "A.d BETWEEN B.d - INTERVAL 1 DAY AND B.d",
    "A.t - B.t < INTERVAL 2 MICROSECONDS AND B.t - A.t < INTERVAL 2 MICROSECONDS",
    "A.t > B.t + INTERVAL 1 MICROSECOND",
    "A.x < B.x AND A.k < B.k AND ABS(A.n - B.n) < 1",
    "A.x <> B.x",
]
BIG = 1 << 62
DOUBLES = [
    0.0,
    -0.0,
    1.0,
    2.0,
    3.5,
    -1.0,
    1e-300,
    1e16,
    1e16 + 2,
    1.7e308,
    -1.7e308,
    float("inf"),
    -float("inf"),
    float("nan"),
]
DAY, INSTANT = date(2024, 2, 28), datetime(2024, 1, 1, tzinfo=UTC)


@st.composite
def rows(draw: st.DrawFn, low: int) -> list[dict]:
    row = st.fixed_dictionaries(
        {
            "ts": st.integers(low, low + 5),
            "id": st.integers(0, 1000),
            "k": st.sampled_from([0, 1, 2, 3, None, BIG + BIG - 1, -BIG - BIG, BIG, BIG + 1]),
            "x": st.sampled_from([*DOUBLES, None]),
            "f": st.sampled_from([0.0, 0.1, 0.25, 0.5, 16777216.0, 16777218.0, None, float("nan")]),
            "n": st.sampled_from([Decimal("0.00"), Decimal("0.01"), Decimal("1.50"), Decimal("-9999999999.99"), None]),
            "d": st.sampled_from(
                [DAY, DAY + timedelta(1), DAY + timedelta(2), date(1, 1, 1), date(9999, 12, 31), None]
            ),
            "t": st.sampled_from(
                [INSTANT, INSTANT + timedelta(microseconds=1), INSTANT + timedelta(microseconds=2), None]
            ),
        }
    )
    return draw(st.lists(row, max_size=8))


@st.composite
def worlds(draw: st.DrawFn) -> dict:
    steps, queries = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    first = draw(st.sampled_from(CONDITIONS))
    texts = []
    for n in range(queries):
        condition = draw(st.sampled_from([first, first, *CONDITIONS]))
        sizes = [draw(st.sampled_from(["RANGE 3 microseconds", "RANGE 8 microseconds", "ROWS 3"])) for _ in "AB"]
        if draw(st.booleans()):
            sizes = ["RANGE 8 microseconds"] * 2
        where = draw(st.sampled_from(["TRUE", "TRUE", "A.id > 300", "B.id < 700 OR B.x IS NULL"]))
        texts.append(
            f"CREATE QUERY q{n} AS SELECT A.id AS a, B.id AS b FROM A [{sizes[0]}] A, B [{sizes[1]}] B "
            f"WHERE ({where}) AND {condition};"
        )
    return {
        "queries": texts,
        "batches": [(draw(rows(2 * n)), draw(rows(2 * n))) for n in range(steps)],
        "restarts": [draw(st.booleans()) for _ in range(steps)],
        "late": draw(st.sampled_from([None, 1, 2])),
        "shards": draw(st.sampled_from([1, 2, 3])),
        "strategy": draw(st.sampled_from(STRATEGIES.names)),
        "scheduler": draw(st.sampled_from([None, *SCHEDULERS.names])),
    }


def every_pair(spec: JobSpec) -> JobSpec:
    return replace(spec, queries={n: replace(q, ranges=()) for n, q in spec.queries.items()})


def answers(world: dict, ranges: bool) -> dict[str, list]:
    """Each query's rows; with `late`, the last query comes and goes while the job runs."""
    texts = world["queries"]
    later = texts[-1] if world["late"] is not None and len(texts) > 1 else None
    spec = parse_job(STREAM.format("A") + STREAM.format("B") + "\n".join(texts[:-1] if later else texts))
    if world["scheduler"]:
        spec = replace(spec, settings=replace(spec.settings, delivery="eager", scheduler=world["scheduler"]))
    spec = spec if ranges else every_pair(spec)
    job = LocalJob(spec, world["shards"], share(spec, world["strategy"]), 2 if world["scheduler"] else None)
    got: dict[str, list] = {}

    def take(tables: dict[str, pa.Table]) -> None:
        for name, table in tables.items():
            times = table["_ts"].cast(pa.int64()).to_pylist()
            got.setdefault(name, []).extend(zip(table["a"].to_pylist(), table["b"].to_pylist(), times, strict=True))

    for n, (batch, restart) in enumerate(zip(world["batches"], world["restarts"], strict=True)):
        take(job.push({name: pa.Table.from_pylist(part, ROW) for name, part in zip("AB", batch, strict=True)}))
        if restart:
            job.restart()
        if later and n + 1 == world["late"]:
            take(job.complete())
            changed = parse_job(STREAM.format("A") + STREAM.format("B") + "\n".join(texts))
            job.change(replace(changed if ranges else every_pair(changed), settings=spec.settings))
    take(job.push({}, ended=True))
    for times in ([row[-1] for row in found] for found in got.values()):
        assert times == sorted(times)
    return {name: sorted(found) for name, found in got.items() if found}


TINY = {"LEAST_PART": 2, "MOST_PART": 4, "SMALL_RUN": 2}
"""Parts and runs of few rows, so that few rows make many of them."""


@pytest.mark.slow
@settings(max_examples=3 * EXAMPLES, deadline=None)
@given(worlds())
def test_rows_in_order_give_the_answers_of_every_pair(world):
    """Whatever the types and the extremes, cuts, shards, restarts, strategies, schedulers and changes of queries."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in TINY.items():
            patch.setattr(ordered_rows, name, value)
        assert answers(world, True) == answers(world, False)


BATCHES, PER_BATCH, WINDOW = 20, 400, 4
NEAR = "CREATE QUERY {0} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE {1} WINDOW {2} microseconds;"


def steady(texts: list[str], spread: float = 100.0) -> tuple[LocalJob, int]:
    """A job after many micro-batches of rows with even values, and the rows that it wrote."""
    spec, rng = parse_job(STREAM.format("A") + STREAM.format("B") + "\n".join(texts)), np.random.default_rng(5)
    job, written = LocalJob(spec, 1), 0
    for n in range(BATCHES):
        tables = {}
        for name in "AB":
            size = PER_BATCH
            columns = {f.name: pa.nulls(size, f.type) for f in ROW}
            columns["ts"] = pa.array(np.full(size, n)).cast(pa.timestamp("us", "UTC"))
            columns["id"], columns["x"] = pa.array(np.arange(size)), pa.array(rng.uniform(0, spread, size))
            tables[name] = pa.table(columns, schema=ROW)
        written += sum(table.num_rows for table in job.push(tables, ended=n == BATCHES - 1).values())
    return job, written


def test_a_probe_looks_at_about_what_it_finds_and_not_at_every_pair():
    """One pair in a hundred lies in the range: of all pairs in the windows, far less than five in a hundred are looked
    at."""
    job, written = steady([NEAR.format("q", "ABS(A.x - B.x) < 0.5", WINDOW)])
    pairs = PER_BATCH**2 * (BATCHES + 2 * sum(BATCHES - n for n in range(1, WINDOW)))
    (counters,) = job.counters(0)
    assert 0.008 * pairs < written < 0.012 * pairs
    assert written <= counters.comparisons < 3 * written


@pytest.mark.slow
def test_several_ranges_share_one_order_and_a_row_looks_at_the_widest_that_its_class_is_wanted_with():
    narrow = NEAR.format("narrow", "ABS(A.x - B.x) < 0.5", WINDOW)
    wide = NEAR.format("wide", "A.id < 100 AND A.x BETWEEN B.x - 2 AND B.x + 1", WINDOW)
    alone = [steady([text])[0].counters(0)[0].comparisons for text in (narrow, wide)]
    job, _ = steady([narrow, wide])
    assert len(job.plan.joins) == 1
    (shared,) = job.counters(0)
    assert max(alone) < shared.comparisons
    union = alone[0] + PER_BATCH**2 * 0.03 * BATCHES * (2 * WINDOW - 1)
    assert shared.comparisons < union


def test_rows_that_have_left_are_not_in_the_way():
    """What is kept in order follows the window, not the whole stream."""
    job, _ = steady([NEAR.format("q", "ABS(A.x - B.x) < 0.5", WINDOW)])
    ordered = job.shards[0][0].operator.state.ordered
    assert ordered is not None
    assert ordered.nbytes < 40 * 24 * PER_BATCH * WINDOW


def joined(*conditions: str):
    texts = [NEAR.format(f"q{n}", condition, WINDOW) for n, condition in enumerate(conditions)]
    (join,) = share(parse_job(STREAM.format("A") + STREAM.format("B") + "\n".join(texts))).joins
    return join


def test_of_several_ranges_the_one_with_two_ends_is_taken():
    values = ordered_values(joined("A.x < B.x AND A.k BETWEEN B.k AND B.k + 1", "ABS(A.k - B.k) < 9 AND A.x < B.x"))
    assert values is not None and values.texts == ("A.k", "B.k")
    assert (round(values.low), round(values.high)) == (-9, 9)


def test_queries_that_compare_different_values_look_at_every_pair():
    join = joined("A.x < B.x", "A.k < B.k")
    assert ordered_values(join) is None and "different values" in why_every_pair(join)
    join = joined("A.x < B.x", "A.k <> B.k")
    assert ordered_values(join) is None and "the condition of q1" in why_every_pair(join)
