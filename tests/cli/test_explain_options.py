"""`muntin explain` with what somebody says about the streams, and with what a checkpoint knows of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from muntin.cli.main import main
from muntin.model import JobSpec
from muntin.plan.cost import DEFAULT
from muntin.spark.checkpoint import BatchOutcome, Publisher, identity
from muntin.spark.checkpoint.plans import Epoch, PlanLog
from muntin.spark.checkpoint.reports import ShardReport
from muntin.spark.control.calibration import keep_constants
from muntin.spark.shard.report import describe_operator
from muntin.sql import parse_job
from muntin.testing.local_job import LocalJob

STREAMS = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v DOUBLE) TIMESTAMP BY ts WITH (format = 'parquet', path = 'x');\n"
    for name in ("Left", "Right")
)
QUERY = "CREATE QUERY {} AS SELECT A.k FROM Left A, Right B WHERE A.k = B.k {}WINDOW {} s;\n"
JOB = STREAMS + "".join(
    QUERY.format(*parts)
    for parts in (("all", "", 1), ("one", "AND A.v > 5 ", 2), ("both", "AND A.v > 8 AND B.v > 3 ", 3))
)
ROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("v", pa.float64())])


@pytest.fixture
def explain(tmp_path, monkeypatch, capsys):
    """Exit code, stdout and stderr of `muntin explain` on a job file with the given options."""
    monkeypatch.chdir(tmp_path)

    def call(*options, text=JOB):
        (tmp_path / "job.sql").write_text(text)
        return (main(["explain", "job.sql", *map(str, options)]), *capsys.readouterr())

    return call


def described(explain, *options, text=JOB):
    code, out, err = explain("--json", *options, text=text)
    assert (code, err) == (0, "")
    return json.loads(out)


# -- what is said ----------------------------------------------------------------------------------------------------


def test_rates_keys_and_selectivities_are_what_the_prediction_rests_on(explain):
    options = ["--rate", "left=50", "--rate", "Right=0.5", "--keys", "4", "--selectivity", "one=0.25"]
    (join,) = described(explain, *options, "--selectivity", "both.RIGHT=1")["joins"]
    assert [r["rows_per_second"] for r in join["traffic"]["rates"]] == [50, 0.5]
    assert {r["known"] for r in join["traffic"]["rates"]} == {"declared"}
    assert join["traffic"]["match"] == 0.25
    assert join["traffic"]["selectivities_known"] == "partly declared"
    shares = {q["name"]: q["selectivities"] for q in join["queries"]}
    assert shares["one"] == [0.25, 1]
    assert shares["both"][1] == 1
    assert join["state"][0]["slices"][0]["predicted"]["rows"] == pytest.approx(50)


def test_rates_of_the_command_line_come_before_those_of_the_job(explain):
    text = JOB.replace("BY ts", "BY ts RATE 7 PER SECOND")
    (join,) = described(explain, "--rate", "Left=50", text=text)["joins"]
    assert [r["rows_per_second"] for r in join["traffic"]["rates"]] == [50, 7]


def test_without_options_all_is_assumed_and_the_text_says_so(explain):
    code, out, _ = explain()
    assert code == 0
    assert "assumed: Left 1,000 rows/s, Right 1,000 rows/s, 10,000 equally frequent keys, selectivities\n" in out


def test_a_stream_joined_with_itself_has_its_selectivity_by_query_and_stream(explain):
    text = STREAMS + QUERY.format("self", "AND A.v > 5 AND B.v > 6 ", 1).replace("Right B", "Left B")
    (join,) = described(explain, "--selectivity", "self.Left=0.25", text=text)["joins"]
    assert join["queries"][0]["selectivities"] == [0.25, 0.25]


@pytest.mark.parametrize(
    "options, message, hint",
    [
        (["--rate", "Middle=5"], "--rate: there is no stream Middle", "streams are Left, Right"),
        (["--rate", "Lef=5"], "--rate: there is no stream Lef", "did you mean Left?"),
        (["--rate", "Left"], "--rate: Left is not STREAM=N", "write --rate STREAM=N"),
        (["--rate", "=5"], "--rate: =5 is not STREAM=N", "write --rate STREAM=N"),
        (["--rate", "Left=fast"], "--rate cannot be fast", "write a number above 0"),
        (["--rate", "Left=0"], "--rate cannot be 0", "write a number above 0"),
        (["--rate", "Left=-1"], "--rate cannot be -1", "write a number above 0"),
        (["--rate", "Left=nan"], "--rate cannot be nan", "write a number above 0"),
        (["--rate", "Left=inf"], "--rate cannot be inf", "write a number above 0"),
        (["--keys", "0.5"], "--keys cannot be 0.5", "write a number from 1 on"),
        (["--keys", "few"], "--keys cannot be few", "write a number from 1 on"),
        (["--selectivity", "one"], "--selectivity: one is not QUERY=F or QUERY.STREAM=F", "write --selectivity"),
        (["--selectivity", "none=1"], "--selectivity: there is no query none", "did you mean one?"),
        (["--selectivity", "x.Left=1"], "--selectivity: there is no query x.Left", "queries are all, one, both"),
        (["--selectivity", "one.Middle=1"], "--selectivity: there is no stream Middle", "streams are Left, Right"),
        (["--selectivity", "one.Right=1"], "one does not select among the rows of Right", "only where"),
        (["--selectivity", "all=1"], "--selectivity: all does not select among the rows\n", "only where"),
        (["--selectivity", "both=1"], "both selects on both streams", "write both.Left=F or both.Right=F"),
        (["--selectivity", "one=0"], "--selectivity cannot be 0", "write a number above 0, at most 1"),
        (["--selectivity", "one=1.01"], "--selectivity cannot be 1.01", "write a number above 0, at most 1"),
        (["--selectivity", "one=some"], "--selectivity cannot be some", "write a number above 0, at most 1"),
        (["--checkpoint", "nowhere"], "nowhere is not the checkpoint of a job", "name the --checkpoint of a run"),
        (["--checkpoint", "."], ". is not the checkpoint of a job", "name the --checkpoint of a run"),
        (["--checkpoint", ".", "--keys", "5"], "--checkpoint goes without", "a checkpoint knows"),
    ],
)
def test_a_wrong_option_is_one_message_with_a_hint(explain, options, message, hint):
    code, out, err = explain(*options)
    assert (code, out) == (2, "")
    assert err.startswith("muntin: ") and message in err
    assert f"\n  hint: {hint}" in err
    assert err.count("\n") == 2


def test_among_very_many_queries_a_few_are_named(explain):
    text = STREAMS + "".join(QUERY.format(f"q{n}", "", n + 1) for n in range(50))
    _, _, err = explain("--selectivity", "zzz=1", text=text)
    assert "queries are q0, q1, q2, q3, q4, q5 and 44 more\n" in err


# -- what a checkpoint knows -----------------------------------------------------------------------------------------


def claim(path: Path, spec: JobSpec, strategy: str) -> None:
    """Bind a new checkpoint to a job."""
    job = identity.JobIdentity.of(spec.streams.values(), strategy, spec.settings, 1, "none")
    identity.claim_checkpoint(path, job)


@pytest.fixture
def checkpoint(tmp_path):
    """The checkpoint of a job that has met 40 rows of Left and 20 of Right in ten seconds, half of them of one key."""

    def make(spec: JobSpec, strategy: str = "state-slice", ended: bool = False):
        path = tmp_path / "ckpt"
        claim(path, spec, strategy)
        local, rows = LocalJob(spec), {}
        for name, count in (("Left", 40), ("Right", 20)):
            times = [10_000_000 * n // (count - 1) for n in range(count)]
            columns = [times, [n % 2 for n in range(count)], [float(n % 10) for n in range(count)]]
            rows[name] = pa.table([pa.array(c, f.type) for c, f in zip(columns, ROW, strict=True)], schema=ROW)
        local.push(rows, ended)
        PlanLog(path, spec).write(Epoch(0, local.plan))
        report = describe_operator(ShardReport(join=0, shard=0, epoch=0), local.shards[0][0].operator)
        Publisher(path, None).publish(BatchOutcome(0, reports=[report]))
        return path

    return make


def test_with_a_checkpoint_what_was_measured_is_what_the_prediction_rests_on(explain, checkpoint):
    plan = described(explain, "--checkpoint", checkpoint(parse_job(JOB)))
    traffic = plan["joins"][0]["traffic"]
    assert [r["rows_per_second"] for r in traffic["rates"]] == [pytest.approx(4), pytest.approx(2)]
    assert traffic["match"] == pytest.approx(0.5, rel=0.2)
    assert {r["known"] for r in traffic["rates"]} == {traffic["selectivities_known"], "measured"} == {"measured"}
    assert [q["selectivities"][0] for q in plan["joins"][0]["queries"]] == [1, 0.4, 0.1]
    assert plan["constants"]["known"] == "assumed"


def test_what_was_met_is_known_after_the_end_too(explain, checkpoint):
    (join,) = described(explain, "--checkpoint", checkpoint(parse_job(JOB), ended=True))["joins"]
    assert join["traffic"]["match"] == pytest.approx(0.5, rel=0.2)
    assert join["traffic"]["match_known"] == "measured"


def test_the_constants_of_a_checkpoint_are_used(explain, checkpoint):
    path = checkpoint(parse_job(JOB))
    before = described(explain, "--checkpoint", path)["alternatives"][0]["cpu_ms_per_second"]
    keep_constants(path, replace(DEFAULT, insert_ns=DEFAULT.insert_ns + 1000))
    after = described(explain, "--checkpoint", path)
    assert after["constants"]["known"] == "measured"
    assert after["alternatives"][0]["cpu_ms_per_second"] - before == pytest.approx(6 * 1e-3, rel=1e-3)


def test_the_strategy_that_a_checkpoint_was_begun_with_stays(explain, checkpoint):
    plan = described(explain, "--checkpoint", checkpoint(parse_job(JOB), "pull-up"))
    assert plan["settings"]["strategy"] == "pull-up"
    assert plan["decided_by"] == {"strategy": "checkpoint", "chain": None}


def test_before_anything_has_come_nothing_is_measured(explain, tmp_path):
    claim(tmp_path / "new", parse_job(JOB), "state-slice")
    assert described(explain, "--checkpoint", tmp_path / "new")["joins"][0]["traffic"]["match_known"] == "assumed"


def test_a_job_whose_queries_were_edited_is_still_the_job_of_its_checkpoint(explain, checkpoint):
    path = checkpoint(parse_job(JOB))
    code, out, _ = explain("--checkpoint", path, "--json", text=JOB.replace("A.v > 5", "A.v > 6"))
    assert code == 0
    assert json.loads(out)["joins"][0]["traffic"]["match_known"] == "measured"


def test_the_checkpoint_of_another_job_is_refused(explain, checkpoint):
    path = checkpoint(parse_job(JOB))
    code, out, err = explain("--checkpoint", path, text=JOB.replace("path = 'x'", "path = 'y'"))
    assert (code, out) == (2, "")
    assert "is the checkpoint of another job" in err


def test_an_old_name_of_a_setting_is_noted_beside_the_plan(explain):
    code, out, err = explain(text="SET order = 'key';\n" + JOB)
    assert code == 0 and "output_order key" in out
    assert (
        err
        == "muntin: note: job.sql:1: the setting order is now called output_order; the old name is still understood\n"
    )
