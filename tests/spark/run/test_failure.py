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
UNSTARTED = """Job aborted due to stage failure: Lost task 1.3 in stage 0.0: org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python3: No module named muntin
PYTHONPATH was:
  /opt/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from muntin.spark.daemon's stdout.
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:382)"""
UNREADABLE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file"


@pytest.mark.parametrize(
    ("thrown", "said"),
    [
        (PYTHON, "the state has format 9, this Muntin reads format 1"),
        (f"{UNREADABLE} file:///d/a%20b/1.parquet. SQLSTATE: KD001", "cannot read /d/a%20b/1.parquet:"),
        ("org.apache.spark.SparkException: [STREAM_FAILED] Query [id = 1] ended\n\tat x", "Query [id = 1] ended"),
        ("", "the job failed: RuntimeError"),
        (
            "java.lang.IllegalStateException: Incomplete log file in the offset commit log\n\tat x",
            "is damaged: Incomplete",
        ),
        (
            "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/state/0/1/2_a.changelog at 0 exp: 1",
            "/c/state/0/1/2_a.changelog is damaged: Checksum error",
        ),
        (PYTHON.replace("MuntinError: the state has format 9, this Muntin reads format 1", "MuntinError: "), "the job"),
        ('Traceback (most recent call last):\n  File "x", line 1\nAssertionError\n\n\tat x', "failed: AssertionError"),
        ("builtins.ValueError: \n\tat org.apache.x", "the job failed: ValueError"),
        (UNSTARTED, "Spark's Python process ended before it began: /usr/bin/python3: No module named muntin"),
        (
            'java.io.IOException: Cannot run program "/no/python": error=2, No such file or directory\n\tat x',
            "Spark cannot start its Python process: /no/python: No such file or directory",
        ),
    ],
)
def test_one_sentence_without_a_stack(thrown: str, said: str):
    error = explain_failure(RuntimeError(thrown))
    assert said in error.message
    assert "\n" not in error.message and "\tat" not in error.message


def test_files_that_are_torn_lead_to_the_doctor():
    error = explain_failure(RuntimeError("java.lang.RuntimeException: file:/c/x.parquet: Parquet file size is 0 bytes"))
    assert "/c/x.parquet is damaged" in error.message and error.hint is not None and "muntin doctor" in error.hint


def test_our_own_errors_stay_as_they_are():
    error = MuntinError("plain")
    assert explain_failure(error) is error


def test_a_python_process_that_cannot_start_is_told_with_where_it_looked():
    error = explain_failure(RuntimeError(UNSTARTED))
    assert error.hint is not None and "spark.pyspark.python" in error.hint and "/opt/pyspark.zip" in error.hint
