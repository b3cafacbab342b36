"""Runs on a stand-in for Spark: what a start refuses, what it takes up, and what it says of both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from muntin.cli.main import main
from muntin.model import JobSpec, MuntinError, UsageError
from muntin.spark.checkpoint import Answer, requests
from muntin.spark.control import control_stream
from muntin.spark.run import Job, Run
from muntin.spark.run import run as running
from muntin.sql import parse_job
from whole_way.drive import kept_apart
from whole_way.stand_in import Session

STREAMS = "SET shards = 2;" + "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = '{name}', "
    "maxFilesPerTrigger = '1');"
    for name in "AB"
)
C = "CREATE STREAM C (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x', name = 'C');"
Q = "CREATE QUERY q AS SELECT A.k AS a, B.k AS b FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;"
P = "CREATE QUERY p AS SELECT A.k AS a FROM A, B WHERE A.k = B.k WINDOW 3 microseconds"


def file(*times: int) -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array([7] * len(times), pa.int64())})


class Place:
    """One checkpoint and output, and two streams whose files have come."""

    def __init__(self, root: Path):
        self.session, self.root, self.heard = Session(), root, list[Answer]()
        self.checkpoint = root / "ckpt"
        self.come(10, 12)

    def come(self, *times: int) -> None:
        for name in "AB":
            self.session.files[name].append(file(*times))

    def start(self, mode: str, spec: JobSpec | None = None) -> Run:
        job = Job(self.session, spec or parse_job(STREAMS + Q))  # type: ignore[arg-type]
        return job.start(output=self.root / "out", checkpoint=self.checkpoint, mode=mode, on_change=self.heard.append)

    def run(self, mode: str, spec: JobSpec | None = None) -> dict[str, Any]:
        run = self.start(mode, spec)
        assert run.await_termination(60)
        return run.status()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with kept_apart(tmp_path):
        yield Place(tmp_path)


@pytest.mark.parametrize("mode", ["bounded", "available-now", "endless"])
@pytest.mark.parametrize("more", [False, True])
def test_a_checkpoint_that_a_bounded_run_has_ended_takes_no_more_rows(place: Place, mode: str, more: bool):
    assert place.run("bounded")["state"] == "ended"
    if more:
        place.come(20)
    with pytest.raises(UsageError, match="a bounded run has ended the streams of") as refused:
        place.start(mode)
    assert refused.value.hint and '`mode="available-now"`' in refused.value.hint
    assert not list((place.root / "out" / "_dead_letters").glob("b*"))


@pytest.mark.parametrize("error", [SystemExit(1), ValueError("no screen")])
def test_a_report_of_progress_that_fails_between_micro_batches_ends_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    """It is called by the thread that listens, which would end alone: the job would go on and hear nobody."""

    def report(_: Any) -> None:
        raise error

    monkeypatch.setattr(running, "LISTEN_S", 0.01)
    job = Job(place.session, parse_job(STREAMS + Q))  # type: ignore[arg-type]
    run = job.start(output=place.root / "out", checkpoint=place.checkpoint, mode="endless", progress=report)
    assert place.session.queries[-1].step()
    with pytest.raises(MuntinError, match="no screen" if isinstance(error, ValueError) else "1"):
        run.await_termination()
    assert run.status()["state"] == "failed"


def test_a_run_over_what_is_there_can_go_on(place: Place):
    place.run("available-now")
    place.come(20, 22)
    assert place.run("bounded")["queries"]["q"]["total_rows"] == 8


@pytest.mark.parametrize("kill", ["before state", "before commit"])
def test_a_bounded_run_that_dies_while_it_ends_the_streams_is_brought_to_its_end(place: Place, kill: str):
    place.run("available-now")
    control_stream.send(place.checkpoint, control_stream.EndMessage(["A", "B"]))
    place.session.faults.kill = kill
    with pytest.raises(MuntinError):
        place.run("bounded")
    with pytest.raises(UsageError, match="a bounded run was stopped while it ended the streams"):
        place.start("available-now")
    status = place.run("bounded")
    assert (status["state"], status["queries"]["q"]["total_rows"]) == ("ended", 4)
    with pytest.raises(UsageError, match="has ended the streams"):
        place.start("bounded")


def test_what_waits_is_taken_up_or_refused_at_the_start_and_said(place: Place):
    place.run("available-now")
    for sql in (P, "DROP QUERY nobody", "CREATE QUERY r AS SELECT A.x FROM A, B WHERE A.k = B.k WINDOW 1 s"):
        requests.submit(place.checkpoint, sql)
    place.come(20, 22)
    status = place.run("available-now")
    assert set(status["queries"]) == {"q", "p"}
    refused = [answer for answer in place.heard if answer.state == "refused"]
    assert [(a.state, a.name, a.kind) for a in place.heard if a not in refused] == [
        ("accepted", "p", "added"),
        ("in force", "p", "added"),
    ]
    assert [answer.error and answer.error.splitlines()[0].split(": ", 1)[-1] for answer in refused] == [
        "there is no query nobody",
        "A has no column x",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["add", Q], "there is already a query q"),
        (["add", P.replace("A, B", "A, D")], "there is no stream D"),
        (["add", P.replace("A.k AS", "A.x AS")], "A has no column x"),
        (["add", P.replace("WINDOW", "WINDOWS")], "SQL:1:"),
        (["drop", "nobody"], "there is no query nobody"),
        (["drop", "q"], "a job needs a query"),
    ],
)
def test_a_change_of_a_stopped_job_is_checked_at_once(place: Place, capsys: Any, change: list[str], said: str):
    place.run("available-now", parse_job(STREAMS + C + Q))
    action, statement = change
    assert main(["query", action, "--checkpoint", str(place.checkpoint), statement]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err
    assert not requests.waiting(place.checkpoint), "nothing is left that a run would refuse"


def test_a_change_of_a_stopped_job_is_checked_with_those_that_wait(place: Place, capsys: Any):
    ask = ["--checkpoint", str(place.checkpoint)]
    place.run("available-now", parse_job(STREAMS + C + Q))
    over_c = P.replace("QUERY p", "QUERY o").replace("A, B", "A, C").replace("B.k", "C.k")
    for change in (["add", P], ["drop", "q"], ["add", Q], ["add", over_c]):
        assert main(["query", *change[:1], *ask, *change[1:]]) == 0, capsys.readouterr()
    assert main(["query", "add", *ask, P]) == 2
    place.come(20)
    place.session.files["C"].append(file(20))
    assert set(place.run("bounded", parse_job(STREAMS + C + Q))["queries"]) == {"q", "p", "o"}
    assert {answer.state for answer in place.heard} == {"accepted", "in force"}
    assert main(["query", "drop", *ask, "q"]) == 2
    assert "a bounded run has ended the streams" in capsys.readouterr().err


def test_a_stopped_job_knows_event_times_that_are_expressions(place: Place, capsys: Any):
    moved = parse_job((STREAMS + Q).replace("TIMESTAMP BY ts", "TIMESTAMP BY ts + INTERVAL 1 SECOND"))
    place.run("available-now", moved)
    ask = ["query", "add", "--checkpoint", str(place.checkpoint)]
    times = "{0}.ts + INTERVAL 1 SECOND"
    band = f"{times.format('B')} BETWEEN {times.format('A')} AND {times.format('A')} + INTERVAL 3 MICROSECONDS"
    added = P.replace("WINDOW 3 microseconds", f"AND {band}")
    assert main([*ask, added.replace("QUERY p", "QUERY r").replace("INTERVAL 1 SECOND B", "INTERVAL 2 SECONDS B")]) == 2
    assert main([*ask, added]) == 0, capsys.readouterr()
    assert set(place.run("available-now", moved)["queries"]) == {"q", "p"}


@pytest.mark.parametrize("output", ["out", "none"])
def test_the_status_says_how_many_rows_had_no_match(place: Place, capsys: Any, output: str):
    later = "A LEFT JOIN B ON A.k = B.k AND B.ts > A.ts"
    asked = {
        "l": f"SELECT A.k AS a, B.k AS b FROM {later} WINDOW 5 microseconds",
        "n": f"SELECT A.k AS a FROM {later.replace('LEFT', 'LEFT ANTI')} WINDOW 5 microseconds",
        "s": f"SELECT A.k AS a FROM {later.replace('LEFT', 'LEFT SEMI')} WINDOW 5 microseconds",
    }
    queries = "".join(f"CREATE QUERY {name} AS {text};" for name, text in asked.items())
    job = Job(place.session, parse_job(STREAMS + Q + queries))  # type: ignore[arg-type]
    where = place.root / "out" if output == "out" else output
    for mode in ("available-now", "bounded"):
        run = job.start(output=where, checkpoint=place.checkpoint, mode=mode)
        assert run.await_termination(60)
    shown = run.status()["queries"]
    assert {name: (q["total_rows"], q.get("unmatched")) for name, q in shown.items()} == {
        "q": (4, None),
        "l": (2, 1),
        "n": (1, 1),
        "s": (1, 0),
    }
    assert main(["status", "--checkpoint", str(place.checkpoint)]) == 0
    assert "without a match" in capsys.readouterr().out


def test_an_answer_has_times_in_utc(place: Place):
    place.run("available-now")
    requests.submit(place.checkpoint, P)
    place.run("available-now")
    last = place.heard[-1]
    assert (last.state, last.applied_from) == ("in force", datetime(1970, 1, 1, 0, 0, 0, 13, UTC))


def test_pairs_that_live_for_less_than_every_are_a_warning(place: Place):
    text = STREAMS + Q + "CREATE QUERY n AS SELECT COUNT(*) AS n FROM A {} A, B {} B WHERE A.k = B.k EVERY 10 seconds;"
    (line,) = place.start("available-now", parse_job(text.format("[RANGE 1 hour]", "[NOW]"))).warnings
    assert line.startswith("query n: EVERY 10 s looks at each multiple of 10 s, and a pair lives for at most 1 us")
    assert "EMIT CHANGES" in line
    assert Job(place.session, parse_job(text.format("[RANGE 10 s]", "[RANGE 1 hour]"))).spec.queries  # type: ignore


# -- from Python ------------------------------------------------------------------------------------------------------


def test_settings_are_set_by_name_with_values_of_python(place: Place):
    job = Job(place.session, parse_job(STREAMS + Q))  # type: ignore[arg-type]
    job.set("max_ahead", timedelta(hours=1)).set("adapt", False).set("state_limit", "8 GB").set("shards", 3)
    settings = job.spec.settings
    assert (settings.max_ahead_us, settings.adapt, settings.shards) == (3_600_000_000, False, 3)
    assert settings.state_limit_bytes == 8 * 10**9
    with pytest.raises(UsageError, match="there is no setting shard") as unknown:
        job.set("shard", 2)
    assert "shards" in (unknown.value.hint or "")
    with pytest.raises(UsageError, match="strategy cannot be 'none'"):
        job.set("strategy", "none")
    with pytest.raises(UsageError, match=r"the value of shards is \[2\] \(list\)"):
        job.set("shards", [2])  # type: ignore[arg-type]


def test_settings_that_do_not_go_together_or_with_a_query_are_refused(place: Place):
    outer = "CREATE QUERY n AS SELECT A.k FROM A LEFT JOIN B ON A.k = B.k WINDOW 1 s;"
    with pytest.raises(UsageError, match="asks for rows by their matches, which does not go with delivery = 'eager'"):
        Job(place.session, parse_job(STREAMS + outer)).set("delivery", "eager")  # type: ignore[arg-type]
    job = Job(place.session, parse_job(STREAMS + Q)).set("on_held_limit", "release")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="on_held_limit without a limit"):
        job.start(output=place.root / "out", checkpoint=place.checkpoint)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"output": 3}, r"output is 3 \(int\)"),
        ({"checkpoint": object}, "checkpoint is "),
        ({"sink": "print"}, r"sink is 'print' \(str\)"),
        ({"progress": 1}, r"progress is 1 \(int\)"),
        ({"on_change": 1}, r"on_change is 1 \(int\)"),
        ({"mode": "forever"}, "there is no mode 'forever'"),
    ],
)
def test_a_start_refuses_wrong_types_by_name(place: Place, options: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        Job(place.session, parse_job(STREAMS + Q)).start(**options)  # type: ignore[arg-type]


def test_a_job_refuses_wrong_types_by_name(place: Place):
    session: Any = place.session
    with pytest.raises(UsageError, match=r"the first argument of Job is 'job.sql' \(str\)"):
        Job("job.sql")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"cannot read the job file nowhere\.sql: No such file"):
        Job.from_file(session, "nowhere.sql")
    with pytest.raises(UsageError, match="stream A: frame is None"):
        Job(session).stream("A", None, time="ts")  # type: ignore[arg-type]
    for name in ("_control", "a b", ""):
        with pytest.raises(UsageError, match="cannot name a stream"):
            Job(session).stream(name, None, time="ts")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the SQL of query q is 5 \(int\)"):
        Job(session).query("q", 5)  # type: ignore[arg-type]


def test_lateness_and_idle_times_are_texts_or_timedeltas(place: Place):
    class Frame:
        isStreaming = True
        schema = StructType([StructField("ts", TimestampType()), StructField("k", LongType())])

    frame: Any = Frame()
    job = Job(place.session)  # type: ignore[arg-type]
    job.stream("A", frame, time="ts", lateness=timedelta(seconds=5), idle_after=timedelta(minutes=1))
    job.stream("B", frame, time="ts", lateness="5 seconds", idle_after="1 min")
    a, b = job.spec.streams.values()
    assert (a.lateness_us, a.idle_us) == (b.lateness_us, b.idle_us) == (5_000_000, 60_000_000)
    with pytest.raises(UsageError, match="stream a is there already"):
        job.stream("a", frame, time="ts")
    for wrong in ({"lateness": 5}, {"idle_after": 5}, {"time": 5}, {"promises": 5}):
        with pytest.raises(UsageError, match=rf"{next(iter(wrong))} is 5 \(int\)"):
            job.stream("C", frame, **{"time": "ts", **wrong})


@pytest.mark.parametrize("error", [ValueError(), ValueError("no room"), SystemExit(3)])
def test_a_sink_that_raises_fails_the_run_with_a_message(place: Place, error: BaseException):
    def sink(*_: Any) -> None:
        raise error

    job = Job(place.session, parse_job(STREAMS + Q))  # type: ignore[arg-type]
    run = job.start(sink=sink, checkpoint=place.checkpoint, mode="available-now")
    said = f"the sink raised {type(error).__name__}{f' ({error})' if str(error) else ''} with rows of q"
    with pytest.raises(MuntinError, match=re.escape(said)):
        run.await_termination()
    assert run.status()["error"] == said
