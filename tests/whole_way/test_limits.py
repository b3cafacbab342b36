"""A machine that runs out of something: the run ends with a message, and the next one leaves the rows of a good one.

Without Spark, with the code that ships. Full and read-only disks are small file systems of memory; where those cannot
be mounted, their tests are left out.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.core.policy import LimitError, Policy
from muntin.model import MuntinError, Settings
from muntin.spark.run import Job, read_status
from muntin.spark.shard import burst
from muntin.spark.shard.burst import machine_limit, taken
from muntin.sql import parse_job
from web.played import PlayedJob
from whole_way.drive import kept_apart, tuples
from whole_way.stand_in import Session

ROWS, FILES = 3000, 6
JOB = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
) + "CREATE QUERY q AS SELECT A.k AS a, B.ts AS t FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;"  # fmt: skip


class World:
    """A job over files that are all there."""

    def __init__(self, root: Path):
        self.root, self.session, self.spec = root, Session(), parse_job(JOB)
        self.output, self.checkpoint, self.temporary = (root / name for name in ("out", "ckpt", "tmp"))
        for folder in (self.output, self.checkpoint, self.temporary):
            folder.mkdir()
        for name in "AB":
            self.session.files[name] = [_file(n) for n in range(FILES)]

    def run(self) -> None:
        with kept_apart(self.temporary):
            place = {"output": self.output, "checkpoint": self.checkpoint}
            assert Job(self.session, self.spec).start(mode="available-now", **place).await_termination()  # type: ignore[arg-type]

    def rows(self) -> list[tuple[object, ...]]:
        return [row for file in sorted((self.output / "q").glob("b*")) for row in tuples(pq.read_table(file))]


def _file(number: int) -> pa.Table:
    times = range(number * ROWS, (number + 1) * ROWS)
    keys = [t % 997 for t in times]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array(keys, pa.int64())})


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    world = World(tmp_path_factory.mktemp("good"))
    world.run()
    assert len(world.rows()) == ROWS * FILES
    return world.rows()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


Mount = Callable[[Path, str], None]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Puts a file system of memory in a folder's place, or changes how it is mounted."""
    mounted: list[Path] = []

    def change(folder: Path, options: str) -> None:
        again = ["remount,"] if folder in mounted else [""]
        command = ["mount", "-t", "tmpfs", "-o", again[0] + options, "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        if folder not in mounted:
            mounted.append(folder)

    yield change
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["output", "checkpoint", "temporary"])
def test_a_full_disk_ends_the_run_by_name_and_the_next_one_goes_on(world: World, mount: Mount, wanted, part: str):
    folder: Path = getattr(world, part)
    mount(folder, {"output": "size=100k", "checkpoint": "size=28k", "temporary": "size=300k"}[part])
    with pytest.raises(MuntinError) as failure:
        world.run()
    assert "a disk is full" in failure.value.message, failure.value
    assert "make room" in (failure.value.hint or "")
    mount(folder, "size=100m")
    world.run()
    assert world.rows() == wanted


@pytest.mark.slow
def test_a_disk_that_becomes_read_only_ends_the_run_by_name_and_the_next_one_goes_on(
    world: World, mount: Mount, wanted
):
    mount(world.output, "size=100m")
    for name in "AB":
        world.session.files[name] = world.session.files[name][:2]
    world.run()
    for name in "AB":
        world.session.files[name] = [_file(n) for n in range(FILES)]
    mount(world.output, "size=100m,ro")
    with pytest.raises(MuntinError, match="read-only"):
        world.run()
    mount(world.output, "size=100m,rw")
    world.run()
    assert world.rows() == wanted


