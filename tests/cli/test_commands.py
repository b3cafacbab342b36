"""The commands' own logic, with the Spark face replaced by a stub: what is asked of it, and what is shown."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from muntin.cli import jobfile, main, screen
from muntin.cli.status import ahead_of_clock, headlines
from muntin.model import JobSpec, Schema, Stream, UsageError
from muntin.model.records import from_json, to_json
from muntin.spark.checkpoint import Answer
from muntin.spark.ingest.sources import misplaced_file
from muntin.spark.run import JobStatus, StatusReport, client

WRITTEN = {
    "mode": "bounded",
    "state": "ended",
    "pid": 1,
    "started": 0.0,
    "updated": 0.0,
    "batch": 2,
    "batches": 3,
    "sources": {
        "Temperature": {"rows": 400, "total_rows": 1200},
        "Humidity": {"rows": 300, "total_rows": 800},
        "_control": {"rows": 1, "total_rows": 1},
    },
    "queries": {"warm": {"rows": 21, "total_rows": 4321}, "cold": {"rows": 0, "total_rows": 0}},
    "joins": [
        {
            "join": 1,
            "streams": ["Temperature", "Humidity"],
            "queries": ["warm", "cold"],
            "frontiers": ["2024-01-01T00:10:00+00:00", None],
            "axes": ["time", "time"],
            "bytes": 4096,
            "fullest_keys": [{"rows": 12, "share": 0.5, "key": {"LocationId": "7"}}, None],
            "held_rows": [7, 0],
            "held_pairs": 3,
            "idle": [False, True],
            "ordering": {
                "setting": "adaptive",
                "in_force": "filter-order",
                "out_of_order": 2,
                "decision": {
                    "ordering": "filter-order",
                    "rates": [1.0, 10.0],
                    "seconds_per_row": 0.055,
                    "load": 0.3,
                    "alpha": 0.3,
                    "gain": 0.23,
                },
            },
            "counters": {},
            "rebuilt": 0,
            "waits_for": {"stream": "Humidity", "since": 0, "held_rows": 7, "held_pairs": 3, "held_bytes": 900},
            "slices": [
                [{"lo": 0, "hi": 5_000_000, "rows": 11}, {"lo": 5_000_000, "hi": 60_000_000, "rows": 13}],
                [{"lo": 0, "hi": 60_000_000, "rows": 17}],
            ],
        }
    ],
    "dead_letters": {"late": 2, "null_time": 1},
}
"""As jobs wrote it before anything was predicted."""
STATUS = from_json(JobStatus, WRITTEN)
PREDICTING = from_json(
    JobStatus,
    {
        **WRITTEN,
        "mode": "endless",
        "state": "running",
        "strategy": "state-slice",
        "chain": "cpu-opt",
        "never": ["frozen", "boiling"],
        "joins": [
            {
                **WRITTEN["joins"][0],
                "predicted_bytes": 5000,
                "comparisons_per_second": {"measured": 1234.5, "predicted": 1300.2},
                "slices": [
                    [{"lo": 0, "hi": 5_000_000, "rows": 11, "predicted_rows": 12}],
                    [{"lo": n, "hi": n + 1, "rows": n, "predicted_rows": 10 * n} for n in range(100)],
                ],
                "axes": ["time", "rows"],
            }
        ],
    },
)


def report(status=STATUS, **changes):
    """What a run tells whoever follows it, with some fields changed."""
    return StatusReport(replace(status, **changes), Path("ckpt"))


@pytest.fixture
def spark(monkeypatch):
    """A runner that remembers how it was called and finishes at once."""
    calls = SimpleNamespace(
        started=None, stopped=0, opened=None, waits=lambda: None, shown=STATUS, differences=[], warnings=[]
    )

    class Run:
        differences = property(lambda self: calls.differences)
        warnings = property(lambda self: calls.warnings)

        def await_termination(self):
            calls.waits()

        def stop(self):
            calls.stopped += 1

        def status(self):
            return report(calls.shown)

    class Job:
        @classmethod
        def from_file(cls, session, path):
            calls.path = path
            return cls()

        def start(self, **options):
            calls.started = options
            options["progress"](report())
            return Run()

    def opened(master=None, **options):
        calls.opened = {"master": master, **options}
        return SimpleNamespace(stop=lambda: None)

    shown = {"status_now": lambda checkpoint: calls.shown, "client": client}
    runner = SimpleNamespace(Job=Job, check_job=lambda spec: None, **shown)
    begun = lambda *given: setattr(calls, "begun", given)  # noqa: E731
    session = SimpleNamespace(open_session=opened, stop_session=lambda spark: None, begin_java=begun)
    monkeypatch.setitem(sys.modules, "muntin.spark.run", runner)
    monkeypatch.setitem(sys.modules, "muntin.spark.session", session)
    monkeypatch.setattr(jobfile, "read_job", lambda path: JobSpec())
    return calls


def started_with(spark, *arguments):
    assert main.main(["run", "job.sql", *arguments]) == 0
    return spark.started


@pytest.mark.parametrize(
    ("flags", "mode"), [([], "endless"), (["--bounded"], "bounded"), (["--available-now"], "available-now")]
)
def test_run_says_how_far_to_go(spark, flags, mode):
    assert started_with(spark, "--output", "out", *flags)["mode"] == mode


def test_run_ends_with_a_summary_on_stdout_and_progress_on_stderr(spark, capsys):
    started_with(spark, "--output", "out", "--bounded")
    out, err = capsys.readouterr()
    assert "warm" in out and "4,321" in out
    assert "input rows" in out and "2,000" in out
    assert "dead letters" in out and "null_time" in out
    assert "micro-batch 3: 2,000 rows in" in err


def test_run_says_at_its_start_what_was_edited_since_the_last_run(spark, capsys):
    started_with(spark, "--output", "out")
    assert "changed" not in capsys.readouterr().err
    spark.differences = ["query warm: changed", "query mild: gone"]
    started_with(spark, "--output", "out")
    out, err = capsys.readouterr()
    assert err.count("changed since the last run:\n  query warm: changed\n  query mild: gone\n") == 1
    assert "mild" not in out


def test_run_says_what_is_missing_from_the_output_and_truncates_it_only_when_asked(spark, capsys):
    spark.warnings = [f"line {n}" for n in range(12)]
    assert started_with(spark, "--output", "out")["truncate_output"] is False
    err = capsys.readouterr().err
    assert "warning: line 0\n" in err and "line 10" not in err and "warning: and 2 more\n" in err
    assert started_with(spark, "--output", "out", "--truncate-output")["truncate_output"] is True


def test_an_interrupt_ends_an_endless_run_in_good_order(spark, capsys):
    def interrupt():
        raise KeyboardInterrupt

    spark.waits = interrupt
    assert main.main(["run", "job.sql", "--output", "out"]) == 0
    assert spark.stopped == 1
    assert "4,321" in capsys.readouterr().out
    assert main.main(["run", "job.sql", "--output", "out", "--bounded"]) == 130


def test_bounded_and_available_now_exclude_each_other(spark, capsys):
    with pytest.raises(SystemExit) as leaving:
        main.main(["run", "job.sql", "--output", "out", "--bounded", "--available-now"])
    assert leaving.value.code == 2


def test_settings_and_packages_go_to_spark(spark):
    started_with(spark, "--output", "out")
    assert spark.opened == {"master": None, "log_level": "off", "confs": {}}
    given = ["--conf", "spark.a=1=2", "--conf", "spark.b=", "--packages", "g:n:1,g:m:2", "--log-level", "warn"]
    started_with(spark, "--output", "out", "--master", "local[1]", *given)
    confs = {"spark.a": "1=2", "spark.b": "", "spark.jars.packages": "g:n:1,g:m:2"}
    assert spark.opened == {"master": "local[1]", "log_level": "warn", "confs": confs}
    assert spark.begun == ("local[1]", "warn", confs), "Java starts with the same"


@pytest.mark.parametrize(
    "wrong", [["--conf", "spark.a"], ["--conf", "memory=1"], ["--packages", "g:n"], ["--packages", "g:n:1,"]]
)
def test_what_is_no_setting_or_package_is_a_wrong_request(spark, capsys, wrong):
    assert main.main(["run", "job.sql", "--output", "out", *wrong]) == 2
    assert capsys.readouterr().err.startswith(f"muntin: {wrong[0]}: ")
    assert spark.opened is None


def test_a_quiet_run_says_only_what_is_wrong(spark, capsys):
    spark.differences, spark.warnings = ["query warm: changed"], ["a file is gone"]
    started_with(spark, "--output", "out", "--quiet")
    assert capsys.readouterr() == ("", "warning: a file is gone\n")


def test_run_says_what_becomes_of_changes(spark, capsys):
    started_with(spark, "--output", "out")
    capsys.readouterr()
    tell = spark.started["on_change"]
    tell(Answer("accepted", "hot", "added"))
    tell(Answer("in force", "hot", "dropped", freed_rows=1234))
    tell(Answer("refused", error="there is no query cold", hint="queries are warm"))
    assert capsys.readouterr().err.splitlines() == [
        "accepted, not yet in force: hot (added)",
        "dropped hot: no results, freed 1,234 rows of state",
        "refused: there is no query cold",
        "  hint: queries are warm",
    ]


def test_a_run_that_goes_on_shows_its_own_rate_and_rows(capsys, monkeypatch):
    clock = iter([0.0, 5.0, 7.0, 8.0, 9.0])
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    with screen.ProgressLine() as progress:
        progress.job_starts()
        progress(report(batches=1))  # 700 rows of 2,000, 2 seconds after the job began
        more = {name: replace(s, rows=50, total_rows=s.total_rows + 50) for name, s in STATUS.sources.items()}
        progress(report(batches=2, sources=more))
    assert progress.rows_before == 1300
    assert re.findall(r"\(([\d,]+) rows/s\)", capsys.readouterr().err) == ["350", "100"]


def test_many_late_rows_are_a_warning_once_and_files_out_of_order_are_named(capsys, tmp_path):
    for name, modified in (("a.parquet", 2), ("b.parquet", 1), ("_c", 0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (modified, modified))
    stream = Stream("A", Schema(()), "ts", format="parquet", options={"path": str(tmp_path)})
    late = replace(STATUS, dead_letters={"late": 200})
    for streams, said in (((stream,), f"{tmp_path}/b.parquet is older than a.parquet"), ((), "raise LATENESS in")):
        with screen.ProgressLine(True, streams) as progress:
            progress(report(batches=1))
            progress(report(late, batches=2))
            progress(report(late, batches=3))
        err = capsys.readouterr().err
        assert err.startswith("warning: 200 of 2,000 rows came too late") and said in err and err.count("\n") == 1
    os.utime(tmp_path / "a.parquet", (1, 1))
    assert misplaced_file(stream) == f"{tmp_path}/b.parquet is as old as a.parquet"
    os.utime(tmp_path / "a.parquet", (0, 0))
    assert misplaced_file(stream) is None


def test_status_as_json_is_what_the_runner_says(spark, capsys):
    assert main.main(["status", "--checkpoint", "ckpt", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == to_json(STATUS)


def test_status_shows_queries_slices_frontiers_and_dead_letters(spark, capsys):
    assert main.main(["status", "--checkpoint", "ckpt"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "warm 4,321 21" in lines
    assert "Temperature 2024-01-01T00:10:00+00:00 7 [0 s, 5 s) 11" in lines
    assert "[5 s, 1 min) 13" in lines
    assert "Humidity no rows yet 0 [0 s, 1 min) 17" in lines
    text = " ".join(lines)
    assert "ordering filter-order: load 0.3 of 1.0 and 10.0 rows/s at 55,000.0 us a row, alpha 0.3" in text
    assert "7 rows and 3 results are held, 900 bytes, for Humidity, which has not moved for" in text
    assert "idle, so that nobody waits for it: Humidity" in text
    assert "OUT OF ORDER: 2 results left before their time" in text
    assert "late 2" in lines


def test_status_of_a_job_that_predicted_nothing_has_no_column_for_it(spark, capsys):
    assert main.main(["status", "--checkpoint", "ckpt"]) == 0
    out = capsys.readouterr().out
    assert "predicted" not in out and "planned away" not in out
    assert "4,096 bytes of state\n" in out


def test_status_shows_what_was_predicted_beside_what_is(spark, capsys):
    spark.shown = PREDICTING
    assert main.main(["status", "--checkpoint", "ckpt"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "strategy state-slice, chain cpu-opt" in lines
    assert "planned away, since no row can satisfy the selection: frozen, boiling" in lines
    assert "Temperature 2024-01-01T00:10:00+00:00 7 [0 s, 5 s) 11 12" in lines
    assert "[18 rows, 19 rows) 18 180" in lines
    assert "[19 rows, 100 rows) in 81 slices 4,779 47,790" in lines
    assert "4,096 bytes of state, 5,000 predicted" in lines
    assert "1,234 comparisons per second of stream in the last micro-batch, 1,300 predicted" in lines


def test_of_a_job_that_has_ended_nothing_is_predicted_any_more(spark, capsys):
    spark.shown = replace(PREDICTING, state="ended")
    assert main.main(["status", "--checkpoint", "ckpt"]) == 0
    out = capsys.readouterr().out
    assert "predicted" not in out
    assert "4,096 bytes of state\n" in out


def test_status_of_very_many_joins_counts_most_of_them(spark, capsys):
    spark.shown = replace(PREDICTING, chain="none", joins=500 * PREDICTING.joins)
    assert main.main(["status", "--checkpoint", "ckpt"]) == 0
    out = capsys.readouterr().out
    assert "strategy state-slice\n" in out
    assert "and 492 more joins, which --json lists" in out
    assert len(out.splitlines()) < 300


def test_run_names_the_queries_that_were_planned_away(spark, capsys):
    spark.shown = PREDICTING
    started_with(spark, "--output", "out", "--bounded")
    assert "planned away, since no row can satisfy the selection: frozen, boiling\n" in capsys.readouterr().out


def test_generate_says_what_it_wrote_and_what_to_do_next(tmp_path, capsys):
    folder = tmp_path / "data"
    assert main.main(["generate", "sensors", str(folder), "--rate", "5", "--duration", "20", "--files", "2"]) == 0
    out = capsys.readouterr().out
    assert "Temperature" in out
    assert f"next: muntin run {folder / 'job.sql'}" in out
    assert len(list((folder / "humidity").glob("*.parquet"))) == 2


def test_a_missing_job_file_is_a_wrong_request(tmp_path, capsys):
    assert main.main(["explain", str(tmp_path / "none.sql")]) == 2
    assert "there is no job file" in capsys.readouterr().err


def test_a_job_file_that_is_no_text_is_a_wrong_request(tmp_path):
    (tmp_path / "job.sql").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "job.sql"):
        with pytest.raises(UsageError, match="cannot read the job file"):
            jobfile.read_text(path)


def test_progress_speaks_once_per_micro_batch(capsys):
    with screen.ProgressLine() as progress:
        progress(report())
        progress(report())
        progress(report(batches=4))
    assert capsys.readouterr().err.count("micro-batch") == 2


def test_values_in_a_table_are_never_markup(capsys):
    screen.console().print(screen.table(["x"], [["[bold]not markup[/bold]"]]))
    assert "[bold]not markup[/bold]" in capsys.readouterr().out


def test_a_stream_that_is_ahead_of_the_clock_is_a_warning_once(capsys):
    """One row of the year 2199 makes all others late: it is said when it comes, and for as long as it holds."""
    (join,) = STATUS.joins
    later = replace(STATUS, joins=[replace(join, frontiers=["2199-01-01T00:00:00+00:00", join.frontiers[1]])])
    with screen.ProgressLine(True, ()) as progress:
        progress(report(batches=1))
        assert capsys.readouterr().err == ""
        progress(report(later, batches=2))
        progress(report(later, batches=3))
    err = capsys.readouterr().err
    assert err.startswith(f"warning: {join.streams[0]} has come to 2199-01-01T00:00:00+00:00") and err.count("\n") == 1
    assert "SET max_ahead" in err
    assert any("max_ahead" in line for line in headlines(later))
    assert not any("max_ahead" in line for line in headlines(STATUS))
    for year, ahead in (("+12024-01-01T00:00:00+00:00", True), ("-0044-03-15T00:00:00+00:00", False)):
        assert bool(ahead_of_clock(replace(STATUS, joins=[replace(join, frontiers=[year, None])]))) is ahead
    ended = replace(STATUS, joins=[replace(join, frontiers=["ended", "ended"])])
    assert ahead_of_clock(ended) == {}, "that is no time"
