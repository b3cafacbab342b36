"""Queries that ask for the past and go over into the shared join, on a stand-in for Spark: each row once, in order."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.cli.main import main
from muntin.model import MuntinError, UsageError
from muntin.spark.checkpoint import pipeline_folder, pipeline_numbers, read_take_over, requests
from muntin.spark.ingest import sources
from muntin.spark.run import Job, Run
from muntin.sql import parse_job
from whole_way.drive import kept_apart, tuples
from whole_way.stand_in import Session

STREAMS = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts LATENESS 2 microseconds WITH (format = 'x', "
    f"name = '{name}', maxFilesPerTrigger = '1');"
    for name in "AB"
)
Q = "CREATE QUERY q AS SELECT A.ts AS t, B.ts AS u FROM A, B WHERE A.k = B.k WINDOW 3 microseconds;"
PAIRS = "SELECT A.ts AS t, B.ts AS u FROM A, B WHERE A.k = B.k WINDOW 7 microseconds;"
LEFT = (
    "SELECT A.ts AS t, B.ts AS u FROM A LEFT JOIN B ON A.k = B.k "
    "AND A.ts BETWEEN B.ts - INTERVAL 4 microseconds AND B.ts;"
)
COUNTS = "SELECT A.k AS k, COUNT(*) AS n FROM A, B WHERE A.k = B.k GROUP BY A.k WINDOW 7 microseconds;"
DEATHS = [
    None,
    *(f"{when} {what}" for when in ("before", "after") for what in ("take-over", "plan", "manifest", "commit", "job")),
    "after control message",
    "after rename",
    "before state removed",
]
PAST = "CREATE QUERY p {} AS {}"


class Place:
    """A job that lives through many short runs; rows come in files that are hardly ever late."""

    def __init__(self, root: Path, seed: int = 0):
        self.session, self.root, self.dice, self.now = Session(seed), root, random.Random(seed), 0

    def come(self, count: int = 3) -> None:
        """One file for each stream, of times that both go through; ties and neighbours in the wrong order too."""
        for name in "AB":
            times = sorted(self.now + self.dice.randrange(6) for _ in range(count))
            columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": [self.dice.randrange(2) for _ in times]}
            self.session.files[name].append(pa.table(columns))
        self.now += 6

    def start(self, sql: str, mode: str = "available-now", **more: Any) -> Run:
        job = Job(self.session, parse_job(sql))  # type: ignore[arg-type]
        return job.start(output=self.root / "out", checkpoint=self.root / "ckpt", mode=mode, **more)

    def run(self, sql: str, mode: str = "available-now", kill: str | None = None) -> bool:
        """Run what is there; False where it died."""
        self.session.faults.kill = kill
        try:
            self.start(sql, mode).await_termination(60)
        except (MuntinError, RuntimeError) as error:
            assert kill and "killed" in str(error), error
            return False
        finally:
            self.session.faults.kill = None
        return True

    def files(self, query: str) -> list[Path]:
        return sorted((self.root / "out" / query).glob("[abp]*.parquet"))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [row for file in self.files(query) for row in tuples(pq.read_table(file, partitioning=None))]

    def live(self) -> list[int]:
        ckpt = self.root / "ckpt"
        return [n for n in pipeline_numbers(ckpt) if (pipeline_folder(ckpt, n) / "muntin" / "plans").exists()]


@pytest.fixture
def readable() -> Iterator[None]:
    known = mock.patch.object(sources, "FILE_FORMATS", ("x",)), mock.patch.object(sources, "check_source")
    with known[0], known[1]:
        yield


def check(place: Place, root: Path, select: str, since: int | None = None) -> None:
    """The rows of p are those of a job that had it from the start, in order, and q has all of its own."""
    alone = Place(root)
    alone.session.files = place.session.files
    with kept_apart(root):
        alone.run(STREAMS + Q + PAST.format("", select), "bounded")
    for query in ("q", "p"):
        found = place.rows(query)
        want = [row for row in alone.rows(query) if query == "q" or since is None or row[-1] >= since]
        assert Counter(found) == Counter(want), query
        assert [row[-1] for row in found] == sorted(row[-1] for row in found), query


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize("select", [PAIRS, LEFT, COUNTS], ids=["pairs", "left", "counts"])
@pytest.mark.parametrize("seed", range(int(os.environ.get("MUNTIN_LIVES", "2"))))
@pytest.mark.slow
def test_each_row_comes_once_and_in_order_however_the_job_dies(tmp_path: Path, select: str, seed: int):
    place = Place(tmp_path / "job", seed)
    dice = random.Random(f"lives {seed} {select}")
    text = STREAMS + Q
    with kept_apart(tmp_path):
        (tmp_path / "job").mkdir()
        for _ in range(dice.randint(1, 5)):
            place.come()
        place.run(text)
        text += PAST.format("FROM BEGINNING", select)
        for _ in range(8):
            for _ in range(dice.randint(0, 2)):
                place.come()
            place.run(text, kill=dice.choice(DEATHS))
        for _ in range(4):
            place.come()
            assert place.run(text)
        assert place.live() == [0], "the past is read, and its pipeline has gone"
        assert place.run(text, "bounded")
    record = read_take_over(pipeline_folder(place.root / "ckpt", 1))
    assert record is not None and record.at is not None and record.stays is None
    assert {file.name[0] for file in place.files("p")} == {"a", "b"}, "both pipelines have published rows"
    check(place, tmp_path / "alone", select)


@pytest.mark.usefixtures("readable")
def test_rows_before_the_time_that_a_query_asks_for_are_left_out(tmp_path: Path):
    """With a job that runs already, and with one that begins: what goes out is the same."""
    place = Place(tmp_path / "job")
    since = PAST.format("SINCE '1970-01-01 00:00:00.000011'", PAIRS)
    with kept_apart(tmp_path):
        for _ in range(4):
            place.come()
        place.run(STREAMS + Q)
        for _ in range(4):
            place.come()
            place.run(STREAMS + Q + since)
        place.run(STREAMS + Q + since, "bounded")
        begun = Place(tmp_path / "begun")
        begun.session.files = place.session.files
        begun.run(STREAMS + Q + since, "bounded")
    assert {file.name[0] for file in place.files("p")} == {"a", "b"}
    check(place, tmp_path / "alone", PAIRS, since=11)
    assert Counter(begun.rows("p")) == Counter(place.rows("p")) and place.rows("p")


@pytest.mark.usefixtures("readable")
def test_the_shared_join_has_the_query_once_its_past_is_read_and_status_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    place = Place(tmp_path / "job")
    with kept_apart(tmp_path):
        for _ in range(3):
            place.come()
        place.run(STREAMS + Q)
        text, said, joins = STREAMS + Q + PAST.format("FROM BEGINNING", PAIRS), [], []
        for _ in range(5):
            place.come()
            run = place.start(text)
            run.await_termination(60)
            status = run.status()
            said.append(status["queries"]["p"].get("past"))
            joins.append(len(status["joins"]))
            assert "applied_from" not in status["queries"]["p"], "it has rows from the beginning on"
    assert said[0] is None and said[1] == "its past is being read, beside the shared join"
    assert said[-1].startswith("shared from 1970-01-01T00:00:00.0000") and said[-1].endswith(" on")
    assert main(["status", "--checkpoint", str(place.root / "ckpt")]) == 0
    assert f"query p: {said[-1]}" in " ".join(capsys.readouterr().out.split())
    assert joins[1] == 2 and joins[-1] == 1, "one join does what two did"
    assert status["queries"]["p"]["total_rows"] == len(place.rows("p"))
    assert status["dropped"] == {"queries": 0, "total_rows": 0}


@pytest.mark.usefixtures("readable")
@pytest.mark.parametrize("how", ["file", "request"])
def test_a_query_that_is_dropped_on_its_way_goes_from_both_pipelines(tmp_path: Path, how: str):
    place = Place(tmp_path / "job")
    text = STREAMS + Q + PAST.format("FROM BEGINNING", PAIRS)
    with kept_apart(tmp_path):
        for _ in range(3):
            place.come()
        place.run(STREAMS + Q)
        place.run(text)
        place.come()
        place.run(text)
        assert place.live() == [0, 1]
        place.come()
        if how == "request":
            requests.submit(place.root / "ckpt", "CREATE OR REPLACE QUERY p AS " + COUNTS)
            place.run(text)
            (refused,) = requests.answers(place.root / "ckpt").values()
            assert "is still on its way from the past into the shared join" in str(refused.error)
            requests.submit(place.root / "ckpt", "DROP QUERY p")
            place.come()
            place.run(text)
        place.come()
        place.run(STREAMS + Q)
        gone = len(place.rows("p"))
        assert place.live() == [0]
        place.come()
        place.run(STREAMS + Q, "bounded")
    assert len(place.rows("p")) == gone
    times = [row[-1] for row in place.rows("p")]
    assert times == sorted(times) and len(place.rows("q")) > gone / 3


@pytest.mark.usefixtures("readable")
def test_a_query_whose_totals_nobody_can_take_over_stays_where_it_is_and_says_why(tmp_path: Path):
    place = Place(tmp_path / "job")
    rows = "SELECT A.ts AS t, B.ts AS u FROM A [ROWS 3], B [ROWS 3] WHERE A.k = B.k;"
    text = STREAMS + Q + PAST.format("FROM BEGINNING", rows)
    with kept_apart(tmp_path):
        place.come()
        place.run(STREAMS + Q)
        for _ in range(3):
            place.come()
            run = place.start(text)
            run.await_termination(60)
        assert run.status()["queries"]["p"]["past"] == "by itself: its window counts rows"
        assert place.live() == [0, 1]
        place.run(text, "bounded")
    check(place, tmp_path / "alone", rows)


@pytest.mark.parametrize(
    ("clause", "us"),
    [
        ("SINCE '1970-01-02'", 86_400_000_000),
        ("SINCE '1970-01-01 01:00:00+01:00'", 0),
        ("since '1970-01-01T00:00:00.5'", 500_000),
    ],
)
def test_a_time_is_read_and_stays_in_the_text(clause: str, us: int):
    query = parse_job(STREAMS + PAST.format(clause, PAIRS)).queries["p"]
    assert query.from_beginning and query.since_us == us
    assert query.text.startswith(f"CREATE QUERY p {clause} AS SELECT")
    assert datetime.fromtimestamp(us / 1e6, UTC).year == 1970


@pytest.mark.parametrize(
    ("clause", "why"),
    [("SINCE 5", "expected a time in quotes after SINCE"), ("SINCE 'noon'", "'noon' is not a time")],
)
def test_what_is_no_time_is_refused(clause: str, why: str):
    with pytest.raises(UsageError, match=why):
        parse_job(STREAMS + PAST.format(clause, PAIRS))
