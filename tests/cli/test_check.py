"""`muntin check`: what can be said of job files without Spark; and `muntin completion`, made from the parser."""

from __future__ import annotations

import subprocess

import pytest

from muntin.cli import completion
from muntin.cli.main import COMMANDS, main, parser

STREAMS = """\
CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
"""
QUERY = "CREATE QUERY {} AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW {};\n"
TWO = STREAMS + QUERY.format("short", "1 s") + QUERY.format("long", "9 s")


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Exit code, stdout and stderr of `muntin check` on texts, with a Spark that must not be started."""

    def started(*_, **__):
        raise AssertionError("Spark was started")

    monkeypatch.setattr("muntin.spark.session.open_session", started)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def call(*texts):
        files = [f"job{n}.sql" for n in range(len(texts))]
        for name, text in zip(files, texts, strict=True):
            (tmp_path / name).write_text(text)
        return (main(["check", *files]), *capsys.readouterr())

    return call


def test_a_good_job_is_described_in_a_few_lines(check):
    code, out, err = check(TWO)
    assert (code, err) == (0, "")
    first, join, shared = out.splitlines()
    assert first == "job0.sql: 2 queries over A, B"
    assert join == "  join 1: A and B for short, long; states in 2 and 2 slices"
    assert shared.startswith("  state-slice: about ") and "; one join for each query: " in shared


def test_all_files_are_checked_and_one_fault_is_enough_for_code_two(check):
    code, out, err = check(TWO.replace("A.k = B.k", "A.k = B.x"), TWO, STREAMS)
    assert code == 2
    assert out.startswith("job1.sql: 2 queries")
    assert "muntin: job0.sql:3:" in err and "^" in err
    assert "muntin: job2.sql: the job has no queries\n  hint: " in err


def test_what_may_not_be_meant_is_a_warning(check, tmp_path):
    (tmp_path / "b").rmdir()
    count = "CREATE QUERY n AS SELECT COUNT(*) AS n FROM A [RANGE 1 hour] A, B [NOW] B WHERE A.k = B.k EVERY 10 s;\n"
    code, _, err = check("SET order = 'global';\n" + TWO + count)
    assert code == 0
    assert "muntin: note: job0.sql:1: the setting order is now called output_order" in err
    assert "warning: job0.sql: query n: EVERY 10 s looks at" in err
    assert "warning: job0.sql: stream B: there is no b so far" in err
    code, _, err = check(TWO.replace("format = 'parquet', path = 'a'", "format = 'parquet'"))
    assert (code, err.splitlines()[-2]) == (2, "muntin: job0.sql: stream A: format parquet needs a path")


def completed(capsys, *typed):
    """What bash offers for the last word."""
    assert main(["completion", "bash"]) == 0
    words = " ".join(f"'{word}'" for word in ("muntin", *typed))
    script = (
        f"{capsys.readouterr().out}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _muntin; echo ${{COMPREPLY[@]}}"
    )
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def test_bash_completes_commands_actions_and_options(capsys):
    assert set(completed(capsys, "")) >= set(COMMANDS)
    assert completed(capsys, "expl") == ["explain"]
    assert completed(capsys, "query", "") == ["add", "drop", "list", "--help", "--verbose"]
    assert completed(capsys, "query", "add", "--time") == ["--timeout"]
    assert completed(capsys, "run", "job.sql", "--o") == ["--output"]
    assert completed(capsys, "completion", "z") == ["zsh"]


def test_zsh_and_fish_offer_the_same_words(capsys):
    tree = completion.words_of(parser())
    assert main(["completion", "zsh"]) == main(["completion", "bash"]) == 0
    out = capsys.readouterr().out
    assert out.count("complete -o default -F _muntin muntin") == 2 and out.startswith("autoload -U +X bashcompinit")
    assert main(["completion", "fish"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + sum(map(len, tree.values()))
    assert (
        "complete -c muntin -n '__fish_seen_subcommand_from query; and __fish_seen_subcommand_from add' -l now" in lines
    )
