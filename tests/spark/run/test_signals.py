"""A run that is told to stop, by whatever way service managers and terminals have, ends in good order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SOURCE = Path(__file__).parents[3] / "src"
TAG = "MUNTIN_TEST_RUN"


def processes(tag: str) -> dict[int, str]:
    """The processes that descend from a run, wherever they have gone: they inherit its environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{TAG}={tag}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return {pid: line for pid, line in found.items() if line}


def wait_for(condition: Callable[[], object], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


class Started:
    """`muntin run` in a group of its own, without an end, over files that are all there."""

    def __init__(self, folder: Path, *before: str):
        self.tag, self.status = folder.name, folder / "ckpt" / "muntin" / "status.json"
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), TAG: self.tag}
        command = [*before, sys.executable, "-m", "muntin.cli.main", "run", "job.sql", "--output", "out"]
        self.process = subprocess.Popen(
            [*command, "--checkpoint", "ckpt"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def java(self) -> list[int]:
        return [
            pid for pid, line in processes(self.tag).items() if "PythonGatewayServer" in line or "SparkSubmit" in line
        ]

    def has_committed(self) -> bool:
        return any(self.status.parent.glob("commits/*.json")) or self.process.poll() is not None

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=300)
        assert wait_for(lambda: not processes(self.tag), 30), processes(self.tag)
        return self.process.returncode, out, err


@pytest.fixture
def folder(lab, rows) -> Path:
    lab.per_trigger = 1
    for seed, stream in enumerate("AB"):
        lab.add_files(stream, rows(seed, 400), 20)
    (lab.root / "job.sql").write_text(lab.sql())
    return lab.root


def is_in_good_order(result: tuple[int, str, str], by: str, wanted: int = 0) -> None:
    code, _, err = result
    said = [line for line in err.splitlines() if "micro-batch " not in line and not line.startswith("starting ")]
    assert code == wanted, err
    assert len(said) == 1 and said[0].startswith(f"stopped by {by}"), err


@pytest.mark.parametrize("kill", [os.killpg, os.kill], ids=["group", "process"])
def test_a_signal_in_the_middle_of_a_micro_batch_stops_the_run_in_good_order(folder, kill):
    run = Started(folder)
    assert wait_for(run.has_committed, 300)
    kill(run.process.pid, signal.SIGTERM)
    is_in_good_order(run.ended(), "SIGTERM")


def test_what_timeout_sends_while_spark_starts_stops_the_run_before_it_began(folder):
    run = Started(folder, "timeout", "--preserve-status", "-s", "INT", "300")
    assert run.process.stderr is not None
    assert run.process.stderr.readline() == "starting Spark\n"
    run.process.send_signal(signal.SIGINT)  # `timeout` passes it on to its group
    is_in_good_order(run.ended(), "SIGINT")


def test_every_process_of_a_run_ends_when_its_java_or_its_python_is_killed(folder):
    run = Started(folder)
    assert wait_for(run.has_committed, 300)
    (java,) = run.java()
    os.kill(java, signal.SIGKILL)
    code, _, err = run.ended()
    assert code == 1 and "Traceback" not in err
    assert "muntin: Java, which Spark runs in, was killed by signal 9\n  hint: " in err
    run = Started(folder)
    assert wait_for(lambda: any("daemon" in line for line in processes(run.tag).values()), 300)
    run.process.kill()
    assert run.ended()[0] == -signal.SIGKILL
