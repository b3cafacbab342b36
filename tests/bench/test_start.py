"""`muntin bench start` with commands that write a file when they are told, without Spark."""

from __future__ import annotations

import sys

from muntin.bench import start


def test_seconds_count_until_the_first_file_of_rows(tmp_path):
    place = tmp_path / "place"
    (place / "out" / "q0").mkdir(parents=True)
    (place / "out" / "q0" / "_columns.parquet").touch()
    write = f"import time; time.sleep(0.3); open(r'{place}/out/q0/b0-000.parquet', 'w'); time.sleep(60)"
    found = start.first_result([sys.executable, "-c", write], place, 30.0)
    assert found is not None and 0.3 <= found["seconds"] < 30.0 and found["core_s"] >= 0


def test_a_contender_that_ends_or_brings_nothing_has_no_figure(tmp_path):
    assert start.first_result([sys.executable, "-c", "pass"], tmp_path, 30.0) is None
    assert start.first_result([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, 0.2) is None


def test_the_table_has_medians_and_their_ratio():
    runs = [{"seconds": s, "core_s": 2 * s} for s in (3.0, 9.0, 6.0)]
    spark = [{"seconds": 12.0, "core_s": 20.0}]
    text = start.render({"contenders": {start.OURS: runs, start.SPARK: spark}})
    assert "6.0      12.0" in text and "ours takes 0.50 of Spark's time" in text
    assert "target" not in start.render({"contenders": {start.OURS: runs, start.SPARK: []}})


def test_both_contenders_get_the_same_files(tmp_path):
    calls = start.commands(start.LOAD, tmp_path)
    ours, spark = calls[start.OURS](tmp_path / "a"), calls[start.SPARK](tmp_path / "b")
    assert str(tmp_path / "job.sql") in ours and str(tmp_path / "a" / "out") in ours
    assert str(tmp_path) in (tmp_path / "job.sql").read_text() and spark[2] == str(tmp_path)
    compile((tmp_path / "plain_join.py").read_text(), "plain_join.py", "exec")
