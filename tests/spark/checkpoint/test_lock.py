"""One process at a time runs on a checkpoint."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from muntin.model import MuntinError
from muntin.spark.checkpoint import Lock, processes


@pytest.mark.slow
def test_a_lock_goes_with_its_process(tmp_path: Path):
    code = (
        "from muntin.spark.checkpoint import Lock; from pathlib import Path; import os; "
        f"Lock(Path({str(tmp_path)!r})); "
    )
    subprocess.run([sys.executable, "-c", code + "os._exit(9)"], check=False)
    lock = Lock(tmp_path)
    held = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is running on" in held.stderr and held.returncode
    lock.release()
    Lock(tmp_path).release()


def killed_run(checkpoint: Path, java: int) -> None:
    """A run whose Python was killed, and whose Java is the given process."""
    code = (
        "from muntin.spark.checkpoint import Lock; from pathlib import Path; import os; "
        f"Lock(Path({str(checkpoint)!r}), {java}); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)


@pytest.fixture
def orphan():
    process = subprocess.Popen(["sleep", "300"])
    yield process
    process.kill()
    process.wait()


def test_the_java_of_a_run_that_was_killed_is_waited_for(tmp_path: Path, orphan):
    killed_run(tmp_path, orphan.pid)
    threading.Timer(1, orphan.kill).start()
    began = time.monotonic()
    Lock(tmp_path, 1).release()
    assert time.monotonic() - began > 0.9
    Lock(tmp_path, 1).release()


def test_a_java_that_does_not_end_is_named_and_the_lock_is_free_again(tmp_path: Path, orphan, monkeypatch):
    monkeypatch.setattr(processes, "ORPHAN_S", 0.2)
    killed_run(tmp_path, orphan.pid)
    for _ in range(2):
        with pytest.raises(MuntinError, match=f"Java process {orphan.pid} of a run that was killed still runs"):
            Lock(tmp_path, 1)
    Lock(tmp_path, orphan.pid).release()
    Lock(tmp_path, 1).release()


@pytest.mark.parametrize("text", ["", "1", "a b c", "1 2 3", f"1 {'9' * 30} 7", "1 ../1 7"])
def test_what_cannot_be_a_process_is_not_waited_for(tmp_path: Path, text: str):
    (tmp_path / "muntin").mkdir()
    (tmp_path / "muntin/lock").write_text(text)
    Lock(tmp_path, 1).release()
