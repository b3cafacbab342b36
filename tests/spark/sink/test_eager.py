"""Eager delivery on Spark: the oracle's rows, in order, once, while the micro-batch is still at work."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from muntin.model import UsageError
from muntin.spark.run import Job, read_status

pytestmark = pytest.mark.spark


def lines(lab: Any, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query as (a, b, bv, ts), in file-name order."""
    files = sorted((lab.output / query).glob("*.jsonl"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [(row["a"], row["b"], row["bv"], _us(row["_ts"])) for row in found]


def _us(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds


def check(lab: Any) -> None:
    for query in lab.queries:
        got, wanted = lines(lab, query), lab.wanted(query)
        assert wanted and sorted(got) == sorted(wanted), query
        assert [row[-1] for row in got] == sorted(row[-1] for row in got), query


def test_files_have_the_oracles_rows_in_order_and_once_also_after_a_replay(lab: Any, rows: Any):
    lab.settings = "SET delivery = 'eager';\nSET scheduler = 'mqt';\n"
    lab.lateness_s = 1
    lab.add_files("A", rows(31, 1200, nulls=True, lateness_s=1), 1)
    lab.add_files("B", rows(32, 1200, lateness_s=1), 1)
    lab.run("available-now")
    last = max((lab.checkpoint / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    (lab.output / "short" / f"b{int(last.name) + 1:010d}.jsonl").write_text("left by a run that died\n")
    status = lab.run("bounded")
    assert status["batches"] == 2, "the micro-batch was run again, and nothing handed over again"
    check(lab)
    for name, query in status["queries"].items():
        assert query["total_rows"] == len(lines(lab, name))
    response = read_status(lab.checkpoint)["queries"]["long"]["response"]
    assert 0 < response["p50_s"] <= response["p99_s"] <= response["max_s"] and response["mean_s"] <= response["max_s"]
    assert lab.letters() and not list((lab.output / "short").glob("*.parquet"))


def test_a_callable_gets_small_windows_while_large_ones_are_still_joined(lab: Any, rows: Any):
    lab.add_files("A", rows(33, 1000, keys=1), 1)
    lab.add_files("B", rows(34, 1000, keys=1), 1)
    with pytest.raises(UsageError, match="only as they come"):
        Job(lab.spark, lab.spec()).start(output="tcp://localhost:1", checkpoint=lab.root / "other")
    lab.settings = "SET delivery = 'eager';\nSET scheduler = 'swf';\nSET shards = 1;\n"
    received: list[tuple[str, pa.Table, int]] = []
    status = lab.run(output=None, sink=lambda *call: received.append(call))
    for query in lab.queries:
        tables = [table for name, table, _ in received if name == query]
        times = [t for table in tables for t in table["_ts"].cast(pa.int64()).to_pylist()]
        assert times == [row[-1] for row in lab.wanted(query)]
        assert status["queries"][query]["total_rows"] == len(times)
    first = [(name, table.num_rows) for name, table, batch in received if batch == 0]
    small = [rows for name, rows in first if name == "short"]
    early = [rows for name, rows in first[: [name for name, _ in first].index("hot")] if name == "short"]
    assert sum(early) > sum(small) / 2 > 0, f"swf: a window twenty times as large comes after: {first}"


def test_a_burst_is_no_wall_on_spark_and_what_is_left_goes_on_by_itself(lab: Any, rows: Any):
    """Work spans micro-batches that no rows bring; a run that is stopped in between goes on where it was."""
    lab.settings = "SET delivery = 'eager';\nSET scheduler = 'swf';\nSET shards = 2;\nSET work_per_batch = '5 ms';\n"
    lab.add_files("A", rows(35, 1000, keys=1), 1)
    lab.add_files("B", rows(36, 1000, keys=1), 1)
    run = Job(lab.spark, lab.spec()).start(output=lab.output, checkpoint=lab.checkpoint, mode="endless")
    left = []
    while not run.await_termination(0.2):
        joins = run.status()["joins"]
        left += [joins[0]["left_rows"]] if joins else []
        if len(set(left)) > 2 and run.status()["batches"] > 3:
            run.stop()
    assert left[-1] > 0 and len(set(left)) > 2, "micro-batches without rows went on with the work"
    got = {query: len(lines(lab, query)) for query in lab.queries}
    assert got["short"] / len(lab.wanted("short")) > got["long"] / len(lab.wanted("long"))
    status = lab.run("bounded")
    check(lab)
    assert status["joins"][0]["left_rows"] == 0
