"""A mistake in a job file: one message with place, caret and hint, exit code 2, and nothing is started or written."""

from __future__ import annotations

import re

import pytest

from muntin.cli.main import main

STREAMS = """\
CREATE STREAM A (ts TIMESTAMP, k BIGINT, name STRING, v DOUBLE) TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT, name STRING, v DOUBLE) TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'b');
"""
GOOD = "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;\n"

BAD = {
    "unknown stream": (GOOD.replace("A, B", "A, Bee"), "Bee", "no stream Bee"),
    "unknown column": (GOOD.replace("A.k FROM", "A.kk FROM"), "kk", "no column kk"),
    "type mismatch": (GOOD.replace("WINDOW", "AND A.v > 'hot' WINDOW"), "A.v > 'hot'", "cannot compare"),
    "ambiguous name": (GOOD.replace("A.k FROM", "v FROM"), "v", "in both streams"),
    "zero window": (GOOD.replace("1 s", "0 s"), "WINDOW 0 s", "longer than zero"),
    "negative window": (GOOD.replace("1 s", "-1 s"), "WINDOW -1 s", "longer than zero"),
    "duplicate query": (GOOD + GOOD, "q", "q"),
    "key types": (GOOD.replace("A.k = B.k", "A.k = B.name"), "A.k = B.name", "do not compare"),
    "no SQL": ("CREATE QUERY q AS SELEKT;\n", "SELEKT", ""),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """`muntin run` on a text, with a Spark that must not be started."""

    def started(*_):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("muntin.spark.session.open_session", started)
    monkeypatch.setattr("muntin.spark.session.begin_java", lambda *_: None)
    monkeypatch.chdir(tmp_path)

    def call(text):
        (tmp_path / "job.sql").write_text(text)
        code = main(["run", "job.sql", "--output", "out", "--checkpoint", "ckpt", "--bounded"])
        out, err = capsys.readouterr()
        assert [p.name for p in tmp_path.iterdir()] == ["job.sql"], "something was written"
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        return err

    return call


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_in_the_sql_is_shown_in_its_place(run, case):
    text, marked, message = BAD[case]
    err = run(STREAMS + text)
    head, code, carets, *rest = err.splitlines()
    assert re.match(rf"muntin: job\.sql:\d+:\d+: .*{re.escape(message)}", head)
    start = carets.index("^")
    assert code[start : carets.rindex("^") + 1] == marked
    assert len(rest) == 1 and rest[0].startswith("  hint: ")


def test_a_job_without_queries_is_refused_before_spark_starts(run):
    assert "the job has no queries" in run(STREAMS)
    assert "the job has no queries" in run("")


def test_a_source_that_is_not_there_is_refused_before_spark_starts(run):
    err = run(STREAMS + GOOD)
    assert err.startswith("muntin: stream A: there is no a\n  hint: ")
    assert err.count("\n") == 2
