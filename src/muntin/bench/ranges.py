"""The line of `muntin bench core` about joins without an equality: rows in order of a value, every pair, and DuckDB.

`ABS(A.x - B.x) < 5` over values of which one pair in a hundred lies in the range. Ours joins micro-batches in time
order and evaluates the condition on each pair that it finds; the kernel alone does not, and finds no others here.
DuckDB joins both streams at once, into a table.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from muntin.bench.core import in_turns
from muntin.core.batch import CLASS, TS, Counters, stored_schema
from muntin.core.join import JoinState, QueryRequirements
from muntin.core.policy import Policy
from muntin.core.storage import Heap, StoredRows
from muntin.kernels.join import Rows
from muntin.model import JobSpec, Side
from muntin.plan import SharedJoin, share
from muntin.sql import parse_job

WINDOW_S, BATCHES = 10, 12
SPREAD, NEAR = 1000.0, 5.0
"""Values are spread evenly over this range, and partners lie this near: one pair in a hundred."""
ROWS, QUICK_ROWS = 40_000, 16_000
"""Of each stream. A window is a sixth of that: every row has 2 / 12 of the rows of the other stream before it."""
JOB = f"""
CREATE STREAM A (ts TIMESTAMP, id BIGINT, x DOUBLE) TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, x DOUBLE) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
CREATE QUERY near AS SELECT A.id AS a, B.id AS b FROM A, B WHERE ABS(A.x - B.x) < {NEAR:g} WINDOW {WINDOW_S} s;
"""


def tables(rows: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(3)
    found = {}
    for name in "AB":
        ts = np.sort(rng.integers(0, 6 * WINDOW_S * 1_000_000, rows))
        times = pa.array(ts).cast(pa.timestamp("us", "UTC"))
        found[name] = pa.table({"ts": times, "id": np.arange(rows), "x": rng.uniform(0, SPREAD, rows)})
    return found


class StoredStreams:
    """Two streams whose rows are stored and in time order, as the join finds them."""

    def __init__(self, streams: dict[str, pa.Table]):
        self.tables = streams
        ts = np.concatenate([np.asarray(streams[name]["ts"].cast(pa.int64())) for name in "AB"])
        rows = streams["A"].num_rows
        side, number = np.repeat(np.array([0, 1], np.uint8), rows), np.concatenate([np.arange(rows)] * 2)
        order, zero = np.argsort(ts, kind="stable"), np.zeros(2 * rows, np.int64)
        ts = ts[order]
        self.rows = Rows(
            side[order], ts, ts, ts, zero, zero, zero.astype(np.int32), number[order], np.ones(2 * rows, bool)
        )

    def payload(self, join: SharedJoin) -> list[StoredRows]:
        found = []
        for side, table in zip(Side, self.tables.values(), strict=True):
            stored = StoredRows(stored_schema(join, side), Heap())
            own = table.add_column(0, TS, table["ts"].cast(pa.int64()))
            stored.add(
                0, own.cast(pa.schema([f for f in stored.schema if f.name != CLASS])), np.zeros(len(own), np.int32)
            )
            found.append(stored)
        return found


def ours(stored: StoredStreams, spec: JobSpec, judged: bool = True) -> dict[str, Any]:
    """Seconds and work of the join over all micro-batches, its conditions evaluated, its results thrown away."""
    (join,) = share(spec).joins
    needs, payload = QueryRequirements(join), stored.payload(join)
    state = JoinState(join, needs.selections, Policy(fan_out=1 << 40), Heap(), payload=payload)
    for side in Side:
        needs.selections[side].classify(payload[side].take(np.zeros(1, np.int64)))
    judge, counters, pairs, total = needs.judge(payload) if judged else None, Counters(), 0, len(stored.rows.ts)
    start, size = time.process_time(), -(-total // BATCHES)
    for first in range(0, total, size):
        rows = Rows._make(a[first : first + size] for a in stored.rows)
        pairs += len(state.insert(rows, counters, judge).ts)
        for side in Side:
            state.forget(side, int(rows.ts[-1]), counters)
    return {"seconds": time.process_time() - start, "pairs": pairs, "comparisons": counters.comparisons}


def by_duckdb(streams: dict[str, pa.Table]) -> dict[str, Any]:
    con = duckdb.connect(":memory:", config={"threads": 1})
    for name, table in streams.items():
        con.register(name, table.set_column(0, "ts", table["ts"].cast(pa.int64())))
    near = f"A.x < B.x + {NEAR:g} AND A.x > B.x - {NEAR:g}"  # as it takes it for a join of ranges
    window = f"A.ts < B.ts + {WINDOW_S * 1_000_000} AND A.ts > B.ts - {WINDOW_S * 1_000_000}"
    start = time.process_time()
    con.execute(f"CREATE TABLE pairs AS SELECT A.id AS a, B.id AS b FROM A JOIN B ON {near} AND {window}")
    seconds = time.process_time() - start
    ((pairs,),) = con.sql("SELECT count(*) FROM pairs").fetchall()
    con.close()
    return {"seconds": seconds, "pairs": pairs}


def measure_ranges(quick: bool) -> dict[str, Any]:
    spec = parse_job(JOB)
    every_pair = replace(spec, queries={n: replace(q, ranges=()) for n, q in spec.queries.items()})
    streams = tables(QUICK_ROWS if quick else ROWS)
    best = in_turns(
        1,
        ordered=partial(ours, StoredStreams(streams), spec),
        kernel=partial(ours, StoredStreams(streams), spec, judged=False),
        every_pair=partial(ours, StoredStreams(streams), every_pair),
        duckdb=partial(by_duckdb, streams),
    )
    if len({found["pairs"] for found in best.values()}) != 1:
        raise AssertionError(f"the pairs differ: {best}")
    seconds = {name: found["seconds"] for name, found in best.items()}
    return {
        **best,
        "rows_per_stream": streams["A"].num_rows,
        "ratio": seconds["every_pair"] / seconds["ordered"],
        "ratio_duckdb": seconds["kernel"] / seconds["duckdb"],
    }


def render_ranges(figures: dict[str, Any]) -> str:
    ordered, every, duck, kernel = (figures[name] for name in ("ordered", "every_pair", "duckdb", "kernel"))
    against = f"the kernel {kernel['seconds']:.2f} s, DuckDB (1 thread) {duck['seconds']:.2f} s"
    looked = f"looked at {ordered['comparisons']:,} and {every['comparisons']:,} rows for {ordered['pairs']:,} pairs"
    return "\n".join(
        [
            f"{'|A.x - B.x| < 5':<22} in order {ordered['seconds']:.2f} s, every pair {every['seconds']:.2f} s: "
            f"{figures['ratio']:.0f} times; {looked}",
            f"{'':<22} {against}: ratio {figures['ratio_duckdb']:.2f}",
        ]
    )
