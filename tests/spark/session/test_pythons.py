"""Which Python runs on executors, and what is one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muntin.model import UsageError
from muntin.spark.session import is_one_process
from muntin.spark.session.pythons import executors_python


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.mark.parametrize(
    ("master", "alone"),
    [("local", True), ("local[2]", True), ("local[*,4]", True), ("local-cluster[2,1,600]", False), ("yarn", False)],
)
def test_executors_of_a_local_cluster_are_processes_of_their_own(master, alone):
    assert is_one_process(master) == alone


def test_it_is_what_the_settings_say_then_the_environment_then_our_own(tmp_path, monkeypatch):
    assert executors_python({}, tmp_path) == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/sh")
    assert executors_python({}, tmp_path) == "/bin/sh"
    assert executors_python({"spark.pyspark.python": sys.executable}, tmp_path) == sys.executable


def test_a_name_means_our_own_python_on_the_driver(tmp_path: Path):
    assert executors_python({"spark.pyspark.python": "python9.9"}, tmp_path) == "python9.9"
    said = subprocess.run(["python9.9", "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True)
    assert said.stdout.strip() == sys.prefix


def test_a_path_that_only_executors_have_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="which is not a program on the driver") as refused:
        executors_python({"spark.pyspark.python": "./muntin/bin/python"}, tmp_path)
    assert "PATH" in str(refused.value.hint)
