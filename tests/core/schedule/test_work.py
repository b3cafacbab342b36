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
from muntin.core.schedule.outbox import Delivery
from muntin.core.schedule.work import ScheduledWork
from muntin.model import JobSpec, Side
from muntin.plan import share
from muntin.plan.schedulers import SCHEDULERS
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob, _timed
from worlds import EXAMPLES, STREAMS

ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("g", pa.string()), ("v", pa.int64())]
)
STAR, DISC = 1, 2


def spec_of(*windows: int) -> JobSpec:
    texts = [
        f"CREATE QUERY Q{n} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW {w} microseconds;"
        for n, w in enumerate(windows, 1)
    ]
    return parse_job(STREAMS.format(late=0) + "".join(texts))


class Example:
    """Rows `(side, time, key)` in one operator, of which those before time 11 have been joined."""

    def __init__(self, scheduler: str, windows: tuple[int, ...], rows: list[tuple[str, int, int]]):
        join = share(spec_of(*windows)).joins[0]
        self.operator = Operator(join, policy=Policy(scheduler=scheduler, eager=True))
        tables = []
        for side in Side:
            own = [{"ts": ts, "id": ts, "k": key, "g": "x", "v": 0} for s, ts, key in rows if s == "AB"[side]]
            timed = _timed(join.streams[side], pa.Table.from_pylist(own, ROW))
            tables.append(shard_rows(join, side, timed, 1)[0])
        self.operator.receive(Arrivals((tables[0], tables[1]), (0, 0), (12, 12), (True, True)))
        self.work: ScheduledWork = self.operator.work(run_length=1)
        self.arrive(sum(ts < 11 for _, ts, _ in rows))
        while self.work.step() is not None:
            pass

    def arrive(self, rows: int = 1) -> None:
        self.work.arrive(rows)

    def step(self) -> tuple[str, str, dict[str, list[str]]]:
        """The row that was scheduled with the levels it scanned, and what each query got."""
        done = self.work.step()
        assert done is not None
        row = self.work.span(done.unit.run)[0]
        name = f"{'ab'[self.work.rows.side[row]]}{self.work.rows.ts[row]}"
        got: dict[str, list[str]] = {}
        for delivery in done.deliveries:
            for query, pairs in self._routed(delivery).items():
                got.setdefault(query, []).extend(pairs)
        return name, f"{done.unit.first}-{done.unit.last}", got

    def _routed(self, delivery: Delivery) -> dict[str, list[str]]:
        run = self.operator.found(delivery.pairs, self.work.readers(delivery.levels)).whole()
        found = {}
        for query, table in route(self.operator.join, run):
            found[query.name] = [f"a{a},b{b}" for a, b in zip(*(table[c].to_pylist() for c in "ab"), strict=True)]
        return found


SYMBOLS = [("A", t, DISC) for t in (1, 5, 9)] + [("B", t, STAR) for t in (0, 4, 8)] + [("A", 11, STAR), ("B", 12, DISC)]
WINDOWS = (4, 8, 12)


def test_figure_2a_lwo_joins_a_row_with_the_largest_window_before_it_looks_at_the_next():
    example = Example("lwo", WINDOWS, SYMBOLS)
    example.arrive(2)
    whole = {"Q1": ["a11,b8"], "Q2": ["a11,b8", "a11,b4"], "Q3": ["a11,b8", "a11,b4", "a11,b0"]}
    assert example.step() == ("a11", "0-3", whole)
    whole = {"Q1": ["a9,b12"], "Q2": ["a9,b12", "a5,b12"], "Q3": ["a9,b12", "a5,b12", "a1,b12"]}
    assert example.step() == ("b12", "0-3", whole)
    assert example.work.step() is None


def test_figure_3a_swf_serves_small_windows_first_and_holds_what_larger_ones_must_wait_for():
    example = Example("swf", WINDOWS, SYMBOLS)
    example.arrive()
    assert example.step() == ("a11", "0-1", {"Q1": ["a11,b8"], "Q2": ["a11,b8"], "Q3": ["a11,b8"]}), "steps 1, 2"
    example.arrive()
    assert example.step() == ("b12", "0-1", {"Q1": ["a9,b12"]}), "steps 3, 4: Q2 and Q3 wait for a11"
    assert example.step() == ("a11", "1-2", {"Q2": ["a11,b4"], "Q3": ["a11,b4"]}), "steps 5, 6"
    assert example.step() == ("b12", "1-2", {"Q2": ["a9,b12", "a5,b12"]}), "steps 7, 8"
    assert example.step() == ("a11", "2-3", {"Q3": ["a11,b0"]}), "steps 9, 10"
    assert example.step() == ("b12", "2-3", {"Q3": ["a9,b12", "a5,b12", "a1,b12"]}), "steps 11, 12"
    assert example.work.step() is None and example.work.outbox.held == 0


def test_figure_4_mqt_goes_on_where_it_serves_most_and_releases_early():
    """Windows 2w, 3w, 6w with w = 2; all rows match."""
    rows = [("A", t, STAR) for t in (1, 3, 5, 7, 9, 11)] + [("B", t, STAR) for t in (0, 2, 4, 6, 8, 10, 12)]
    example = Example("mqt", (4, 6, 12), rows)
    example.arrive()
    first = ["a11,b10", "a11,b8"]
    assert example.step() == ("a11", "0-1", {"Q1": first, "Q2": first, "Q3": first})
    example.arrive()
    assert example.step() == ("a11", "1-2", {"Q2": ["a11,b6"], "Q3": ["a11,b6"]}), "1 for a11 is more than 1/2 for b12"
    early = ["a11,b12", "a9,b12"]
    assert example.step() == ("b12", "0-1", {"Q1": early, "Q2": early}), "2/3 is more than 1/3; Q2 before b12 scans it"
    assert example.step() == ("b12", "1-2", {"Q2": ["a7,b12"]})
    name, levels, got = example.step()
    assert (name, levels) == ("a11", "2-3")
    assert got == {"Q3": ["a11,b4", "a11,b2", "a11,b0", "a11,b12", "a9,b12", "a7,b12"]}, "b12 is next for Q3: at once"
    assert example.step() == ("b12", "2-3", {"Q3": ["a5,b12", "a3,b12", "a1,b12"]})
    assert example.work.step() is None and example.work.outbox.held == 0


@pytest.mark.parametrize("scheduler", SCHEDULERS.names)
def test_the_work_is_the_same_in_every_order(scheduler):
    rows = [(side, t, t % 2) for t in range(11) for side in "AB"]
    example = Example(scheduler, (3, 5, 8), rows)
    whole = Example("lwo", (3, 5, 8), rows)
    mine, other = example.operator.counters, whole.operator.counters
    assert mine.pairs == other.pairs > 0 and mine.inserted == other.inserted
    assert mine.comparisons == other.comparisons


def test_stale_rows_stay_while_a_waiting_row_needs_them():
    """a11 has to scan the largest window after a much later row has come, for which all of it is stale."""
    rows = [*SYMBOLS, ("B", 12, STAR), ("A", 30, STAR), ("B", 30, STAR)]
    example = Example("swf", WINDOWS, rows)
    example.arrive(5)
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
