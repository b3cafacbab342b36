"""Work that outlives its micro-batch: the same rows in the same order, whatever the limits, restarts and changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muntin.core.schedule import WorkLimit
from muntin.model import JobSpec
from muntin.plan import share
from muntin.plan.cost import DEFAULT
from muntin.plan.schedulers import SCHEDULERS
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob
from worlds import EXAMPLES, STREAMS

ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("g", pa.string()), ("v", pa.int64())]
)
UNIT_NS = int(DEFAULT.unit_ns)
LATE_US = 9
"""The window of the query that comes while the job runs."""
Row = tuple[str, int, int]


def spec_of(windows: dict[str, int], keyed: bool = True, lateness: int = 0) -> JobSpec:
    on = "A.k = B.k" if keyed else "A.k <> B.k + 7"
    texts = [
        f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE {on} WINDOW {w} microseconds;"
        for name, w in windows.items()
    ]
    return parse_job("SET delivery = 'eager';" + STREAMS.format(late=lateness) + "".join(texts))


def tables(rows: list[Row], first: int = 0) -> dict[str, pa.Table]:
    found: dict[str, list[dict]] = {"A": [], "B": []}
    for n, (stream, ts, k) in enumerate(rows, first):
        found[stream].append({"ts": ts, "id": n, "k": k, "g": "x", "v": 0})
    return {stream: pa.Table.from_pylist(of, ROW) for stream, of in found.items()}


def told(found: dict[str, pa.Table]) -> Iterator[tuple[str, list[tuple]]]:
    for name, table in found.items():
        yield name, list(zip(*(table[c].to_pylist() for c in ("_ts", "a", "b")), strict=True))


@st.composite
def worlds(draw: st.DrawFn) -> dict:
    row = st.tuples(st.sampled_from("AB"), st.integers(0, 5), st.sampled_from([1, 2]))
    batches = []
    for n in range(draw(st.integers(1, 6))):
        rows = draw(st.lists(row, max_size=8))
        batches.append([(stream, ts + 3 * n, k) for stream, ts, k in rows])
    tell = st.builds(
        WorkLimit,
        limit_ns=st.one_of(st.none(), st.integers(1, 12 * UNIT_NS)),
        until=st.one_of(st.none(), st.integers(0, 20)),
        scheduler=st.sampled_from(["auto", *SCHEDULERS.names]),
    )
    return {
        "batches": batches,
        "windows": draw(st.lists(st.integers(1, 12), min_size=1, max_size=4)),
        "keyed": draw(st.booleans()),
        "lateness": draw(st.integers(0, 2)),
        "limits": [draw(tell) for _ in batches],
        "restarts": [draw(st.booleans()) for _ in batches],
        "run_length": draw(st.sampled_from([None, 1, 2, 5])),
        "changes": draw(st.integers(0, 5)),
    }


class Ran(NamedTuple):
    """Each query's rows, the job, and from when on `late`, which comes while it runs, has all its rows."""

    rows: dict[str, list[tuple]]
    job: LocalJob
    complete_from: int | None = None


def run(world: dict, limited: bool, shards: int = 1, change: bool = False) -> Ran:
    names = {f"q{n}": w for n, w in enumerate(world["windows"])}
    spec = spec_of(names, world["keyed"], world["lateness"])
    job = LocalJob(spec, shards, share(spec), world["run_length"], checks=True)
    got: dict[str, list[tuple]] = {name: [] for name in [*names, "late"]}
    id_, complete = 0, None
    for n, batch in enumerate(world["batches"]):
        if limited:
            job.limit_work(world["limits"][n])
        for name, rows in told(job.push(tables(batch, id_))):
            got[name] += rows
        id_ += len(batch)
        if limited and world["restarts"][n]:
            job.restart()
        if change and n == world["changes"]:
            for name, rows in told(job.complete()):
                got[name] += rows
            changed = {**dict(list(names.items())[1:]), "late": LATE_US}
            outcome = job.change(spec_of(changed, world["keyed"], world["lateness"]))
            complete = outcome["late"].complete_from["late"]
    for name, rows in told(job.push({}, ended=True)):
        got[name] += rows
    return Ran(got, job, complete)


