"""Secrets stand nowhere but where they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.model import UsageError
from muntin.spark.brokers import resolved, scrubbed
from muntin.spark.ingest.sources import check_source
from muntin.sql import parse_job

WORD = "open-sesame"


def stream(options: str, form: str = "kafka"):
    sql = f"CREATE STREAM S (ts TIMESTAMP) TIMESTAMP BY ts VALUE FORMAT JSON WITH (format = '{form}', {options});"
    return parse_job(sql).streams["S"]


KAFKA = "'kafka.bootstrap.servers' = 'h:1', subscribe = 't'"
NATS = "stream = 's'"


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("kafka", f"{KAFKA}, 'kafka.sasl.password' = '{WORD}'"),
        ("kafka", f"{KAFKA}, 'kafka.sasl.jaas.config' = 'x password=\"{WORD}\"'"),
        ("kafka", f"{KAFKA}, 'kafka.ssl.key.password' = '{WORD}'"),
        ("nats", f"{NATS}, 'nats.servers' = 'nats://h:1', 'nats.password' = '{WORD}'"),
        ("nats", f"{NATS}, 'nats.servers' = 'nats://u:{WORD}@h:1'"),
    ],
)
def test_a_secret_in_a_job_file_is_refused_without_being_repeated(form: str, options: str):
    with pytest.raises(UsageError, match="where others can read it") as refused:
        check_source(stream(options, form))
    assert WORD not in str(refused.value)


def test_a_secret_is_looked_up_where_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "word").write_text(f"{WORD}\n")
    monkeypatch.setenv("WORD", WORD)
    by_env, by_file = {"kafka.sasl.password": "env:WORD"}, {"kafka.sasl.password": f"file:{tmp_path}/word"}
    for options in (by_env, by_file):
        check_source(stream(f"{KAFKA}, 'kafka.sasl.password' = '{options['kafka.sasl.password']}'"))
        assert resolved(options) == {"kafka.sasl.password": WORD}
        assert scrubbed(f"no {WORD} here", options) == "no <kafka.sasl.password> here"
    monkeypatch.delenv("WORD")
    with pytest.raises(UsageError, match="the environment has no WORD"):
        resolved(by_env)
    with pytest.raises(UsageError, match="cannot read"):
        resolved({"kafka.sasl.password": "file:/nowhere/word"})


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        ("kafka", "subscribe = 't'", "needs kafka.bootstrap.servers"),
        ("kafka", "'kafka.bootstrap.servers' = 'h:1'", "needs subscribe or subscribePattern"),
        ("kafka", f"{KAFKA}, minOffsetsPerTrigger = '5'", "has no option minOffsetsPerTrigger"),
        ("kafka", f"{KAFKA}, maxOffsetsPerTrigger = 'many'", "maxOffsetsPerTrigger is many"),
        ("nats", "'nats.servers' = 'nats://h:1'", "needs stream"),
    ],
)
def test_options_that_there_are_not_are_refused_before_anything_runs(form: str, options: str, message: str):
    with pytest.raises(UsageError, match=message):
        check_source(stream(options, form))


@pytest.mark.parametrize("form", ["kafka", "nats"])
def test_a_missing_package_is_named_with_the_line_that_installs_it(form: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=rf"pip install 'muntin\[{form}\]'"):
        check_source(stream(KAFKA if form == "kafka" else f"{NATS}, 'nats.servers' = 'nats://h:1'", form))
