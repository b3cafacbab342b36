"""The worked examples of hammad2003 on the operator that ships, step by step: figures 2(a), 3(a) and 4."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.arrivals.sharding import shard_rows
from muntin.core.batch import Arrivals
from muntin.core.operator import Operator
from muntin.core.policy import Policy
from muntin.core.results import route
from muntin.model import JobSpec, Side
from muntin.plan import share
from muntin.plan.schedulers import SCHEDULERS
from muntin.sql import parse_job
from muntin.studies.hammad2003_examples import FIGURE_2A, FIGURE_3A, FIGURE_4, STAR, SYMBOLS, SteppedOperator, steps_of
from muntin.testing.local_job import LocalJob, _timed
from worlds import EXAMPLES, STREAMS

ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("g", pa.string()), ("v", pa.int64())]
)


def spec_of(*windows: int) -> JobSpec:
    texts = [
        f"CREATE QUERY Q{n} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW {w} microseconds;"
        for n, w in enumerate(windows, 1)
    ]
    return parse_job(STREAMS.format(late=0) + "".join(texts))


@pytest.mark.parametrize("example", [FIGURE_2A, FIGURE_3A, FIGURE_4], ids=lambda e: e.figure)
def test_the_worked_examples_step_by_step(example):
    assert steps_of(example) == example.printed


@pytest.mark.parametrize("scheduler", SCHEDULERS.names)
def test_the_work_is_the_same_in_every_order(scheduler):
    rows = [(side, t, t % 2) for t in range(11) for side in "AB"]
    example = SteppedOperator(scheduler, (3, 5, 8), rows)
    whole = SteppedOperator("lwo", (3, 5, 8), rows)
    mine, other = example.operator.counters, whole.operator.counters
    assert mine.pairs == other.pairs > 0 and mine.inserted == other.inserted
    assert mine.comparisons == other.comparisons


def test_stale_rows_stay_while_a_waiting_row_needs_them():
    """a11 has to scan the largest window after a much later row has come, for which all of it is stale."""
    rows = [*SYMBOLS, ("B", 12, STAR), ("A", 30, STAR), ("B", 30, STAR)]
    example = SteppedOperator("swf", (4, 8, 12), rows)
    example.work.arrive(5)
    got: dict[str, list[str]] = {}
    for _ in range(15):
        for query, pairs in example.step()[2].items():
            got.setdefault(query, []).extend(pairs)
    assert "a11,b0" in got["Q3"] and "a1,b12" in got["Q3"] and got["Q1"][-1] == "a30,b30"
    assert example.work.step() is None


@st.composite
def bursts(draw: st.DrawFn) -> tuple:
    windows = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    row = st.tuples(st.sampled_from("AB"), st.integers(0, 15), st.sampled_from([1, 2]))
    rows = draw(st.lists(row, max_size=25))
    return (
        draw(st.sampled_from(SCHEDULERS.names)),
        windows,
        rows,
        draw(st.integers(1, 6)),
        draw(st.lists(st.integers(0, 3))),
    )


@pytest.mark.slow
@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(bursts())
def test_rows_that_come_while_others_are_at_work_change_neither_answers_nor_order(burst):
    scheduler, windows, rows, run_length, arrivals = burst
    spec = spec_of(*windows)
    plain = LocalJob(spec, plan=share(spec))
    tables = {
        name: pa.Table.from_pylist(
            [{"ts": t, "id": n, "k": k, "g": "x", "v": 0} for n, (s, t, k) in enumerate(rows) if s == name], ROW
        )
        for name in "AB"
    }
    want = plain.push(tables, ended=True)
    join = share(spec).joins[0]
    operator = Operator(join, policy=Policy(scheduler=scheduler))
    timed = [shard_rows(join, s, _timed(join.streams[s], tables["AB"[s]]), 1)[0] for s in Side]
    operator.receive(Arrivals((timed[0], timed[1]), (0, 0), (20, 20), (True, True)))
    work = operator.work(run_length)
    got: dict[str, list[tuple]] = {name: [] for name in spec.queries}
    for more in [*arrivals, None]:
        come = min(more or 0, len(work.rows.ts) - work.arrived)
        work.arrive(come if more is not None else None)
        while (done := work.step()) is not None:
            for delivery in done.deliveries:
                for query, table in route(join, operator.found(delivery.pairs, work.readers(delivery.levels)).whole()):
                    got[query.name] += zip(*(table[c].to_pylist() for c in ("_ts", "a", "b")), strict=True)
            if more is not None:
                break
    assert work.outbox.held == 0 and work.waiting == 0
    operator.finish()
    assert operator.counters.state_rows == [0, 0]
    assert operator.counters.pairs == plain.counters()[0].pairs
    for name, table in want.items():
        assert [row[0] for row in got[name]] == sorted(row[0] for row in got[name])
        assert sorted(got[name]) == sorted(zip(*(table[c].to_pylist() for c in ("_ts", "a", "b")), strict=True))