@pytest.mark.slow
def test_too_few_file_handles_end_the_run_by_name_and_the_next_one_goes_on(world: World, wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    least = next(n for n in range(len(used) + 1) if n not in used)
    resource.setrlimit(resource.RLIMIT_NOFILE, (least + 2, hard))
    try:
        with pytest.raises((MuntinError, OSError)) as failure:
            world.run()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "oo many open files" in str(failure.value)
    world.run()
    assert world.rows() == wanted


def test_a_burst_is_refused_while_it_comes():
    came: list[int] = []

    def frames() -> Iterator[bytes]:
        for n in range(100):
            came.append(n)
            yield bytes(100)

    with pytest.raises(LimitError) as failure:
        taken(frames(), 550)
    assert len(came) == 6, "what comes after is not even taken"
    assert "its share of batch_limit" in failure.value.message
    assert "maxBytesPerTrigger" in (failure.value.hint or "")
    assert len(taken(frames(), None)) == 100


def test_without_a_setting_the_machine_s_memory_is_the_limit(tmp_path: Path):
    assert Policy.of(Settings(), 4).batch_bytes is None
    assert Policy.of(Settings(batch_limit_bytes=1000), 4).batch_bytes == 250
    cores = len(os.sched_getaffinity(0))
    small = tmp_path / "memory.max"
    small.write_text(f"{1 << 30}\n")
    machine_limit.cache_clear()
    with mock.patch.object(burst, "CGROUP", small):
        assert machine_limit() == (1 << 30) // (burst.COPIES * cores)
    machine_limit.cache_clear()
    small.write_text("max\n")
    with mock.patch.object(burst, "CGROUP", small):
        assert machine_limit() > (1 << 30) // (burst.COPIES * cores)
    machine_limit.cache_clear()


def test_a_callable_that_blocks_holds_its_micro_batch_and_a_stop_waits_for_it(world: World):
    """A stop finishes the micro-batch, however long its sink takes; another start goes on after it."""
    entered, free, got = threading.Event(), threading.Event(), list[tuple[str, int]]()

    def sink(query: str, table: pa.Table, batch: int) -> None:
        entered.set()
        assert free.wait(60)
        got.append((query, batch))

    with kept_apart(world.temporary):
        job = Job(world.session, world.spec)  # type: ignore[arg-type]
        starting = threading.Thread(
            target=lambda: job.start(checkpoint=world.checkpoint, sink=sink, mode="available-now").await_termination()
        )
        starting.start()
        assert entered.wait(60)
        assert got == [] and read_status(world.checkpoint)["batches"] == 0
        free.set()
        starting.join(60)
    batches = [batch for _, batch in got]
    assert batches == sorted(batches) and set(batches) == set(range(FILES))


TINY = 500


@pytest.mark.slow
def test_hundreds_of_tiny_files_in_one_micro_batch_are_joined_at_once(tmp_path: Path):
    """Each partition of the input sends every shard its share; there are hundreds of them."""
    world = World(tmp_path)
    world.spec = parse_job(JOB.replace("maxFilesPerTrigger = '1'", "maxFilesPerTrigger = '5000'"))
    for name in "AB":
        world.session.files[name] = [_file(0).slice(n, 1) for n in range(TINY)]
    world.run()
    assert sorted(world.rows()) == sorted((t % 997, t, t) for t in range(TINY))
    assert read_status(world.checkpoint)["batches"] == 1


QUERIES = int(os.environ.get("MUNTIN_QUERIES", "60"))


@pytest.mark.slow
def test_many_queries_added_one_by_one_are_all_there_and_leave_few_files(tmp_path: Path):
    """MUNTIN_QUERIES=1000 adds a thousand."""
    with mock.patch.object(tempfile, "tempdir", str(tmp_path)):
        job = PlayedJob(tmp_path)
        job.tick()
        for n in range(QUERIES):
            job.run._router.submit(
                f"CREATE QUERY n{n} AS SELECT A.place FROM Heat A, Damp B WHERE A.place = B.place "
                f"AND A.v > {n % 40} WINDOW {n % 50 + 1} seconds"
            )
            if n % 10 == 9:
                job.tick()
        job.tick(3)
        status = read_status(job.checkpoint)
        job.close()
    assert len(status["queries"]) == QUERIES + 3
    assert all(status["queries"][f"n{n}"]["total_rows"] >= 0 for n in range(QUERIES))
    kept = [file for file in (job.checkpoint / "muntin").rglob("*.json")]
    assert len(kept) < QUERIES + 60, "plans that no replay needs, and answers, do not pile up"
