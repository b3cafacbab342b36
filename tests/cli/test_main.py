"""The door of the command line: exit codes, where messages go, and what must not be imported for `--help`."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys

import pytest

from muntin.cli import generate, main, screen
from muntin.model import MuntinError, Place, SqlError


def failing(monkeypatch, error):
    def execute(args):
        raise error

    monkeypatch.setattr(generate, "execute", execute)


def call(capsys, *arguments):
    """Exit code, stdout and stderr, whether argparse exits or the command returns."""
    try:
        code = main.main(list(arguments))
    except SystemExit as leaving:
        code = leaving.code
    return (code, *capsys.readouterr())


@pytest.mark.parametrize("command", main.COMMANDS)
def test_every_command_explains_itself_with_an_example(capsys, command):
    code, out, _ = call(capsys, command, "--help")
    assert code == 0
    assert f"muntin {command}" in out.split("example", 1)[1]


def test_help_lists_what_works_and_nothing_else(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0
    listed = re.findall(r"^    (\w+)", out, re.MULTILINE)
    assert listed == list(main.COMMANDS)


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["run"], ["run", "j.sql", "--output", "o", "--sideways"]])
def test_a_wrong_request_is_code_two_on_stderr(capsys, arguments):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "usage: muntin" in err


def test_a_failure_is_one_message_and_code_one(capsys, monkeypatch):
    failing(monkeypatch, MuntinError("the disk is full", hint="make room"))
    assert call(capsys, "generate", "sensors", "d") == (1, "", "muntin: the disk is full\n  hint: make room\n")


def test_an_error_in_the_sql_shows_its_place_and_is_code_two(capsys, monkeypatch):
    failing(monkeypatch, SqlError("no such stream", text="FROM Nowhere", place=Place(1, 6, 7), source="job.sql"))
    code, _, err = call(capsys, "generate", "sensors", "d")
    assert code == 2
    assert "job.sql:1:6: no such stream" in err
    assert "^^^^^^^" in err


@pytest.mark.parametrize("error", [MuntinError("no"), OSError(28, "No space left on device"), ZeroDivisionError("bug")])
def test_only_verbose_shows_a_traceback(capsys, monkeypatch, error):
    failing(monkeypatch, error)
    code, _, err = call(capsys, "generate", "sensors", "d")
    assert code == 1
    assert "Traceback" not in err
    _, _, err = call(capsys, "generate", "sensors", "d", "--verbose")
    assert "Traceback" in err


def test_an_interrupt_is_quiet(capsys, monkeypatch):
    failing(monkeypatch, KeyboardInterrupt())
    assert call(capsys, "generate", "sensors", "d") == (130, "", "")


@pytest.mark.parametrize("stderr", [False, True])
def test_where_nobody_reads_any_more_an_answer_ends_and_progress_goes_on_in_silence(monkeypatch, stderr: bool):
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as gone:
        monkeypatch.setattr(sys, "stderr" if stderr else "stdout", gone)
        out = screen.console(stderr)
        with contextlib.nullcontext() if stderr else pytest.raises(BrokenPipeError):
            out.print("what nobody reads")
        out.print("nor this")
        gone.close = lambda: None  # what is left in its buffer is nobody's
    os.close(writes)


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_failure():
    script = "import sys; from muntin.cli.main import main; sys.exit(main(['run', '--help']))"
    done = subprocess.run(
        f'{sys.executable} -c "{script}" | true; echo ${{PIPESTATUS[0]}}',
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr


def test_help_and_import_do_not_load_the_heavy_libraries():
    script = (
        "import sys, muntin\n"
        "from muntin.cli.main import parser\n"
        "parser().format_help()\n"
        "print(sorted({'pyspark', 'numba', 'duckdb', 'pyarrow', 'numpy', 'sqlglot', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_help_of_run_has_all_settings_by_groups(capsys):
    with pytest.raises(SystemExit):
        main.main(["run", "--help"])
    out = capsys.readouterr().out
    everyday, research = out.index("settings that jobs need"), out.index("settings of research")
    assert everyday < out.index("  output_order ") < research < out.index("  invalidation ")
