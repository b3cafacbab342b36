"""Queries whose rows go into an Iceberg table that others write, too, or that has other columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from muntin.model import UsageError
from muntin.spark.sink.iceberg import CATALOGS, OpenIcebergTable
from whole_way.drive import kept_apart
from whole_way.test_into import Lake

pytestmark = pytest.mark.slow
TABLE = "space.q"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """The job of `test_into`, whose table is one of Iceberg."""
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/ice"}
    monkeypatch.setitem(CATALOGS, "ice", load_catalog("ice", **where))
    with kept_apart(tmp_path):
        found = Lake(tmp_path)
        for name in ("q", "text"):
            setattr(found, name, getattr(found, name).replace(f"DELTA '{found.table}'", f"ICEBERG 'ice.{TABLE}'"))
        yield found


def rows(name: str = "a") -> list[Any]:
    return CATALOGS["ice"].load_table(TABLE).scan().to_arrow()[name].to_pylist()


def test_rows_of_others_stay_and_are_no_hindrance(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    lake.come(10, 12)
    lake.run()
    adopt, theirs = OpenIcebergTable.adopt, lake.root / "theirs.parquet"
    ts = pa.array([1], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"a": pa.array([99], pa.int64()), "b": ts, "_ts": ts}), theirs)

    def late(self: Any, *rest: Any) -> None:
        if 99 not in rows():
            CATALOGS["ice"].load_table(TABLE).add_files([f"file://{theirs}"])
        adopt(self, *rest)

    monkeypatch.setattr(OpenIcebergTable, "adopt", late)
    lake.come(20, 22)
    lake.run("bounded")
    assert rows().count(99) == 1 and len([a for a in rows() if a == 7]) == len(lake.files()) == 16


def test_columns_come_and_a_table_has_one_writer(lake: Lake):
    lake.come(10, 12)
    lake.run()
    with pytest.raises(UsageError, match="has the rows of another checkpoint"):
        lake.start("available-now", output=lake.root / "out2", checkpoint=lake.root / "ckpt2")
    twice = lake.text + lake.q.replace("QUERY q", "QUERY r")
    with pytest.raises(UsageError, match="has the rows of query q of this job"):
        lake.start("available-now", twice)
    other = lake.text.replace(lake.q, lake.q.replace("B.ts AS b", "A.k AS b"))
    with pytest.raises(UsageError, match=rf"column b is long, but timestamptz in the table ice.{TABLE}"):
        lake.start("available-now", other)
    lake.come(20, 22)
    wider = lake.q.replace("A.k AS a,", "A.k AS a, A.ts AS seen,")
    lake.run("bounded", lake.text.replace(lake.q, wider))
    assert rows("seen").count(None) == 4 and len(rows()) == len(lake.files()) == 16


def test_a_table_with_other_columns_is_refused_before_anything_runs(lake: Lake):
    lake.come(10, 12)
    CATALOGS["ice"].create_namespace("space")
    CATALOGS["ice"].create_table(TABLE, pa.schema([("a", pa.string())]))
    with pytest.raises(UsageError, match="column a is long, but string in the table"):
        lake.start("available-now")
    CATALOGS["ice"].drop_table(TABLE)
    CATALOGS["ice"].create_table(TABLE, pa.schema([pa.field("must", pa.int64(), nullable=False)]))
    with pytest.raises(UsageError, match=r"query q has no column must, which the table .* requires"):
        lake.start("available-now")
    assert not (lake.root / "out" / "_dead_letters").exists()
