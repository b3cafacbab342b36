"""An output that keeps slices, written by Spark and read by Spark, DuckDB and Arrow."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import muntin as package


@pytest.mark.spark
def test_the_views_of_slices_have_the_rows_of_the_oracle_in_every_engine(lab: Any, rows: Any):
    lab.settings = "SET output_layout = 'sliced';"
    for name, seed in (("A", 1), ("B", 2)):
        lab.add_files(name, rows(seed, 240, nulls=True), 3)
    place = {"output": lab.root / "it's [kept] in `slices`", "checkpoint": lab.checkpoint}
    run = lab.run("bounded", **place)
    database = duckdb.connect()
    names = package.create_views(place["output"], database)
    assert names == package.create_views(place["output"], lab.spark) == sorted(lab.queries)
    for name in names:
        wanted = sorted(lab.wanted(name))
        table = package.read(place["output"], name).to_table()
        times = table["_ts"].cast("int64").to_pylist()
        got = list(zip(*(table[c].to_pylist() for c in ("a", "b", "bv")), times, strict=True))
        assert times == sorted(times) and sorted(got) == wanted and wanted
        assert run["queries"][name]["total_rows"] == len(wanted)
        as_numbers = f"SELECT a, b, bv, {{}}(_ts) FROM {name} ORDER BY ALL"
        assert sorted(database.sql(as_numbers.format("epoch_us")).fetchall()) == wanted
        assert sorted(map(tuple, lab.spark.sql(as_numbers.format("unix_micros")).collect())) == wanted
