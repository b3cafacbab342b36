"""The example of lake tables on Spark: its tasks write the files, and independent readers find each row once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from muntin.spark.sink.iceberg import CATALOGS

from .. import duck

pytestmark = pytest.mark.spark
EXAMPLE = Path(__file__).parents[3] / "examples" / "lake" / "lake.sql"
COLUMNS = ["LocationId", "temperature", "humidity", "_ts"]


def test_the_example_of_lake_tables_writes_what_duckdb_says(
    muntin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    here = Path("examples/lake")
    here.mkdir(parents=True)
    shutil.copy(EXAMPLE, here)
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/tables"}
    monkeypatch.setitem(CATALOGS, "local", load_catalog("local", **catalog))
    place = ["--output", here / "out", "--checkpoint", here / "ckpt"]
    for command in (
        ["generate", "sensors", here / "data", "--duration", "60", "--files", "4"],
        ["check", here / "lake.sql"],
        ["run", here / "lake.sql", *place, "--available-now"],
        ["run", here / "lake.sql", *place, "--bounded"],
    ):
        code, _, err = muntin(*command)
        assert code == 0, err
    tables = {
        "warm": DeltaTable(here / "tables" / "warm").to_pyarrow_table(columns=COLUMNS),
        "damp": CATALOGS["local"].load_table("sensors.damp").scan(selected_fields=tuple(COLUMNS)).to_arrow(),
    }
    conditions = {"warm": "A.Value > 24", "damp": "B.Value > 55"}
    streams = {name: here / "data" / name.lower() for name in ("Temperature", "Humidity")}
    select, source = "A.LocationId, A.Value AS temperature, B.Value AS humidity", "Temperature A, Humidity B"
    with duck.connect(streams) as base:
        for name, table in tables.items():
            (here / name).mkdir()
            pq.write_table(table, here / name / "read.parquet")
            where = f"A.LocationId = B.LocationId AND {conditions[name]}"
            rows, missing, too_many = duck.difference(base, duck.wanted(select, source, where, (30, 30)), here / name)
            assert (missing, too_many) == (0, 0) and rows > 100, name
    assert not (here / "out" / "warm").exists() and list((here / "out" / "both").glob("b*"))
