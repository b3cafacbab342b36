"""A job that starts again otherwise than before, on a stand-in for Spark: what goes on, and what is refused.

Random jobs change their lateness, strategy and columns too (`random_jobs.py`), and are held against both judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint import stored_job
from muntin.spark.run import Job, Run
from muntin.sql import parse_job
from whole_way.drive import kept_apart, tuples
from whole_way.stand_in import Session

STREAMS = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
Q = "CREATE QUERY q AS SELECT A.k AS a, A.ts AS t, B.ts AS u FROM A, B WHERE A.k = B.k WINDOW 9 microseconds;"
WIDE = STREAMS.replace("k BIGINT", "v BIGINT, k BIGINT")
V = "CREATE QUERY v AS SELECT A.ts AS t, A.v AS v, B.v AS w FROM A, B WHERE A.k = B.k WINDOW 9 microseconds;"


class Place:
    """A checkpoint and an output; the files of both streams have a column more than is declared at first."""

    def __init__(self, root: Path):
        self.session, self.root = Session(), root

    def come(self, *times: int) -> None:
        for name in "AB":
            columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": [7] * len(times), "v": list(times)}
            self.session.files[name].append(pa.table(columns))

    def start(self, sql: str, mode: str = "available-now") -> Run:
        job = Job(self.session, parse_job(sql))  # type: ignore[arg-type]
        return job.start(output=self.root / "out", checkpoint=self.root / "ckpt", mode=mode)

    def run(self, sql: str, mode: str = "available-now") -> Run:
        run = self.start(sql, mode)
        assert run.await_termination(60)
        return run

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        files = sorted((self.root / "out" / query).glob("[!0_]*.parquet"))
        return [row for file in files for row in tuples(pq.read_table(file, partitioning=None))]

    def reasons(self) -> list[str]:
        files = sorted((self.root / "out" / "_dead_letters").glob("*b*.parquet"))
        return [reason for file in files for reason in pq.read_table(file)["reason"].to_pylist()]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with kept_apart(tmp_path):
        yield Place(tmp_path)


@pytest.mark.parametrize("kill", [None, "before state", "before commit"])
def test_a_column_more_is_null_in_the_rows_of_before(place: Place, kill: str | None):
    place.come(10, 12)
    place.session.faults.kill = kill
    try:
        place.run(STREAMS + Q)
    except MuntinError:
        assert kill
    place.come(14)
    run = place.run(WIDE + Q + V)
    assert {"stream A, column v: new", "stream B, column v: new", "query v: new"} <= set(run.differences)
    place.come(16)
    place.run(WIDE + Q + V, "bounded")
    times = [10, 12, 14, 16]
    want = [(7, a, b, max(a, b)) for a in times for b in times if abs(a - b) < 9]
    assert sorted(place.rows("q")) == sorted(want)
    known = {10: None, 12: None, 14: 14, 16: 16}  # a micro-batch that was begun goes by the job of then
    found = place.rows("v")
    assert [row[-1] for row in found] == sorted(row[-1] for row in found)
    sure = [(a, known[a], known[b], max(a, b)) for a in times for b in times if max(a, b) > 14]
    assert Counter(row for row in found if row[-1] > 14) == Counter(sure)


def test_a_lateness_that_grows_takes_back_no_frontier_and_one_that_shrinks_counts_from_then_on(place: Place):
    late = [STREAMS.replace("BY ts WITH", f"BY ts LATENESS {us} microseconds WITH") + Q for us in range(7)]
    place.come(10, 20)
    place.run(late[2])
    place.come(17, 19)  # 17 is late for the lateness of before, though not for that of now
    run = place.run(late[6])
    assert run.differences == [f"stream {s}, lateness: was 2 us, is 6 us" for s in "AB"]
    place.come(30)
    place.run(late[6])
    place.come(26)
    place.run(late[1])
    place.come(25, 33)
    place.run(late[1], "bounded")
    taken = [10, 20, 19, 30, 33]
    want = [(7, a, b, max(a, b)) for a in taken for b in taken if abs(a - b) < 9]
    assert sorted(place.rows("q")) == sorted(want)
    times = [row[-1] for row in place.rows("q")]
    assert times == sorted(times)
    assert len(place.reasons()) == 6 and not [reason for reason in place.reasons() if "idle" in reason]
    assert sorted({reason.split(" the frontier")[0] for reason in place.reasons()}) == [
        "late: 1e-06 s behind",
        "late: 3e-06 s behind",
        "late: 4e-06 s behind",
    ]


def test_other_options_of_a_source_are_taken_up_and_said(place: Place):
    place.come(10, 12)
    place.run(STREAMS + Q)
    place.come(14)
    run = place.run(STREAMS.replace("name = 'A'", "name = 'A', server = 'b'") + Q, "bounded")
    assert run.differences == ["stream A, server: was not set, is b"]
    assert len(place.rows("q")) == 9


@pytest.mark.parametrize("kill", ["before state", "before commit"])
def test_other_rules_do_not_count_for_a_micro_batch_that_is_in_the_output(place: Place, kill: str):
    place.come(10, 12)
    place.run(STREAMS + Q)
    place.come(14)
    place.session.faults.kill = kill
    with pytest.raises(MuntinError):
        place.run(STREAMS + Q)
    limited = "SET max_ahead = '1 hour';" + STREAMS
    if kill == "before commit":
        with pytest.raises(UsageError, match="micro-batch 1 is in the output, and Spark has not noted it") as refused:
            place.start(limited + Q)
        assert "max_ahead: was not set, is 1 h" in refused.value.message
        place.run(STREAMS + Q)
    run = place.run(limited + Q, "bounded")
    assert run.differences == ["max_ahead: was not set, is 1 h"]
    assert len(place.rows("q")) == 9


def test_a_job_that_is_refused_leaves_the_checkpoint_as_it_was(place: Place):
    place.come(10, 12)
    place.run(STREAMS + Q)
    before = stored_job(place.root / "ckpt")
    with pytest.raises(UsageError, match="stream A, column k: was bigint, is int; rows that are kept have that type"):
        place.start(STREAMS.replace("k BIGINT", "k INT") + Q)
    assert stored_job(place.root / "ckpt") == before
    place.run(STREAMS + Q, "bounded")
    assert len(place.rows("q")) == 4


def test_a_query_that_comes_after_a_strategy_that_kept_less_is_complete_when_its_window_has_filled(place: Place):
    """Rows that no selection wanted were not kept, though the strategy of now would have kept them."""
    some = Q.replace("A.k = B.k", "A.k = B.k AND A.k > 7")
    place.come(10, 12)
    place.run("SET strategy = 'state-slice';" + STREAMS + some)
    pulled = "SET strategy = 'pull-up';" + STREAMS
    place.come(14)
    place.run(pulled + some)
    every = Q.replace("QUERY q", "QUERY e")
    answers: list[Any] = []
    place.come(16)
    run = Job(place.session, parse_job(pulled + some)).start(  # type: ignore[arg-type]
        output=place.root / "out", checkpoint=place.root / "ckpt", mode="endless", on_change=answers.append
    )
    run._router.submit(every)
    query = place.session.queries[-1]
    while query.step():
        pass
    run.stop()
    (answer,) = [a for a in answers if a.state == "in force"]
    assert answer.complete_from is not None and answer.complete_from.microsecond == 12 + 1 + 9


def test_a_strategy_with_other_joins_is_refused_and_the_message_says_which_rows_it_would_cost(place: Place):
    more = Q.replace("QUERY q", "QUERY r").replace("WINDOW 9", "WINDOW 5")
    place.come(10, 12)
    place.run("SET strategy = 'state-slice';" + STREAMS + Q + more)
    why = r"strategy: was state-slice, is isolated; .*: begun without them, results up to 1970-01-01T00:00:00.000021 "
    with pytest.raises(UsageError, match=why + "would lack their pairs"):
        place.start("SET strategy = 'isolated';" + STREAMS + Q + more)
    place.run("SET strategy = 'pull-up';" + STREAMS + Q + more, "bounded")
    assert len(place.rows("q")) == len(place.rows("r")) == 4
