"""Tiny worlds for properties: queries over two streams as SQL and in the oracle's terms, and rows for them.

Tiny domains on purpose (3 keys, few times, ties, NULLs, duplicates): they meet the corners more often than large ones.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from muntin.model import Axis, Window

EXAMPLES = int(os.environ.get("MUNTIN_EXAMPLES", "20"))
"""Of the first property; more for a long soak."""


def seeds(count: int, quick: int) -> list[Any]:
    """So many seeds, of which `make quick` takes the first few."""
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.slow) for seed in range(count)]


STREAMS = """
CREATE STREAM A (ts TIMESTAMP, id BIGINT, k BIGINT, g STRING, v BIGINT) TIMESTAMP BY ts LATENESS {late} microseconds
  WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, id BIGINT, k BIGINT, g STRING, v BIGINT) TIMESTAMP BY ts LATENESS {late} microseconds
  WITH (format = 'parquet', path = 'b');
"""
ROW = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("k", pa.int64()), ("g", pa.string()), ("v", pa.int64())]
)
SELECTIONS = {
    "TRUE": lambda r: True,
    "{}.v > 1": lambda r: None if r["v"] is None else r["v"] > 1,
    "{}.v IS NULL OR {}.g = 'x'": lambda r: r["v"] is None or (None if r["g"] is None else r["g"] == "x"),
    "{}.v IN (0, 3)": lambda r: None if r["v"] is None else r["v"] in (0, 3),
    "{}.v > 100": lambda r: None if r["v"] is None else r["v"] > 100,
}
RESIDUALS = {
    "TRUE": lambda a, b: True,
    "A.v < B.v": lambda a, b: None if a["v"] is None or b["v"] is None else a["v"] < b["v"],
    "(A.g = 'x' OR B.v IS NULL)": lambda a, b: a["g"] == "x" or b["v"] is None,
    "A.v + B.v > 100": lambda a, b: False,
    "ABS(A.v - B.v) < 2": lambda a, b: None if a["v"] is None or b["v"] is None else abs(a["v"] - b["v"]) < 2,
    "B.v BETWEEN A.v AND A.v + 1": lambda a, b: None if a["v"] is None or b["v"] is None else 0 <= b["v"] - a["v"] <= 1,
}
UNTILS = {
    "{}.ts + INTERVAL 1 MICROSECOND * ({}.v - 1)": lambda r: None if r["v"] is None else r["ts"] + r["v"] - 1,
    "timestamp_micros({}.v * 4)": lambda r: None if r["v"] is None else 4 * r["v"],
}
"""Times until when a row may wait: near its own, and any."""
KEYS = {"TRUE": None, "A.k = B.k": ("k",), "A.k = B.k AND A.g = B.g": ("k", "g"), "B.g = A.g": ("g",)}


@st.composite
def queries(draw: st.DrawFn, name: str, alike: bool = False) -> dict:
    """A query as SQL and as the oracle's terms; those that are `alike` usually share a join."""
    key = draw(st.sampled_from(["A.k = B.k"] * 6 * alike + list(KEYS)))
    wheres = [draw(st.sampled_from(list(SELECTIONS))) for _ in "AB"]
    residual = draw(st.sampled_from(list(RESIDUALS)[1 if key == "TRUE" else 0 :]))
    axes = tuple(draw(st.sampled_from([Axis.TIME] * 6 * alike + list(Axis))) for _ in "AB")
    window = Window(draw(st.integers(1, 8)), draw(st.integers(1, 8)), axes)
    left, right = (f"ROWS {n}" if axis is Axis.ROWS else f"RANGE {n} microseconds" for n, axis in
                   zip((window.left, window.right), axes, strict=True))  # fmt: skip
    selection = " AND ".join("(" + w.replace("{}", alias) + ")" for w, alias in zip(wheres, "AB", strict=True))
    sql = (
        f"CREATE QUERY {name} AS SELECT A.id AS a, B.id AS b, A.v + B.v AS s "
        f"FROM A [{left}] A, B [{right}] B "
        f"WHERE {key} AND {selection} AND {residual}"
    )
    keeps = [SELECTIONS[w] for w in wheres]
    times = [draw(st.sampled_from(["", "", *UNTILS])) if axis is Axis.TIME else "" for axis in axes]
    until = ", ".join(time.replace("{}", alias) for time, alias in zip(times, "AB", strict=True) if time)
    terms = {"key": KEYS[key], "keeps": keeps, "pairs": RESIDUALS[residual], "untils": tuple(map(UNTILS.get, times))}
    return {"name": name, "sql": f"{sql} WINDOW UNTIL {until};" if until else f"{sql};", "window": window, **terms}


ORDERINGS = ("sync-filter", "filter-order", "adaptive")


@st.composite
def orders(draw: st.DrawFn, steps: int) -> dict:
    """What waits for a stream that is behind; with `adaptive`, which rule each micro-batch brings. And how far the
    times of B run ahead of those of A."""
    ordering = draw(st.sampled_from(ORDERINGS))
    rules = [draw(st.booleans()) if ordering == "adaptive" else None for _ in range(steps)]
    return {"ordering": ordering, "rules": rules, "lead": draw(st.sampled_from([0, 0, 4, 9]))}


def rows(low: int) -> st.SearchStrategy[list[dict]]:
    row = st.fixed_dictionaries(
        {
            "ts": st.integers(low, low + 5),
            "id": st.integers(0, 1000),
            "k": st.sampled_from([1, 2, 3, None]),
            "g": st.sampled_from(["x", "y", None]),
            "v": st.sampled_from([0, 1, 2, 3, None]),
        }
    )
    return st.lists(row, max_size=5)


def summed(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def order_of(row: tuple) -> tuple:
    return tuple((x is None, x) for x in row)
