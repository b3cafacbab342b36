"""A checkpoint belongs to one job, an output to one checkpoint, and one process at a time runs on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.model import JobSpec, UsageError
from muntin.spark.checkpoint.compatibility import changed_rules, differences, refusals
from muntin.spark.checkpoint.identity import JobIdentity, claim_checkpoint, claim_output, note_start, stored_job
from muntin.spark.control import routing
from muntin.sql import parse_job

SQL = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'a', maxFilesPerTrigger = '1');
CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 1 s;
"""


def of(sql: str = SQL, strategy: str = "state-slice", shards: int = 2) -> JobIdentity:
    spec: JobSpec = parse_job(sql)
    return JobIdentity.of(spec.streams.values(), strategy, spec.settings, shards, "out")


@pytest.mark.parametrize(
    "other",
    [
        SQL.replace("maxFilesPerTrigger = '1'", "maxFilesPerTrigger = '9'"),
        SQL.replace("SELECT A.k FROM A, B", "select A.k\n  from B, A"),
    ],
)
def test_rate_limits_and_spelling_do_not_make_another_job(other: str):
    assert of() == of(other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("QUERY q", "QUERY p"),
        ("WINDOW 1 s", "WINDOW 2 s"),
        ("WINDOW 1 s", "WINDOW 1000000 ROWS"),
        ("A.k = B.k", "A.k = B.k AND A.k > 3"),
        ("A.k = B.k", "A.k = B.k AND A.ts < B.ts"),
    ],
)
def test_queries_may_change_and_are_told_apart_by_what_they_mean(old: str, new: str):
    assert of() == of(SQL.replace(old, new))
    told = routing.query_differences(parse_job(SQL).queries, parse_job(SQL.replace(old, new)).queries)
    assert told == (["query p: new", "query q: gone"] if old == "QUERY q" else ["query q: changed"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("path = 'a'", "path = 'c'", "stream A, path: was a, is c; rows that were read there could come a second time"),
        ("format = 'parquet', path = 'b'", "format = 'json', path = 'b'", "stream B, format: was parquet, is json; "),
        ("STREAM B (ts TIMESTAMP, k BIGINT)", "STREAM B (ts TIMESTAMP, k INT)", "column k: was bigint, is int; rows"),
        ("STREAM B (ts TIMESTAMP, k BIGINT)", "STREAM B (ts TIMESTAMP, k BIGINT, UNIQUE (k))", "promises: was none, "),
        (
            "\nCREATE QUERY",
            "SET output_order = 'key';\nCREATE QUERY",
            "output_order: was global, is key; the rows",
        ),
        ("\nCREATE QUERY", "SET punctuations = 'off';\nCREATE QUERY", "punctuations: was pwjoin, is off; rows that"),
    ],
)
def test_what_would_change_rows_is_refused_and_says_which(old: str, new: str, said: str, tmp_path: Path):
    other = of(SQL.replace(old, new))
    assert len(refusals(of(), other)) == 1
    claim_checkpoint(tmp_path, of())
    with pytest.raises(UsageError, match="another job") as caught:
        claim_checkpoint(tmp_path, other)
    assert said in caught.value.message


def test_a_column_that_kept_rows_have_must_stay_declared():
    more = of(SQL.replace("k BIGINT)", "k BIGINT, v INT)"))
    assert refusals(of(), more) == []
    assert refusals(more, of()) == [
        f"stream {s}, column v: gone; rows that are kept have it, so leave it declared" for s in "AB"
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("BY ts WITH", "BY ts LATENESS 1 s WITH", "stream B, lateness: was 0 s, is 1 s"),
        ("k BIGINT) TIMESTAMP BY ts WITH", "k BIGINT, v INT) TIMESTAMP BY ts WITH", "stream B, column v: new"),
        ("path = 'b'", "path = 'b', mergeSchema = 'true'", "stream B, mergeSchema: was not set, is true"),
        ("\nCREATE QUERY", "SET max_ahead = '1 hour';\nCREATE QUERY", "max_ahead: was not set, is 1 h"),
        ("\nCREATE QUERY", "SET held_limit = '1 KB';\nCREATE QUERY", "held_limit: was not set, is 1000 bytes"),
    ],
)
def test_what_changes_no_row_of_before_may_change_and_is_said(old: str, new: str, said: str, tmp_path: Path):
    other = of(SQL.replace(old, new))
    first = claim_checkpoint(tmp_path, of())
    assert claim_checkpoint(tmp_path, other) == first
    assert differences(of(), other) + changed_rules(of(), other) == [said]
    note_start(tmp_path, other)
    assert stored_job(tmp_path) == other
    assert claim_checkpoint(tmp_path, other) == first


def test_a_checkpoint_keeps_its_id_and_an_output_its_checkpoint(tmp_path: Path):
    first = claim_checkpoint(tmp_path / "one", of())
    assert claim_checkpoint(tmp_path / "one", of()) == first
    claim_output(tmp_path / "out", first)
    claim_output(tmp_path / "out", first)
    with pytest.raises(UsageError, match="another checkpoint"):
        claim_output(tmp_path / "out", claim_checkpoint(tmp_path / "two", of()))


def test_somebody_elses_checkpoint_is_not_taken(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    with pytest.raises(UsageError, match="something else"):
        claim_checkpoint(tmp_path, of())


def test_another_number_of_shards_is_refused_and_another_strategy_is_said():
    other = of(SQL, "pull-up", 3)
    assert differences(of(), other) == ["strategy: was state-slice, is pull-up"]
    assert refusals(of(), other) == [
        "shards: was 2, is 3; all rows that are kept lie in other shards: muntin rescale moves them"
    ]