def right_pair(world: dict, a: int, b: int) -> bool:
    """Whether rows of these numbers may be a pair of `late`."""
    (_, a_ts, a_k), (_, b_ts, b_k) = (list(chain(*world["batches"]))[n] for n in (a, b))
    return abs(a_ts - b_ts) < LATE_US and (a_k == b_k or not world["keyed"])


def microseconds(ts: datetime) -> int:
    return (ts - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


NEW_QUERY_UNTIL_RESTART = {
    "batches": [[], [("A", 3, 1), ("A", 4, 1), ("B", 5, 1)], [], [("A", 9, 1), ("B", 9, 1)], [], []],
    "windows": [1],
    "keyed": False,
    "lateness": 0,
    "limits": [WorkLimit(limit_ns=1 if n == 3 else None, scheduler="auto") for n in range(6)],
    "restarts": [False] * 6,
    "run_length": None,
    "changes": 2,
}
"""Work is left when the state is built again, and then a row is back that had left before `late` came."""


@pytest.mark.slow
@settings(max_examples=4 * EXAMPLES, deadline=None)
@example(NEW_QUERY_UNTIL_RESTART, True)
@given(worlds(), st.booleans())
def test_work_that_spans_micro_batches_gives_every_query_its_rows_in_order_and_once(world, change):
    want, plain, complete = run(world, False, change=change)
    got, job, _ = run(world, True, change=change)
    again = list((Counter(got["late"]) - Counter(want["late"])).elements())
    assert len({*again, *want["late"]}) == len(again) + len(want["late"]), "no row comes twice"
    assert all(microseconds(ts) < complete and right_pair(world, a, b) for ts, a, b in again), again
    for name, rows in want.items():
        found = [row for row in got[name] if name != "late" or row not in again]
        assert sorted(found) == sorted(rows), name
        assert [row[0] for row in got[name]] == sorted(row[0] for row in got[name]), name
    for mine, other in zip(job.counters(), plain.counters(), strict=True):
        assert mine.pairs == other.pairs + len(again) and mine.inserted == other.inserted, "each pair is found once"
        assert mine.state_rows == mine.held_rows == [0, 0], "an ended job keeps nothing"
    assert not job.shards[0][0].log and not job.shards[0][0].operator.left_work


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_shards_leave_work_each_for_itself(world):
    want, got = run(world, False, 2)[0], run(world, True, 2)[0]
    assert {name: sorted(rows) for name, rows in got.items()} == {name: sorted(rows) for name, rows in want.items()}


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_an_attempt_from_the_chunks_does_what_one_from_memory_did_row_by_row(world):
    """What the driver counts on: it skips as many rows of a second attempt as it has had from the first."""
    hot = run({**world, "restarts": [False] * 9}, True)[0]
    assert run({**world, "restarts": [True] * 9}, True)[0] == hot


def test_rows_that_tie_with_rows_that_are_done_are_not_left():
    """After a restart, what is left is told from what is done by its time alone."""
    limits = [WorkLimit(), WorkLimit(limit_ns=1, scheduler="swf"), WorkLimit()]
    batches = [[("A", 0, 1), ("A", 6, 1), ("A", 11, 1), ("B", 10, 1)], [("B", 10, 1), ("B", 12, 1)], [("A", 15, 1)]]
    world = {"batches": batches, "limits": limits, "restarts": [True] * 3, "windows": [11, 4, 9], "run_length": 5}
    world |= {"keyed": True, "lateness": 0, "changes": 9}
    assert run(world, True)[0] == run(world, False)[0]


def test_rows_that_had_left_before_a_larger_window_came_are_back_with_a_restart_or_without():
    """Their chunk is still there for a younger row: a second attempt finds them in it, and so must the first."""
    batches = [[("B", 1, 1), ("B", 4, 1)], [], [("A", 9, 1), ("B", 8, 1)], []]
    world = {"batches": batches, "windows": [1, 1, 6], "keyed": False, "lateness": 0, "run_length": None}
    world |= {"limits": [WorkLimit()] * 4, "changes": 2}
    hot, cold = (run({**world, "restarts": [False] * 3 + [last]}, True, change=True)[0] for last in (False, True))
    assert hot == cold and (2, 0) in [(a, b) for _, a, b in hot["late"]]


def burst(keys: int = 1) -> list[Row]:
    return [(stream, ts, ts % keys) for ts in range(60) for stream in "AB"]


def limited(job: LocalJob, units: float, **more: object) -> None:
    job.limit_work(replace(WorkLimit(), limit_ns=int(units * UNIT_NS), **more))


def test_a_small_window_is_served_from_new_rows_while_a_large_one_catches_up():
    job = LocalJob(spec_of({"small": 2, "large": 1000}), run_length=4, checks=True)
    limited(job, 40, scheduler="swf")
    first = job.push(tables(burst()))
    assert first["small"].num_rows > 100 and first["large"].num_rows < 1000
    operator = job.shards[0][0].operator
    assert operator.left_work and operator.progress.settled < operator.joined[0] <= operator.release
    assert operator.left_work.held_pairs > 0
    limited(job, 5, scheduler="swf")
    more = tables([("A", 70, 0), ("B", 71, 0), ("A", 72, 0), ("B", 73, 0)], 1000)
    second = job.push(more)
    assert second["small"].num_rows > 0, "rows that came later are served before the burst is done"
    assert operator.left_work
    limited(job, 10_000)
    third = job.push({})
    plain = LocalJob(spec_of({"small": 2, "large": 1000}))
    want = [
        plain.push(tables(burst())),
        plain.push(tables([("A", 70, 0), ("B", 71, 0), ("A", 72, 0), ("B", 73, 0)], 1)),
    ]
    for name in ("small", "large"):
        parts = (first, second, third)
        assert sum(part[name].num_rows for part in parts) == sum(part[name].num_rows for part in want)
    assert not operator.left_work


def test_no_window_is_passed_over_for_longer_than_it_may():
    job = LocalJob(spec_of({"small": 2, "large": 1000}), run_length=4, checks=True)
    limited(job, 1, scheduler="swf")
    job.push(tables(burst()))
    operator = job.shards[0][0].operator
    before = operator.progress.settled
    limited(job, 1, scheduler="swf", until=30)
    job.push({})
    assert before < 30 <= operator.progress.settled < operator.release


def test_pairs_that_wait_are_bounded():
    spec = spec_of({"small": 20, "large": 1000})
    free = LocalJob(spec, run_length=4, checks=True)
    tight = LocalJob(replace(spec, settings=replace(spec.settings, held_limit_bytes=32_000)), run_length=4, checks=True)
    for job in (free, tight):
        limited(job, 18, scheduler="swf")
        job.push(tables(burst()))
    held = [job.shards[0][0].operator.left_work.held_pairs for job in (free, tight)]
    assert held[1] < held[0] and held[1] * 32 <= 32_000 + 32 * 4 * 20


@pytest.mark.parametrize("scheduler", SCHEDULERS.names)
def test_the_limit_bounds_the_work_of_a_micro_batch(scheduler):
    job = LocalJob(spec_of({"small": 2, "large": 1000}), run_length=4)
    operator, done = job.shards[0][0].operator, []
    limited(job, 6, scheduler=scheduler)
    batch = tables(burst())
    for _ in range(200):
        before = operator.counters.comparisons
        job.push(batch)
        done.append(operator.counters.comparisons - before)
        batch = {}
        if not operator.left_work:
            break
    assert len(done) > 3 and max(done) < sum(done) / 2, "no micro-batch did most of the work"
