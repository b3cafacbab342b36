"""A checkpoint belongs to one job, an output to one checkpoint, and one process at a time runs on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.model import JobSpec, UsageError
from muntin.spark.checkpoint.identity import JobIdentity, claim_checkpoint, claim_output, differences
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
    assert differences(of(), of(other)) == []


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
        ("path = 'a'", "path = 'c'", "streams A options path: was a, is c"),
        ("BY ts WITH", "BY ts LATENESS 1 s WITH", "streams B lateness_us: was 0, is 1000000"),
        ("STREAM B (ts TIMESTAMP, k BIGINT)", "STREAM B (ts TIMESTAMP, k INT)", "streams B columns: was "),
    ],
)
def test_what_makes_another_job_is_said(old: str, new: str, said: str, tmp_path: Path):
    claim_checkpoint(tmp_path, of())
    with pytest.raises(UsageError, match="another job") as caught:
        claim_checkpoint(tmp_path, of(SQL.replace(old, new)))
    assert said in caught.value.message


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


def test_settings_are_part_of_the_identity():
    keyed = "SET output_order = 'key';" + SQL
    assert differences(of(), of(keyed, "pull-up", 3)) == [
        "settings strategy: was state-slice, is pull-up",
        "settings output_order: was global, is key",
        "settings shards: was 2, is 3",
    ]
