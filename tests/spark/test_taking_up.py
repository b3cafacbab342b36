"""A change that a run wrote down and did not finish is taken up by the next one; nothing is done twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muntin.model import UsageError
from muntin.plan import evolve, make_plan
from muntin.plan.traffic import NOTHING
from muntin.spark import control, requests
from muntin.spark.changes import Changes
from muntin.spark.plans import Epoch, PlanLog
from muntin.spark.publish import Manifest
from muntin.sql import parse_change, parse_job

STREAMS = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
CREATE STREAM C (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'c');
"""
SPEC = parse_job(STREAMS + "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 5 s;")
ADD = "CREATE QUERY p AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 3 s"


def changes(checkpoint: Path) -> Changes:
    log = PlanLog(checkpoint, SPEC)
    if log.latest() is None:
        log.write(Epoch(0, make_plan(SPEC)))
    control.make_folder(checkpoint)
    return Changes(checkpoint, SPEC, log, {"A", "B"}, lambda: NOTHING)


def reached(epoch: int, **change: Any) -> Manifest:
    """A commit in which the only shard has come to an epoch."""
    made = {"epoch": epoch, "applied_from": 5, "complete_from": {"p": 7}, "freed_rows": 0, "freed_bytes": 0} | change
    return Manifest(1, operators={"0/0": {"epoch": epoch, "join": 0}}, changes={str(epoch): [made]})


def sent(checkpoint: Path) -> list[int]:
    return [m["epoch"] for m in control.messages(checkpoint)]


def test_a_statement_becomes_an_epoch_a_message_and_an_answer(tmp_path):
    asked = changes(tmp_path)
    request = requests.submit(tmp_path, ADD)
    asked.poll()
    assert requests.read_answer(tmp_path, request).state == "accepted" and requests.pending(tmp_path) == []
    assert sent(tmp_path) == [1] and set(asked.plan.queries) == {"q", "p"}
    assert asked.log.read(1).covered == {"p": True}, "the window of q holds all that p wants"
    asked.committed(reached(0))
    assert requests.read_answer(tmp_path, request).state == "accepted"
    asked.committed(reached(1))
    answer = requests.read_answer(tmp_path, request)
    assert (answer.state, answer.kind, answer.epoch) == ("in force", "added", 1)
    assert answer.complete_from == "1970-01-01T00:00:00.000007+00:00"


def test_a_run_that_died_after_the_plan_was_written_sends_it_with_the_next(tmp_path):
    first = changes(tmp_path)
    request = requests.submit(tmp_path, ADD)
    change = parse_change(ADD, SPEC)
    spec = parse_job(STREAMS + SPEC.queries["q"].text + ";" + ADD)
    first.log.write(Epoch(1, evolve(first.plan, spec), {"p": True}, change.name, "added", request))
    assert sent(tmp_path) == []
    again = changes(tmp_path)
    again.take_up(Manifest(-1))
    again.poll()
    assert sent(tmp_path) == [1], "once, although the request was still there"
    assert requests.read_answer(tmp_path, request).state == "accepted"
    again.committed(reached(1))
    assert requests.read_answer(tmp_path, request).state == "in force"


def test_a_change_that_is_on_its_way_when_the_run_ends_is_answered_by_the_next(tmp_path):
    first = changes(tmp_path)
    request = requests.submit(tmp_path, ADD)
    first.poll()
    again = changes(tmp_path)
    again.take_up(reached(0))
    assert sent(tmp_path) == [1]
    again.committed(reached(1))
    assert requests.read_answer(tmp_path, request).state == "in force"


def test_streams_that_the_job_does_not_read_and_the_last_query_are_refused(tmp_path):
    asked = changes(tmp_path)
    with pytest.raises(UsageError, match="does not read C"):
        asked.submit("CREATE QUERY r AS SELECT A.k FROM A, C WHERE A.k = C.k WINDOW 1 s")
    with pytest.raises(UsageError, match="needs a query"):
        asked.submit("DROP QUERY q")
    assert sent(tmp_path) == [] and asked.log.latest() == 0


def test_a_job_file_with_other_queries_is_one_change(tmp_path):
    asked = changes(tmp_path)
    assert asked.compare(SPEC) == [] and sent(tmp_path) == []
    assert asked.compare(parse_job(STREAMS + ADD)) == ["query p: new", "query q: gone"]
    assert sent(tmp_path) == [1] and set(asked.plan.queries) == {"p"}
    assert asked.plan.joins[0].index == 0, "the join goes on"
