"""The whole way of a row without Spark: ingest, operator, frames, exchanges, sink tasks, manifests, restarts, status.

Tiny random jobs run with the code that ships on a stand-in for Spark (`stand_in.py`), and what they leave
behind is held against the oracle and against plain SQL in DuckDB (`compare.py`). MUNTIN_JOBS says how many there are,
and MUNTIN_FIRST the number of the first text, so that another soak brings other ones.
A job that fails is made smaller (`shrink.py`) and reported with the line that brings it back: MUNTIN_SEED is its text,
MUNTIN_LIFE its number (all jobs of the text without it), MUNTIN_WITHOUT what is left out of it.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.core.arrivals.sharding import shard_rows
from muntin.core.batch import TS
from muntin.model import JoinKind, Side
from muntin.plan import share
from muntin.spark.run import Job
from muntin.sql import parse_job
from whole_way.compare import Oracle, covered, raw_rows
from whole_way.drive import Outcome, kept_apart, tuples
from whole_way.judge import Judge
from whole_way.many import TOPS, Many
from whole_way.net import LIVES, again, cast, replay
from whole_way.queries import JOINS
from whole_way.random_jobs import MANY, Life, random_life, random_text
from whole_way.shrink import SEPARATOR, pieces_of, shrunk, without
from whole_way.stand_in import Session
from whole_way.tasks import DEATHS, STARTS

JOBS = int(os.environ.get("MUNTIN_JOBS", "1000"))
FIRST = int(os.environ.get("MUNTIN_FIRST", "0"))
STRIDE = MANY if os.environ.get("MUNTIN_ONLY") == "trees" else 1
"""With it, only the texts over more than two streams are taken."""
CHUNKS = max(10, JOBS // 400)
"""The jobs are spread over so many tests, so that several processes share them and a fault stops few others."""
SEED, LIFE = os.environ.get("MUNTIN_SEED"), os.environ.get("MUNTIN_LIFE")
WITHOUT = os.environ.get("MUNTIN_WITHOUT", "")
KINDS = ("plain", "changes", "every", "top", "final", "state-slice", "pull-up", "push-down", "isolated", "mem-opt",
         "cpu-opt", "sync-filter", "filter-order", "adaptive", "order key", "order global", "output files",
         "output sliced", "output none", "output callable", "1 shards", "2 shards", "3 shards", "4 shards",
         "promises marks", "promises unique", "promises both", *(f"killed {point}" for point in (*DEATHS, *STARTS)),
         "tasks tried again", "hot state lost", "added", "dropped", "changed online", "idle", "until", "band",
         "empty band",
         "another lateness", "another strategy", "another column", "another shards", "JOIN", *JOINS,
         "3 streams", "4 streams", "over a query", "over two queries",
         "many plain", "many changes", "many every", "many top",
         *(f"many {join}" for join in ("JOIN", *TOPS)), "final JOIN", *(f"final {join}" for join in JOINS))  # fmt: skip
"""What some hundred jobs meet, if the random ones are as they should be."""


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_jobs_leave_behind_what_both_judges_say(chunk: int):
    texts = max(1, JOBS // LIVES // CHUNKS)
    seeds = range(FIRST + chunk * texts * STRIDE, FIRST + (chunk + 1) * texts * STRIDE, STRIDE)
    if SEED is not None and LIFE is not None:
        return replay(int(SEED), int(LIFE), WITHOUT.split(SEPARATOR)) if chunk == 0 else None
    if SEED is not None:
        seeds = range(int(SEED), int(SEED) + (chunk == 0))
    found = cast(seeds, Judge())
    assert not found.faults, f"after {found.jobs} jobs:\n" + "\n".join(found.faults)
    print(f"{found.jobs} jobs, {found.rows} rows wanted: {dict(found.covered)}")
    if SEED is None and texts >= 10:
        assert found.rows > 2 * found.jobs, "jobs without rows prove little"


def test_a_few_hundred_random_texts_are_of_every_kind():
    texts = [random_text(seed) for seed in range(500)]
    met = covered([random_life(text, n) for text in texts for n in range(LIVES)])
    assert not [kind for kind in KINDS if not met[kind]]


def test_a_job_that_fails_is_made_as_small_as_its_fault():
    """Without running it: the fault is a query beside a row of A, in a life that a kill has interrupted."""
    seeds = ((seed, n) for seed in range(100) for n in range(LIVES))
    lives = (random_life(random_text(seed), n) for seed, n in seeds)
    life = next(life for life in lives if len(life.steps) > 2 and life.steps[-1].kill and len(life.text.queries) > 2)
    row = life.steps[0].files["A"][0][0]["id"]

    def fails(smaller: Life) -> bool:
        rows = [row["id"] for step in smaller.steps for file in step.files["A"] for row in file]
        return row in rows and bool(smaller.steps[-1].kill) and "q1" in [q.name for q in smaller.text.queries]

    pieces = shrunk(life, fails)
    small = without(life, pieces)
    assert fails(small) and [file for step in small.steps for file in step.files["A"] if file]
    assert sum(len(file) for step in small.steps for files in step.files.values() for file in files) == 1
    assert len(small.steps) == 2 and [q.name for q in small.text.queries] == ["q0", "q1"] and not small.fault_rate
    assert without(life, again(1, 2, pieces).split("'")[1].split(SEPARATOR)) == small
    for piece in pieces_of(small):
        assert not fails(without(small, piece)) or without(small, piece) == small


@pytest.mark.slow
def test_random_queries_are_read_as_they_are_meant():
    for seed in range(80):
        text = random_text(seed)
        parsed = parse_job(text.sql([*text.queries, *text.spare])).queries
        for q in (*text.queries, *text.spare):
            read = parsed[q.name]
            if isinstance(q, Many):
                assert len(read.inputs) == len(q.items) - 2 and read.kind is q.join_kind, q.sql
                continue
            assert (read.window, read.kind, read.preserved) == (q.window, q.join_kind, q.preserved), q.sql
            assert read.subject == (q.about if q.join_kind is not JoinKind.PAIRS else None), q.sql


@pytest.mark.slow
def test_the_judges_agree_with_each_other_where_no_job_runs():
    judge, wanted = Judge(), Counter()
    for seed in range(160):
        text = random_text(seed)
        files = [step.files for step in random_life(text, 0).steps]
        batches = [
            {s: rows[n] for s, rows in step.items()} for step in files for n in range(min(map(len, step.values())))
        ]
        outcome = Outcome(batches, [set() for _ in batches], lateness=[text.lateness for _ in batches])
        judge.load(raw_rows(0, outcome), [])
        judge.bound(text, [outcome.lateness])
        told = Oracle(text, outcome)
        for q in (*text.queries, *text.spare):
            want, other = told.answer(q), judge.answer(text, q)[0]
            assert Counter(want) == Counter(other), f"{seed}: {q.sql}"
            wanted[q.join] += len(want)
    assert not [join for join in ("JOIN", *JOINS) if not wanted[join]]


SPARSE = """
SET shards = 2;
CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = 'A', maxFilesPerTrigger = '1');
CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = 'B', maxFilesPerTrigger = '1');
CREATE QUERY q AS SELECT A.k AS a, B.k AS b FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;
"""


def test_two_shards_with_a_pair_each_whose_left_rows_came_a_micro_batch_before(tmp_path: Path):
    """Sparse traffic as it is every night; the rows arrive, and the job goes on."""
    spec = parse_job(SPARSE)
    (join,) = share(spec).joins
    rows = pa.table({TS: pa.array(range(50), pa.int64()), "ts": _times(range(50)), "k": pa.array(range(50))})
    shards = shard_rows(join, Side.LEFT, rows, 2)
    k0, k1 = (part["k"][0].as_py() for part in shards)
    session = Session()
    session.files["A"] = [_file((10, k0), (10, k1)), _file((20, 88))]
    session.files["B"] = [_file((0, 77)), _file((10, k0), (10, k1), (20, 99))]
    with kept_apart(tmp_path):
        run = Job(session, spec).start(output=tmp_path / "out", checkpoint=tmp_path / "ckpt", mode="bounded")
        assert run.await_termination(60)
    found = pa.concat_tables(pq.read_table(f) for f in sorted((tmp_path / "out" / "q").glob("b*")))
    assert sorted(tuples(found)) == sorted([(k0, k0, 10), (k1, k1, 10)])
    assert run.status()["queries"]["q"]["total_rows"] == 2


def _times(values: range | list[int]) -> pa.Array:
    return pa.array(values, pa.timestamp("us", "UTC"))


def _file(*rows: tuple[int, int]) -> pa.Table:
    return pa.table({"ts": _times([ts for ts, _ in rows]), "k": pa.array([k for _, k in rows], pa.int64())})
