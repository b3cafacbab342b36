"""Sources that bring their own columns: a stream declares some of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from muntin.model import Field, UsageError
from muntin.spark.ingest.own_columns import choose_columns, is_widening
from muntin.sql import parse_job

KAFKA = [
    Field("key", "binary"),
    Field("value", "binary"),
    Field("partition", "int"),
    Field("timestamp", "timestamp"),
]


def chosen(columns: str) -> list[tuple[str, Field]]:
    text = f"CREATE STREAM S ({columns}) TIMESTAMP BY timestamp WITH (format = 'kafka')"
    return choose_columns(parse_job(text).streams["S"], KAFKA)


def test_a_stream_takes_some_columns_in_its_own_order_and_spelling() -> None:
    found = chosen("Timestamp TIMESTAMP, partition BIGINT, value BINARY")
    assert found == [
        ("timestamp", Field("Timestamp", "timestamp")),
        ("partition", Field("partition", "bigint")),
        ("value", Field("value", "binary")),
    ]


def test_a_column_that_the_source_does_not_have_is_refused_with_all_it_has() -> None:
    with pytest.raises(UsageError, match="the source kafka brings its own columns, and none is price") as caught:
        chosen("timestamp TIMESTAMP, price DOUBLE")
    assert caught.value.hint is not None
    assert "key BINARY, value BINARY, partition INT, timestamp TIMESTAMP" in caught.value.hint


def test_another_type_is_refused_with_the_cast_to_write() -> None:
    with pytest.raises(UsageError, match="value of the source kafka is binary, not string") as caught:
        chosen("timestamp TIMESTAMP, value STRING")
    assert caught.value.hint is not None
    assert "declare value BINARY and write CAST(value AS STRING) in queries" in caught.value.hint


@pytest.mark.parametrize(
    ("have", "want", "fits"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("int", "double", True),
        ("bigint", "double", False),
        ("float", "double", True),
        ("double", "float", False),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(9,0)", False),
        ("decimal(10,2)", "decimal(12,2)", True),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("decimal(38,10)", "decimal(38,6)", False),
        ("float", "decimal(38,6)", False),
        ("date", "timestamp", False),
        ("string", "binary", False),
    ],
)
def test_only_what_loses_nothing_is_cast(have: str, want: str, fits: bool) -> None:
    assert is_widening(have, want) is fits


RATE = """
CREATE STREAM A (value DECIMAL(20, 0), timestamp TIMESTAMP) TIMESTAMP BY timestamp
  WITH (format = 'rate-micro-batch', rowsPerBatch = '50', startTimestamp = '1700000000000');
CREATE STREAM B ({} BIGINT, timestamp TIMESTAMP) TIMESTAMP BY timestamp
  WITH (format = 'rate-micro-batch', rowsPerBatch = '50', startTimestamp = '1700000000000');
CREATE QUERY q AS SELECT A.value, B.value AS b FROM A, B WHERE A.value = B.value WINDOW 1 min;
"""


@pytest.mark.spark
def test_a_source_that_takes_no_columns_is_read_with_its_own(muntin: Any, tmp_path: Path) -> None:
    job = tmp_path / "job.sql"
    where = ("--output", tmp_path / "out", "--checkpoint", tmp_path / "ckpt", "--bounded")
    job.write_text(RATE.format("valu").replace("B.value", "B.valu"))
    code, _, said = muntin("run", job, *where)
    assert code == 2 and "brings its own columns, and none is valu" in said and "value BIGINT" in said
    job.write_text(RATE.format("value"))
    code, _, said = muntin("run", job, *where)
    assert code == 0, said
    rows = pq.read_table(tmp_path / "out" / "q").to_pylist()
    assert len(rows) >= 50 and all(row["value"] == row["b"] for row in rows)
