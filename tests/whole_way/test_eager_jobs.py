"""Jobs with eager delivery whose work spans micro-batches, on a stand-in for Spark: killed, tried again and changed."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import TaskContext

from muntin import read
from muntin.core.schedule import ScheduledWork
from muntin.model import JobSpec, MuntinError, UsageError
from muntin.plan import granularity
from muntin.spark.checkpoint.commit_log import last_manifest
from muntin.spark.run import Job, Run
from muntin.spark.shard import eager_sender
from muntin.sql import parse_job
from muntin.testing import LocalJob
from whole_way.drive import kept_apart
from whole_way.stand_in import Session
from whole_way.tasks import ATTEMPTS, DEATHS, Killed, TaskDied

WINDOWS = {"small": 3, "middle": 20, "large": 400}


def spec_of(
    *queries: str,
    shards: int = 2,
    delivery: str = "eager",
    work: str = "500 microseconds",
    idle: str = "",
    more: str = "",
) -> JobSpec:
    eager = f"SET work_per_batch = '{work}'; SET longest_wait = '1 hour'; SET scheduler = 'swf';"
    text = f"SET shards = {shards}; SET delivery = '{delivery}';" + (eager if delivery == "eager" else "")
    for name in "AB":
        text += f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT) TIMESTAMP BY ts{idle} "
        text += f"WITH (format = 'x', name = '{name}', maxFilesPerTrigger = '1');"
    for name in queries or WINDOWS:
        text += f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k "
        text += f"WINDOW {WINDOWS[name]} microseconds;"
    return parse_job(text + more)


def file(rng: random.Random, number: int, rows: int) -> pa.Table:
    times = sorted(rng.randrange(20 * number, 20 * number + 15) for _ in range(rows))
    columns = [times, [1000 * number + n for n in range(rows)], [rng.randrange(3) for _ in range(rows)]]
    kinds = (pa.timestamp("us", "UTC"), pa.int64(), pa.int64())
    return pa.table([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)], names=["ts", "id", "k"])


def _us(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return round(since.total_seconds() * 1e6)


class Place:
    """One checkpoint with two streams; `tick` runs micro-batches until nothing is left to do, or at most so many."""

    def __init__(self, root: Path, seed: int):
        self.session, self.root, self.rng = Session(seed), root, random.Random(seed)
        self.checkpoint, self.out, self.files = root / "ckpt", root / "out", 0

    def come(self, rows: int = 12) -> None:
        for name in "AB":
            self.session.files[name].append(file(self.rng, self.files, rows))
        self.files += 1

    def start(self, mode: str = "endless", spec: JobSpec | None = None) -> Run:
        job = Job(self.session, spec or spec_of())  # type: ignore[arg-type]
        return job.start(output=self.out, checkpoint=self.checkpoint, mode=mode)

    def tick(self, most: int = 1000) -> bool:
        query = self.session.queries[-1]
        while most and query.isActive and query.step():
            most -= 1
        return query.isActive

    @property
    def left(self) -> int:
        return sum(report.left_rows for report in last_manifest(self.checkpoint).reports.values())

    def rows(self, query: str) -> list[tuple[int, int, int]]:
        found = []
        for path in sorted((self.out / query).glob("*.jsonl")):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                found.append((_us(row["_ts"]), row["a"], row["b"]))
        return found

    def wanted(self, query: str) -> list[tuple[int, int, int]]:
        job = LocalJob(spec_of(query, delivery="batch"))
        table = job.push({name: pa.concat_tables(self.session.files[name]) for name in "AB"}, ended=True)[query]
        columns = table["_ts"].cast(pa.int64()), table["a"], table["b"]
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    def check(self, *queries: str) -> None:
        for query in queries or WINDOWS:
            got, wanted = self.rows(query), self.wanted(query)
            assert wanted and sorted(got) == sorted(wanted), query
            assert [row[0] for row in got] == sorted(row[0] for row in got), query


@pytest.fixture
def place(tmp_path: Path, request: Any) -> Iterator[Place]:
    place = Place(tmp_path, getattr(request, "param", 0))
    fine = mock.patch.object(granularity, "SHARE", 1e6)  # runs of one row, and each window a level
    with kept_apart(tmp_path), fine:
        yield place


@pytest.mark.slow
@pytest.mark.parametrize("place", range(6), indirect=True)
def test_work_that_spans_micro_batches_is_delivered_once_and_in_order_whoever_dies(place: Place):
    place.session.faults.rate = 0.2
    run, deaths, spanned = place.start(), 0, 0
    for _ in range(5):
        place.come()
        for kill in [None, place.rng.choice(DEATHS)]:
            place.session.faults.kill = kill
            if not place.tick(place.rng.randrange(1, 4)):
                with pytest.raises(MuntinError) as died:
                    run.await_termination()
                assert isinstance(died.value.__cause__, Killed), died.value
                deaths += 1
                place.session.faults.kill = None
                run = place.start()
            place.session.faults.kill = None
            spanned += place.left > 0
    assert deaths and spanned > 3
    run.stop()
    assert place.start("bounded").await_termination(120)
    assert place.left == 0 and last_manifest(place.checkpoint).held == 0
    place.check()


@pytest.mark.slow
def test_a_small_window_is_served_while_a_large_one_waits_and_the_job_wakes_by_itself(place: Place):
    run = place.start(spec=spec_of(shards=1))
    place.come(40)
    place.tick(3)
    assert place.left > 0, "three micro-batches of a few units each"
    done = {name: len(place.rows(name)) / len(place.wanted(name)) for name in WINDOWS}
    assert done["small"] > 2 * done["large"], done
    held = run.status()["joins"][0]
    assert held["left_rows"] == place.left and held["waits_for"] is None
    place.tick()
    assert place.left == 0, "messages wake the job until all is done, though no rows come"
    run.stop()
    assert place.start("bounded", spec_of(shards=1)).await_termination(60)
    place.check()


def test_queries_change_when_the_work_before_them_is_done(place: Place):
    run = place.start(spec=spec_of("small", "large"))
    place.come(30)
    place.tick(2)
    assert place.left > 0
    before = place.wanted("large")
    run._router.submit("DROP QUERY large;")
    run._prepare_output()
    place.tick(1)
    assert place.rows("large") == [] or [r[0] for r in place.rows("large")] == sorted(r[0] for r in place.rows("large"))
    place.tick()
    reached = max(report.release for report in last_manifest(place.checkpoint).reports.values())
    assert sorted(place.rows("large")) == sorted(row for row in before if row[0] <= reached)
    run.stop()


def test_a_query_that_comes_while_units_wait_begins_when_they_are_done(place: Place):
    run = place.start(spec=spec_of("small", "large"))
    place.come(30)
    place.tick(2)
    assert place.left > 0
    text = "CREATE QUERY middle AS SELECT A.id AS a, B.id AS b FROM A, B WHERE A.k = B.k WINDOW 20 microseconds;"
    run._router.submit(text)
    run._prepare_output()
    place.tick(1)
    for _ in range(3):
        place.come()
        place.tick()
    assert place.left == 0
    status = run.status()["queries"]["middle"]
    run.stop()
    assert place.start("bounded", spec_of("small", "large", "middle")).await_termination(120)
    place.check("small", "large")
    complete, got = _us(status["complete_from"]), place.rows("middle")
    wanted = place.wanted("middle")
    assert set(got) <= set(wanted) and len(set(got)) == len(got)
    later = sorted(row for row in wanted if row[0] >= complete)
    assert later and sorted(row for row in got if row[0] >= complete) == later


@pytest.mark.slow
@pytest.mark.parametrize("place", range(3), indirect=True)
def test_a_shard_that_dies_in_the_middle_of_its_units_is_tried_again_and_nothing_comes_twice(place: Place):
    """Every unit is sent at once, so what an attempt had found was handed over when it died."""
    steps, deaths = Counter[str](), list[str]()
    step = ScheduledWork.step

    def mortal(work: ScheduledWork) -> Any:
        steps["units"] += 1
        if steps["units"] % 17 == 0 and TaskContext.get().taskAttemptId() >> 40 < ATTEMPTS - 1:
            deaths.append("in a unit")
            raise TaskDied("died in a unit")
        return step(work)

    with mock.patch.object(ScheduledWork, "step", mortal), mock.patch.object(eager_sender, "MOMENT_S", 0.0):
        run = place.start()
        for _ in range(4):
            place.come()
            place.tick(3)
        run.stop()
        assert place.start("bounded").await_termination(120)
    assert len(deaths) >= 3 and place.left == 0
    place.check()


SUMS = """CREATE QUERY sums AS SELECT A.k, COUNT(*) AS n, SUM(B.id) AS s FROM A, B WHERE A.k = B.k GROUP BY A.k
WINDOW 30 microseconds EMIT CHANGES;"""


def with_sums(delivery: str = "eager") -> JobSpec:
    return spec_of("small", "large", delivery=delivery, more=SUMS)


def wanted_sums(place: Place) -> list[dict[str, Any]]:
    job = LocalJob(with_sums("batch"))
    return job.push({n: pa.concat_tables(place.session.files[n]) for n in "AB"}, ended=True)["sums"].to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("place", range(3), indirect=True)
def test_aggregates_go_out_with_their_micro_batch_beside_rows_that_leave_as_they_are_found(place: Place):
    """Exactly once, whoever dies. Their join leaves no work to the next micro-batch."""
    place.session.faults.rate = 0.2
    run, deaths = place.start(spec=with_sums()), 0
    for kill in [None, *place.rng.sample(DEATHS, 4)]:
        place.come()
        place.session.faults.kill = kill
        if not place.tick(2):
            with pytest.raises(MuntinError):
                run.await_termination()
            deaths += 1
            place.session.faults.kill = None
            run = place.start(spec=with_sums())
        place.session.faults.kill = None
        assert place.left == 0
    assert deaths
    run.stop()
    done = place.start("bounded", with_sums())
    assert done.await_termination(120)
    place.check("small", "large")
    got, wanted = read(place.out, "sums").to_table().to_pylist(), wanted_sums(place)
    assert wanted and sorted(map(str, got)) == sorted(map(str, wanted))
    assert [row["_ts"] for row in got] == sorted(row["_ts"] for row in got)
    assert done.status()["queries"]["sums"]["total_rows"] == len(wanted)


def test_a_socket_and_a_callable_get_aggregates_as_well(place: Place, tmp_path: Path):
    place.come(30)
    got: list[tuple[str, pa.Table]] = []
    job = Job(place.session, with_sums())  # type: ignore[arg-type]
    run = job.start(sink=lambda name, table, _: got.append((name, table)), checkpoint=tmp_path / "one", mode="bounded")
    assert run.await_termination(60)
    wanted = wanted_sums(place)
    assert [row for name, table in got if name == "sums" for row in table.to_pylist()] == wanted != []
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines: list[bytes] = []

        def listen() -> None:
            with server.accept()[0] as connection, connection.makefile("rb") as file:
                lines.extend(file)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        job = Job(place.session, with_sums())  # type: ignore[arg-type]
        run = job.start(
            output=f"tcp://127.0.0.1:{server.getsockname()[1]}", checkpoint=tmp_path / "two", mode="bounded"
        )
        assert run.await_termination(60)
        listener.join(60)
    rows = [json.loads(line) for line in lines]
    assert [(row["k"], row["n"], row["s"]) for row in rows if row["_query"] == "sums"] == [
        (row["k"], row["n"], row["s"]) for row in wanted
    ]
    assert {row["_query"] for row in rows} == {"small", "large", "sums"}


JUMPS_S = (0.0, 86_400.0, -86_400.0, 0.001, -3_600.0, 40 * 365 * 86_400.0)


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["eager", "batch"])
def test_a_clock_that_jumps_changes_no_row_and_no_count(place: Place, delivery: str):
    """Forwards and back between micro-batches: pacing and silence go by another clock, and no time is negative."""
    jumps, now, now_ns = [0.0], time.time, time.time_ns
    with (
        mock.patch("time.time", lambda: now() + jumps[0]),
        mock.patch("time.time_ns", lambda: now_ns() + int(jumps[0] * 1e9)),
    ):
        run = place.start(spec=spec_of(delivery=delivery, idle=" IDLE AFTER 1 hour"))
        for jump in JUMPS_S:
            jumps[0] = jump
            place.come()
            place.tick(2)
            assert run.status()["joins"][0]["idle"] == [False, False], "a clock that jumps makes no stream silent"
        place.tick()
        assert place.left == 0
        for name, query in run.status()["queries"].items():
            response = query["response"]
            assert response["rows"] == query["total_rows"] > 0, name
            assert 0 < response["mean_s"] <= response["max_s"] and response["p50_s"] <= response["p99_s"]
        run.stop()
        jumps[0] = -86_400.0
        assert place.start("bounded", spec_of(delivery=delivery)).await_termination(120)
    if delivery == "eager":
        place.check()
    else:
        found = {query: read(place.out, query).to_table() for query in WINDOWS}
        assert {q: table.num_rows for q, table in found.items()} == {q: len(place.wanted(q)) for q in WINDOWS}


def test_batch_delivery_is_refused_while_eager_work_is_left(place: Place):
    run = place.start()
    place.come(30)
    place.tick(2)
    run.stop()
    left = place.left
    assert left > 0
    with pytest.raises(UsageError, match=f"{left} rows of a run with delivery = 'eager' have work left") as refused:
        place.start(spec=spec_of(delivery="batch"))
    assert "--available-now" in str(refused.value.hint)
    assert place.start("available-now").await_termination(60) and place.left == 0


@pytest.mark.slow
def test_rows_on_their_way_that_are_lost_or_damaged_are_noticed(place: Place):
    run = place.start()
    place.come(30)
    for _ in range(60):
        place.tick(1)
        if last_manifest(place.checkpoint).held:
            break
    last = last_manifest(place.checkpoint)
    kept = place.checkpoint / "muntin" / "held" / f"{last.batch:010d}.frame"
    assert last.held and kept.exists()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert not place.tick(1)
    with pytest.raises(MuntinError, match="rows on their way to the output, is damaged"):
        run.await_termination(60)
    kept.unlink()
    with pytest.raises(MuntinError, match="rows on their way to the output, is missing"):
        place.start("available-now").await_termination(60)
    kept.write_bytes(whole)
    assert place.start("bounded").await_termination(60)
    place.check()
