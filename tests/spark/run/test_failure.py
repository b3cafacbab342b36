"""What Spark throws becomes one sentence."""

from __future__ import annotations

import pytest

from muntin.model import MuntinError
from muntin.spark.run.failure import explain_failure

PYTHON = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/x/muntin/spark/shard.py", line 92, in meta
    raise MuntinError("the state has format 9, this Muntin reads format 1")
muntin.model.errors.MuntinError: the state has format 9, this Muntin reads format 1

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""
UNREADABLE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file"


@pytest.mark.parametrize(
    ("thrown", "said"),
    [
        (PYTHON, "the state has format 9, this Muntin reads format 1"),
        (f"{UNREADABLE} file:///d/a%20b/1.parquet. SQLSTATE: KD001", "cannot read /d/a%20b/1.parquet:"),
        ("org.apache.spark.SparkException: [STREAM_FAILED] Query [id = 1] ended\n\tat x", "Query [id = 1] ended"),
        ("", "Spark gave no reason"),
    ],
)
def test_one_sentence_without_a_stack(thrown: str, said: str):
    error = explain_failure(RuntimeError(thrown))
    assert said in error.message
    assert "\n" not in error.message and "\tat" not in error.message


def test_our_own_errors_stay_as_they_are():
    error = MuntinError("plain")
    assert explain_failure(error) is error
