"""CSV as others read it."""

from __future__ import annotations

import csv
import io
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from muntin.model import UsageError
from muntin.spark.checkpoint import BatchOutcome, Publisher
from muntin.spark.sink.csv_files import csv_lines
from muntin.spark.sink.registry import open_sink
from muntin.spark.sink.sink import OutputRequest
from muntin.sql import parse_job

SPEC = parse_job(
    "CREATE STREAM A (ts TIMESTAMP, k BIGINT, raw BINARY) TIMESTAMP BY ts WITH (format = 'json', path = 'a');"
    "CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'json', path = 'b');"
    "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;"
    "CREATE QUERY r AS SELECT A.k, A.raw AS whole FROM A, B WHERE A.k = B.k WINDOW 1 s;"
)
TEXTS = ["plain", 'a "quoted" one', "a,b", "two\r\nlines", "", None, "null", "NULL"]


def test_any_text_comes_back_and_null_is_not_the_empty_text():
    written = csv_lines(pa.table({"t, u": TEXTS, "n": list(range(len(TEXTS)))})).decode()
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert rows[0] == ["t, u", "n"]
    assert [row[0] for row in rows[1:]] == [text or "" for text in TEXTS]
    lines = written.split("\r\n")
    assert '"",4' in lines and ",5" in lines, "the empty text is quoted, NULL is not"


def test_numbers_and_times_are_written_as_they_are():
    table = pa.table(
        {
            "i": pa.array([2**60, None]),
            "f": pa.array([1.5, float("nan")]),
            "b": pa.array([True, None]),
            "d": pa.array([Decimal("1.20"), None], pa.decimal128(9, 2)),
            "day": pa.array([date(2024, 2, 29), None]),
            "ts": pa.array([1, None], pa.timestamp("us", "UTC")),
        }
    )
    first, second = csv_lines(table).decode().split("\r\n")[1:3]
    assert first == "1152921504606846976,1.5,true,1.20,2024-02-29,1970-01-01T00:00:00.000001Z"
    assert second == ",nan,,,,"


def test_a_binary_column_is_refused_by_name(tmp_path: Path):
    sink = open_sink(OutputRequest(f"csv:{tmp_path}"))
    sink.check(SPEC.queries["q"])
    with pytest.raises(UsageError, match="query r: column whole is binary, which CSV cannot carry"):
        sink.check(SPEC.queries["r"])


def test_a_query_has_one_file_for_each_micro_batch_with_its_parts_in_order(tmp_path: Path):
    opened = open_sink(OutputRequest(f"csv:{tmp_path / 'out'}"))
    assert opened.default_checkpoint() == tmp_path / "out" / "_checkpoint"
    sink = opened.attached(0, Publisher(tmp_path / "ckpt", opened.folder))
    for batch in range(2):
        stager = sink.stager(batch)
        staged = [stager.stage(name, part, pa.table({"k": [10 * batch + part]})) for part in (1, 0) for name in "qr"]
        sink.commit(BatchOutcome(batch, [one for one in staged if one is not None]))
    files = {str(file.relative_to(tmp_path / "out")): file.read_text() for file in (tmp_path / "out").glob("[qr]/*")}
    assert files == {f"{q}/b000000000{n}-000.csv": f"k\n{10 * n}\n{10 * n + 1}\n" for q in "qr" for n in range(2)}
    assert not list((tmp_path / "out" / "_staging").iterdir())
