"""Streams on Spark that are apart in event time, fall silent, or bring a row from the far future."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.spark.run import Job, Run
from muntin.sql import parse_job

pytestmark = pytest.mark.spark
US = 1_000_000
FAR = pa.table({"ts": pa.array([4_000_000_000 * US], pa.timestamp("us", "UTC")), "id": [999], "k": [1], "v": [1.0]})
"""A row of the year 2096."""
B = "STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts"


def shifted(table: pa.Table, seconds: int) -> pa.Table:
    times = [None if t is None else t + seconds * US for t in table["ts"].cast(pa.int64()).to_pylist()]
    return table.set_column(0, "ts", pa.array(times, pa.timestamp("us", "UTC")))


def wait_until(run: Run, seen: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    for _ in range(3000):
        status = run.status()
        if status["joins"] and seen(status):
            return status
        time.sleep(0.1)
    raise AssertionError(f"never seen: {run.status()['joins']}")


def test_a_stream_that_is_30_seconds_behind_delays_results_and_neither_loses_nor_disorders_them(lab: Any, rows: Any):
    """First under Filter-Order, which is stopped with results held, then under Sync-Filter, which takes them over."""
    lab.per_trigger, lab.settings = 1, "SET ordering = 'filter-order'; SET max_ahead = '1 hour';\n"
    left, right = rows(1, 450), shifted(rows(2, 450), -30)
    lab.add_files("A", left.slice(0, 300), 3)
    lab.add_files("B", right.slice(0, 300), 3)
    path = lab.folder("A") / "0001.parquet"
    stat = path.stat()
    pq.write_table(pa.concat_tables([pq.read_table(path), FAR.cast(lab.tables["A"][1].schema)]), path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    status = lab.run("available-now")
    (join,) = status["joins"]
    assert join["held_rows"] == [0, 0] and join["held_pairs"] > 0 and join["ordering"]["in_force"] == "filter-order"
    assert join["waits_for"]["stream"] == "B" and join["waits_for"]["held_bytes"] > 0
    assert status["dead_letters"] == {"ahead": 1}
    assert "s ahead of the other rows" in lab.letters()[0]["reason"]
    lab.settings = "SET ordering = 'sync-filter'; SET max_ahead = '1 hour';\n"
    lab.add_files("A", left.slice(300), 1)
    lab.add_files("B", right.slice(300), 1)
    (join,) = lab.run("available-now")["joins"]
    assert join["ordering"]["in_force"] == "handing over to sync-filter" and join["held_rows"][0] > 0
    (join,) = lab.run("bounded")["joins"]
    lab.check()
    assert join["held_rows"] == [0, 0] and join["held_pairs"] == 0 and join["waits_for"] is None
    assert sum(piece["rows"] for side in join["slices"] for piece in side) == 0, "memory is back to normal"


def test_a_silent_stream_is_waited_for_until_it_is_idle_and_late_when_it_comes_back(lab: Any, rows: Any):
    lab.per_trigger, lab.settings = 1, "SET max_ahead = '1 hour';\n"
    left, right = rows(3, 300), rows(4, 300)
    lab.add_files("A", left, 1)
    lab.add_files("B", right.slice(0, 100), 1)
    text = lab.sql().replace(
        "STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts", "{} IDLE AFTER 3 s"
    )
    text = text.replace("{}", "STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, v DOUBLE) TIMESTAMP BY ts")
    run = Job(lab.spark, parse_job(text)).start(output=lab.output, checkpoint=lab.checkpoint)
    try:
        status = wait_until(run, lambda s: s["joins"][0]["waits_for"] is not None)
        assert status["joins"][0]["waits_for"]["stream"] == "B" and status["joins"][0]["held_rows"][0] > 0
        status = wait_until(run, lambda s: s["joins"][0]["idle"] == [False, True])
        assert status["joins"][0]["held_rows"] == [0, 0] and status["joins"][0]["waits_for"] is None
        lab.add_files("B", right.slice(290), 1)
        lab.add_files("B", right.slice(100, 100), 1)
        lab.add_files("A", FAR, 1)
        status = wait_until(run, lambda s: s["dead_letters"].get("late", 0) >= 100 and "ahead" in s["dead_letters"])
        assert status["joins"][0]["idle"] == [False, False]
    finally:
        run.stop()
    reasons = [letter["reason"] for letter in lab.letters()]
    assert any("its own stream was idle" in reason for reason in reasons)
    assert any("s ahead of the clock" in reason for reason in reasons)
    for query in ("short", "long"):
        times = [row[-1] for row in lab.got(query)]
        assert times and times == sorted(times)


def test_a_stream_that_is_far_ahead_is_read_slowly_until_the_other_has_caught_up(lab: Any, rows: Any):
    """Each change starts the streaming query anew, in the middle of the run."""
    left, right = rows(5, 200), rows(6, 200)
    lab.add_files("A", left.slice(0, 100), 1)
    lab.add_files("A", shifted(left.slice(100), 400), 1)
    lab.add_files("B", right.slice(0, 100), 1)
    run = Job(lab.spark, lab.spec()).start(output=lab.output, checkpoint=lab.checkpoint)
    try:
        status = wait_until(run, lambda s: "seconds_ahead" in s["sources"]["A"])
        assert status["sources"]["A"]["seconds_ahead"] > 390 and "seconds_ahead" not in status["sources"]["B"]
        lab.add_files("B", shifted(right.slice(100), 400), 1)
        wait_until(run, lambda s: s["sources"]["B"]["total_rows"] == 200 and "seconds_ahead" not in s["sources"]["A"])
    finally:
        run.stop()
    status = lab.run("bounded")
    lab.check()
    assert status["dead_letters"] == {} and status["state"] == "ended"
