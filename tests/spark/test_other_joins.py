"""Count windows and joins without an equality on Spark, with several shards, against the oracle; limits and skew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin.model import Axis, MuntinError, Window
from muntin.oracle import answer, columns
from muntin.spark.run import Job
from muntin.sql import parse_job

US = 1_000_000
ROWS, TIME = Axis.ROWS, Axis.TIME
CASES: dict[str, Any] = {
    "last_rows": ("A.k = B.k WINDOW 30 ROWS", "A, B", Window(30, 30, (ROWS, ROWS)), "k", None),
    "mixed": ("A.k = B.k", "A [ROWS 50] A, B [RANGE 4 s] B", Window(50, 4 * US, (ROWS, TIME)), "k", None),
    "warmer": ("A.v < B.v - 80 WINDOW 3 s", "A, B", Window(3 * US, 3 * US), None, lambda a, b: a["v"] < b["v"] - 80),
    "close": ("ABS(A.v - B.v) < 1 WINDOW 40 ROWS", "A, B", Window(40, 40, (ROWS, ROWS)), None,
              lambda a, b: abs(a["v"] - b["v"]) < 1),
}  # fmt: skip
"""Text after WHERE, FROM, and the same query in the oracle's terms."""


def distinct_times(table: pa.Table, offset: int) -> pa.Table:
    """No two rows of a stream at the same time: which of them comes first is up to Spark's reading of the files."""
    us = table["ts"].cast(pa.int64()).to_numpy() + np.arange(table.num_rows) * 10 + offset
    return table.set_column(0, "ts", pa.array(us, pa.timestamp("us", "UTC")))


def sql(lab: Any) -> str:
    streams = lab.sql({})
    return streams + "".join(
        f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b, B.v AS bv FROM {source} WHERE {where};\n"
        for name, (where, source, *_) in CASES.items()
    )


@pytest.mark.parametrize(
    "per_trigger", [pytest.param(1, marks=pytest.mark.stand_in), pytest.param(4, marks=pytest.mark.spark)]
)
def test_count_windows_and_nested_loops_give_the_oracles_rows(lab: Any, rows: Any, per_trigger: int):
    lab.per_trigger = per_trigger
    lab.add_files("A", distinct_times(rows(21, 200), 0), 4)
    lab.add_files("B", distinct_times(rows(22, 180), 0), 3)
    run = Job(lab.spark, parse_job(sql(lab))).start(output=lab.output, checkpoint=lab.checkpoint, mode="bounded")
    assert run.await_termination(180)
    left, right = ([row for t in lab.tables[s] for row in _rows(t)] for s in "AB")
    for name, (_, _, window, key, holds) in CASES.items():
        keys = (columns(key), columns(key)) if key else None
        wanted = [
            (p.left["id"], p.right["id"], p.right["v"], p.ts) for p in answer(window, left, right, keys, holds=holds)
        ]
        got = lab.got(name)
        assert wanted and sorted(got) == sorted(wanted), name
        assert [row[-1] for row in got] == sorted(row[-1] for row in got)
    loops = run.status()["joins"][2]
    assert loops["counters"]["arrived"] == [200, 180], "each row is kept in one shard only"


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    plain = {n: table[n].cast(pa.int64()) if n == "ts" else table[n] for n in table.column_names}
    return pa.table(plain).to_pylist()


@pytest.mark.stand_in
def test_one_key_with_half_of_all_rows_works_and_is_reported(lab: Any, rows: Any):
    def skewed(table: pa.Table) -> pa.Table:
        keys = np.where(np.arange(table.num_rows) % 2 == 0, 7, table["k"].to_numpy() + 100)
        return table.set_column(2, "k", pa.array(keys))

    lab.add_files("A", skewed(rows(23, 300)), 1)
    lab.add_files("B", skewed(rows(24, 300)), 1)
    status = lab.run("available-now")
    top = status["joins"][0]["fullest_keys"][0]
    assert top["key"] == {"k": "7"} and 0.4 < top["share"] < 0.6
    lab.run("bounded")
    lab.check()


BATCH = "SET batch_limit = '3 KB';\n", "more than 1,500 bytes to one shard, its share of batch_limit", ""
FAN_OUT = "SET fan_out_limit = 50;\n", "more than 50 pairs in one micro-batch", ""
STATE = "SET state_limit = '64 KB';\n", "its share of state_limit is 32,", "SET state_limit = '1 GB';\n"


@pytest.mark.parametrize(
    ("setting", "words", "cure"),
    [
        pytest.param(*BATCH, marks=pytest.mark.stand_in),
        pytest.param(*FAN_OUT, marks=pytest.mark.stand_in),
        pytest.param(*STATE, marks=pytest.mark.spark),
    ],
)
def test_a_limit_stops_the_job_with_the_query_and_key_that_dominate_and_nothing_is_lost(
    lab: Any, rows: Any, setting: str, words: str, cure: str
):
    lab.add_files("A", rows(25, 200), 2)
    lab.add_files("B", rows(26, 200), 2)
    lab.settings, lab.per_trigger = setting, 1
    with pytest.raises(MuntinError) as failure:
        lab.run()
    message = failure.value.render()
    assert words in message and "hint:" in message
    if "batch" not in setting:  # which stops the job before a row is joined
        assert "query hot has the largest window" in message and "fullest key (k = " in message
    lab.settings = cure
    lab.run("bounded")
    lab.check()
