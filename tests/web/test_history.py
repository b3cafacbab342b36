"""The history of a job: bounded for months, peaks and rates kept, marks where something happened."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from muntin.spark.checkpoint.durable import FileKind, write_record
from muntin.spark.control import OrderingSwitch
from muntin.spark.run import History, JobStatus, Sample, history_file, marks_between, read_history
from muntin.spark.run.history_keeper import HistoryKeeper
from muntin.spark.run.status import DroppedQueries, Migration, QueryStatus, SourceStatus
from muntin.web.live import LiveJob


def grown(seconds: int, every: int = 1) -> History:
    history = History()
    for t in range(0, seconds, every):
        history.add(Sample(float(t), rows_in=10 * t, state_rows=1000 if t == seconds // 3 // every * every else 5))
    return history


def test_a_job_of_hours_has_few_samples_and_the_last_minutes_have_all():
    history = grown(10_000)
    assert 500 < len(history.samples) < 1200
    recent = [s.t for s in history.samples if s.t >= 10_000 - 200]
    assert recent == [float(t) for t in range(10_000 - 200, 10_000)]


def test_twice_the_time_takes_only_a_few_samples_more():
    one, two = len(grown(40_000, 10).samples), len(grown(80_000, 10).samples)
    assert one < two < one + 300


def test_no_rate_is_lost_and_peaks_stay():
    samples = grown(40_000, 5).samples
    for before, after in pairwise(samples):
        assert (after.rows_in - before.rows_in) / (after.t - before.t) == pytest.approx(10)
    assert max(s.state_rows for s in samples) == 1000


MOVE = Migration(3, "migrated", "cpu-opt", 0.2, {"0": [2, 1]}, 0)


def status(**changes: object) -> JobStatus:
    made = JobStatus("endless", "running", 1, started=5.0, updated=9.0)
    return replace(made, queries={"a": QueryStatus(text="A"), "b": QueryStatus(text="B")}, **changes)


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"queries": {"a": QueryStatus(text="A"), "b": QueryStatus(text="B"), "c": QueryStatus()}}, ["added c"]),
        ({"queries": {"a": QueryStatus(text="A")}}, ["dropped b"]),
        ({"queries": {"a": QueryStatus(text="A"), "b": QueryStatus(text="other")}}, ["replaced b"]),
        ({"migrations": [MOVE]}, ["chain cpu-opt migrated: 2 and 1 slices"]),
        ({"switches": [OrderingSwitch(3, 1, "filter-order", 0.4, "busy")]}, ["join 1 goes over to filter-order, busy"]),
        ({"state": "failed"}, ["the job failed"]),
        ({"started": 7.0}, ["the job started"]),
        ({}, []),
    ],
    ids=lambda found: str(found)[:30],
)  # fmt: skip
def test_what_happened_is_marked(changes, told):
    assert [mark.text for mark in marks_between(status(), replace(status(), **changes))] == told


def test_a_sample_counts_what_the_queries_that_have_gone_delivered():
    queries = {"a": QueryStatus(total_rows=5), "b": QueryStatus(total_rows=6)}
    sources = {"A": SourceStatus(total_rows=7), "_control": SourceStatus(total_rows=100)}
    found = Sample.of(replace(status(), queries=queries, sources=sources, dropped=DroppedQueries(1, 10)))
    assert (found.rows_out, found.rows_in, found.queries) == (21, 7, 2)


def test_a_run_goes_on_with_the_history_of_the_run_before(job):
    job.run._history.close(job.run.board.status(), job.spec)
    first = read_history(job.checkpoint)
    assert first.samples and first.marks[0].text == "the job started"
    job.restart()
    job.tick()
    job.run._history.close(job.run.board.status(), job.spec)
    second = read_history(job.checkpoint)
    assert second.samples[: len(first.samples) - 1] == first.samples[:-1]
    assert [m.text for m in second.marks].count("the job started") == 2
    assert second.samples[-1].apart_rows > 0


def test_a_damaged_history_begins_anew_and_stops_nobody(job, tmp_path):
    (tmp_path / "muntin").mkdir()
    history_file(tmp_path).write_text("{")
    assert read_history(tmp_path) == History()
    keeper = HistoryKeeper(tmp_path, None)
    keeper.close(status(), job.spec)
    assert len(read_history(tmp_path).samples) == 1


def test_the_page_gets_what_is_newer_than_the_file_too(job, reader, live):
    kept = read_history(job.checkpoint)
    reader.get("/api/status")
    job.tick()
    reader.get("/api/status")
    found = reader.get("/api/history").json()
    assert len(found["columns"]["t"]) > len(kept.samples)
    assert found["columns"]["t"] == sorted(found["columns"]["t"])
    assert set(found["columns"]) == set(Sample._fields)


def test_a_job_whose_process_is_gone_is_said_to_have_failed(tmp_path):
    (tmp_path / "muntin").mkdir()
    write_record(tmp_path / "muntin" / "status.json", FileKind.STATUS, replace(status(), pid=2**22 + 1))
    found = LiveJob(tmp_path).view().record
    assert found.state == "failed" and "its process is gone" in (found.error or "")
