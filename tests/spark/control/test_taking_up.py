"""A change that a run wrote down and did not finish is taken up by the next one; nothing is done twice. A query finds
the pipeline that reads its streams, or begins one."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from muntin.model import JobSpec, Side, UsageError, Window
from muntin.model.job import JoinKind
from muntin.plan import evolve, make_plan, reporting
from muntin.plan.traffic import NOTHING
from muntin.spark.checkpoint import requests
from muntin.spark.checkpoint.identity import pipeline_folder
from muntin.spark.checkpoint.manifests import Manifest
from muntin.spark.checkpoint.plans import Epoch, PlanLog
from muntin.spark.checkpoint.reports import ShardChange, ShardReport
from muntin.spark.control import control_stream
from muntin.spark.control.changes import ChangeRequest, Changes, is_same
from muntin.spark.control.routing import QueryRouter, assign_queries, query_differences, with_pending_changes
from muntin.spark.sink.parquet import ParquetFolders
from muntin.spark.sink.sink import OutputRequest
from muntin.sql import parse_change, parse_job

STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = '{name}');\n"
    for name in "ABCD"
)
Q = "CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 5 s;"
SPEC = parse_job(STREAMS + Q)
ADD = "CREATE QUERY p AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 3 s"
(QUERY,) = SPEC.queries.values()
OTHER: list[dict[str, Any]] = [
    {"keys": ()},
    {"window": Window(1, 1)},
    {"window": replace(QUERY.window, starts=(1, 0))},
    {"select": ()},
    {"where": (QUERY.keys[0].left, None)},
    {"residual": QUERY.keys[0].left},
    {"after": QUERY.keys[0].left},
    {"kind": JoinKind.ANTI},
    {"subject": Side.LEFT},
    {"preserved": (Side.LEFT,)},
]
BESIDE = "CREATE QUERY r AS SELECT A.k FROM A, C WHERE A.k = C.k WINDOW 1 s"


@pytest.mark.parametrize("fields", OTHER, ids=lambda fields: "".join(fields))
def test_another_meaning_makes_another_query_and_another_spelling_does_not(fields: dict[str, Any]):
    assert is_same(QUERY, replace(QUERY, text="typed otherwise"))
    assert not is_same(QUERY, replace(QUERY, **fields))


def begin(checkpoint: Path, number: int, spec: JobSpec, elsewhere: Collection[str], request: ChangeRequest) -> Changes:
    folder = pipeline_folder(checkpoint, number)
    log = PlanLog(folder, SPEC)
    control_stream.make_folder(folder)
    if log.latest() is None:
        log.write(Epoch(0, reporting(make_plan(spec), elsewhere), {}, request.name, request.kind, request.request_id))
    pipeline = Changes(folder, checkpoint, SPEC, log, lambda: NOTHING)
    if request.kind:
        pipeline.send(log.read(0))
    return pipeline


def router(checkpoint: Path) -> QueryRouter:
    def following(*given: Any) -> Changes:
        return begin(checkpoint, len(made.pipelines), *given)

    made = QueryRouter(checkpoint, SPEC, following, sink(checkpoint).check, threading.RLock())
    made.pipelines.append(begin(checkpoint, 0, SPEC, (), ChangeRequest()))
    return made


def sink(checkpoint: Path) -> ParquetFolders:
    return ParquetFolders(OutputRequest(str(checkpoint / "out")))


def reached(epoch: int, **change: Any) -> Manifest:
    """A commit in which the only shard has come to an epoch."""
    given: dict[str, Any] = {"applied_from": 5, "complete_from": {"p": 7}, "freed_rows": 0, "freed_bytes": 0} | change
    changes = {str(epoch): [ShardChange(epoch, **given)]} if epoch else {}
    return Manifest(1, reports={"0/0": ShardReport(join=0, shard=0, epoch=epoch)}, changes=changes)


def sent(folder: Path) -> list[int]:
    return control_stream.sent_epochs(folder)


def test_a_statement_becomes_an_epoch_a_message_and_an_answer(tmp_path):
    running = router(tmp_path)
    (pipeline,) = running.pipelines
    request = requests.submit(tmp_path, ADD)
    running.poll()
    assert requests.read_answer(tmp_path, request).state == "accepted" and requests.pending(tmp_path) == []
    assert sent(tmp_path) == [1] and set(pipeline.plan.queries) == {"q", "p"}
    assert pipeline.log.read(1).covered == {"p": True}, "the window of q holds all that p wants"
    pipeline.committed(reached(0))
    assert requests.read_answer(tmp_path, request).state == "accepted"
    pipeline.committed(reached(1))
    answer = requests.read_answer(tmp_path, request)
    assert (answer.state, answer.kind, answer.epoch) == ("in force", "added", 1)
    assert answer.complete_from == datetime(1970, 1, 1, 0, 0, 0, 7, UTC)
    assert "job file" in answer.hint, "the next start goes by the file"


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 3 s", []),
        ("SELECT A.k FROM A, B WHERE A.k = B.k AND A.k = NULL WINDOW 3 s", ["A.k = NULL is never true; write A.k IS"]),
        ("SELECT A.k FROM A, B WHERE A.k = B.k AND A.k > 5 AND A.k < 3 WINDOW 3 s", ["query p: no row can satisfy"]),
        (
            "SELECT COUNT(*) AS n FROM A [NOW], B [NOW] WHERE A.k = B.k EVERY 10 s",
            ["query p: EVERY 10 s looks at each"],
        ),
    ],
)
def test_an_answer_says_what_a_new_query_may_not_mean(tmp_path, text, warnings):
    running = router(tmp_path)
    request = requests.submit(tmp_path, f"CREATE QUERY p AS {text}")
    running.poll()
    for epoch in (0, 1):
        running.pipelines[0].committed(reached(epoch))
        found = requests.read_answer(tmp_path, request)
        assert [expected in line for expected, line in zip(warnings, found.warnings, strict=True)] == [True] * len(
            warnings
        )
    assert found.state == "in force"


def test_a_run_that_died_after_the_plan_was_written_sends_it_with_the_next(tmp_path):
    first = router(tmp_path).pipelines[0]
    request = requests.submit(tmp_path, ADD)
    change = parse_change(ADD, SPEC)
    spec = parse_job(STREAMS + Q + ADD)
    first.log.write(Epoch(1, evolve(first.plan, spec), {"p": True}, change.name, "added", request))
    assert sent(tmp_path) == []
    again = router(tmp_path)
    again.pipelines[0].resume(Manifest(-1))
    again.poll()
    assert sent(tmp_path) == [1], "once, although the request was still there"
    assert requests.read_answer(tmp_path, request).state == "accepted"
    again.pipelines[0].committed(reached(1))
    assert requests.read_answer(tmp_path, request).state == "in force"


def test_a_change_that_is_on_its_way_when_the_run_ends_is_answered_by_the_next(tmp_path):
    request = requests.submit(tmp_path, ADD)
    router(tmp_path).poll()
    again = router(tmp_path).pipelines[0]
    again.resume(reached(0))
    assert sent(tmp_path) == [1]
    again.committed(reached(1))
    assert requests.read_answer(tmp_path, request).state == "in force"


def test_a_change_that_was_committed_and_not_answered_is_answered_by_the_next(tmp_path):
    request = requests.submit(tmp_path, ADD)
    router(tmp_path).poll()
    router(tmp_path).pipelines[0].resume(reached(1))
    assert requests.read_answer(tmp_path, request).state == "in force"


def test_what_is_on_its_way_comes_after_the_job_file(tmp_path):
    running = router(tmp_path)
    running.submit(ADD)
    pending = router(tmp_path).pipelines[0].pending(reached(0))
    assert set(with_pending_changes(SPEC, pending).queries) == {"q", "p"}
    assert router(tmp_path).pipelines[0].pending(reached(1)) == []
    running.submit("DROP QUERY q")
    pending = router(tmp_path).pipelines[0].pending(reached(0))
    assert set(with_pending_changes(SPEC, pending).queries) == {"p"}


def test_the_last_query_of_a_job_stays(tmp_path):
    running = router(tmp_path)
    with pytest.raises(UsageError, match="needs a query"):
        running.submit("DROP QUERY q")
    assert sent(tmp_path) == [] and running.pipelines[0].log.latest() == 0


def test_a_job_file_with_other_queries_is_one_change(tmp_path):
    running = router(tmp_path)
    running.follow_job_file(SPEC)
    assert sent(tmp_path) == []
    spec = parse_job(STREAMS + ADD)
    assert query_differences(running.pipelines[0].plan.queries, spec.queries) == ["query p: new", "query q: gone"]
    running.follow_job_file(spec)
    (pipeline,) = running.pipelines
    assert sent(tmp_path) == [1] and set(pipeline.plan.queries) == {"p"}
    assert pipeline.plan.joins[0].index == 0, "the join goes on"


def test_a_query_over_streams_that_no_pipeline_reads_begins_one(tmp_path):
    running = router(tmp_path)
    request = requests.submit(tmp_path, BESIDE)
    running.poll()
    main, beside = running.pipelines
    assert sent(tmp_path) == [] and sent(pipeline_folder(tmp_path, 1)) == [0], "the pipeline that runs does not notice"
    assert requests.read_answer(tmp_path, request).state == "accepted" and requests.pending(tmp_path) == []
    assert beside.sources == {"A", "C"} and set(main.plan.queries) == {"q"}
    assert beside.plan.joins[0].reports == (False, True), "late rows of A are reported where they were"
    beside.committed(Manifest(0, reports={"0/0": ShardReport(join=0, shard=0, epoch=0)}))
    answer = requests.read_answer(tmp_path, request)
    assert (answer.state, answer.applied_from, answer.complete_from) == ("in force", None, None)
    second = running.submit("CREATE QUERY s AS SELECT A.k FROM A, C WHERE A.k = C.k WINDOW 2 s")
    assert second.pipeline is beside and sent(beside.folder) == [0, 1]
    assert running.submit(ADD).pipeline is main
    with pytest.raises(UsageError, match="already a query r"):
        running.submit(BESIDE.replace("A, C", "A, B").replace("C.k", "B.k"))
    with pytest.raises(UsageError, match="in one step"):
        running.submit(BESIDE.replace("CREATE", "CREATE OR REPLACE").replace("C.k", "B.k").replace("A, C", "A, B"))
    again = begin(tmp_path, 1, SPEC, (), ChangeRequest())
    assert [e.number for e in again.pending(Manifest(-1))] == [0, 1], (
        "the beginning of a pipeline is taken up as a change is"
    )


def test_a_pipeline_whose_last_query_goes_is_over_and_its_streams_are_reported_by_others(tmp_path):
    running = router(tmp_path)
    running.submit(BESIDE)
    main, beside = running.pipelines
    running.submit("DROP QUERY q")
    assert main.plan.queries == {} and main.plan.joins == () and not main.has_ended
    assert beside.plan.joins[0].reports == (True, True) and sent(beside.folder) == [0, 1]
    assert running.submit(ADD).pipeline not in (main, beside), "a pipeline that ends takes no more queries"
    main.committed(Manifest(3, left=1))
    assert main.has_ended


def test_queries_of_a_job_file_stay_in_their_pipelines_or_begin_one():
    spec = parse_job(STREAMS + Q + BESIDE + "; CREATE QUERY s AS SELECT C.k FROM C, D WHERE C.k = D.k WINDOW 1 s")
    assert assign_queries(spec, [("AB", "q"), ("AC", "r")]) == {"q": 0, "r": 1, "s": None}
    assert assign_queries(spec, [("AB", ""), ("ABC", "q")]) == {"q": 1, "r": 1, "s": None}
    assert query_differences({**spec.queries, "t": None}, replace(spec, queries={"q": spec.queries["q"]}).queries) == [
        "query r: gone",
        "query s: gone",
        "query t: gone",
    ]


def test_a_column_keeps_its_type_under_one_name(tmp_path):
    running = router(tmp_path)
    sink(tmp_path).prepare(running.pipelines[0].plan, SPEC.settings)
    replaced = Q.replace("CREATE", "CREATE OR REPLACE")
    running.submit(replaced.replace("A.k FROM", "B.k AS other FROM"))
    sink(tmp_path).prepare(running.pipelines[0].plan, SPEC.settings)
    assert pq.read_schema(tmp_path / "out" / "q" / "00-schema.parquet").names == ["other", "_ts"]
    with pytest.raises(UsageError, match="column k is string, but int64 in the files"):
        running.submit(replaced.replace("A.k FROM", "CAST(A.k AS STRING) AS k FROM"))
    running.submit(replaced.replace("A.k FROM", "CAST(A.k AS STRING) AS text FROM"))


def test_epochs_and_messages_that_no_replay_can_need_are_removed(tmp_path):
    running = router(tmp_path)
    for n in range(6):
        running.submit(ADD.replace("QUERY p", f"QUERY p{n}"))
    (pipeline,) = running.pipelines
    pipeline.forget(4, 4)
    assert pipeline.log.numbers() == [0, 3, 4, 5, 6] and sent(tmp_path) == [5, 6]
    assert set(PlanLog(tmp_path, SPEC).read(3).plan.queries) == {"q", "p0", "p1", "p2"}
    pipeline.forget(6, 10)
    running.submit(ADD)
    assert pipeline.log.numbers() == [0, 5, 6, 7] and sent(tmp_path) == [6, 7]
    assert sorted(p.name for p in control_stream.folder(tmp_path).iterdir()) == ["0000000006.json", "0000000007.json"]


@pytest.mark.parametrize("strategy", ["state-slice", "pull-up", "push-down", "isolated"])
def test_other_processes_read_the_plan_that_was_written(tmp_path, strategy):
    where = "AND A.k > 3 AND B.k IN (1, 2) AND A.k % 2 = 0"
    text = f"SET strategy = '{strategy}';" + STREAMS + Q + ADD.replace("B.k W", f"B.k {where} W")
    spec = parse_job(text)
    plan = make_plan(spec)
    after = evolve(
        plan, parse_job(text + ";" + ADD.replace("QUERY p", "QUERY s").replace("B.k W", "B.k AND A.k < 9 W"))
    )
    PlanLog(tmp_path, spec).write(Epoch(4, after, {"s": False}, "s", "added", "id"))
    assert PlanLog(tmp_path, replace(spec, queries={})).read(4) == Epoch(4, after, {"s": False}, "s", "added", "id")
