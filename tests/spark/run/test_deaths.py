"""Each process of a run may die alone, also while the run starts: the others notice, say so, and are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark.run.test_signals import SOURCE, TAG, processes, wait_for

pytestmark = pytest.mark.spark

KILLING = """
import os, signal, sys

def kill():
    from pyspark import SparkContext
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

def killed_before(owner, name):
    whole = getattr(owner, name)
    def first(*given, **named):
        kill()
        return whole(*given, **named)
    setattr(owner, name, first)

moment = sys.argv.pop(1)
if moment == "before the session is ready":
    from muntin.spark.session import session
    killed_before(session, "prepare_session")
else:
    from muntin.spark.run import run
    killed_before(run, "finish_rescale")
from muntin.cli.main import main
sys.exit(main())
"""
"""`muntin` in a process whose Java is killed at a moment of its start."""


@pytest.fixture
def folder(lab, rows) -> Path:
    for seed, stream in enumerate("AB"):
        lab.add_files(stream, rows(seed, 40), 2)
    (lab.root / "job.sql").write_text(lab.sql())
    (lab.root / "killing.py").write_text(KILLING)
    return lab.root


@pytest.mark.parametrize("moment", ["before the session is ready", "before the job has begun"])
def test_java_that_is_killed_while_a_run_starts_is_told_and_nobody_is_left(folder: Path, moment: str):
    command = [sys.executable, "killing.py", moment, "run", "job.sql", "--output", "out", "--checkpoint", "ckpt"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), TAG: folder.name}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "muntin: Java, which Spark runs in, was killed by signal 9\n  hint: " in done.stderr
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr
    assert wait_for(lambda: not processes(folder.name), 30), processes(folder.name)


def test_java_that_is_killed_before_it_answers_is_told_and_nobody_is_left(folder: Path):
    command = [sys.executable, "-m", "muntin.cli.main", "run", "job.sql", "--output", "out", "--checkpoint", "ckpt"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), TAG: folder.name}
    run = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    java: list[int] = []

    def is_there() -> bool:
        found = processes(folder.name).items()
        java[:] = [pid for pid, line in found if "PythonGatewayServer" in line or "SparkSubmit" in line]
        return bool(java) or run.poll() is not None

    try:
        assert wait_for(is_there, 300)
        os.kill(java[0], signal.SIGKILL)
        _, err = run.communicate()
    finally:
        run.kill()
    assert run.returncode == 1 and "Traceback" not in err
    assert "muntin: Spark does not start: Java ended before it was ready\n  hint: " in err or "was killed by" in err
    assert wait_for(lambda: not processes(folder.name), 30), processes(folder.name)
