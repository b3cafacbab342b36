"""The Java process of Spark: where signals reach it, and how its end is noticed.

A terminal, `timeout` and service managers send a signal to a whole group of processes. Java must not end before the
run has: so it is started in a session of its own, and ignores such signals wherever they come from (`java.py`). It ends
when the pipe that this process holds is closed, so also when this process is killed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING

from muntin.model import MuntinError
from muntin.spark.session.class_archive import with_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER_ERROR_S = 3.0
"""How long after a broken connection Java may take to be gone."""


def start_java(settings: Mapping[str, str]) -> None:
    """Start Java with these settings of Spark's, unless this process has one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf().setAll(list(with_archive(settings).items()))
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"start_new_session": True}))


def java_failure(within_s: float = 0.0) -> MuntinError | None:
    """Why nothing works any more, where Java has ended; None where it runs, or is not ours to know.

    Its connections break a moment before it has ended: after an error, wait `within_s` seconds for that.
    """
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    try:
        code = process.wait(within_s)
    except subprocess.TimeoutExpired:
        return None
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return MuntinError(
        f"Java, which Spark runs in, {how}",
        hint="look for who ended it, such as the kernel for want of memory; a run with the same checkpoint goes on",
    )


def java_process(spark: SparkSession) -> int:
    """The number of the Java process that the driver of a session runs in; it is on the machine of this process."""
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def quieten_end(spark: SparkSession) -> None:
    """Let PySpark's listener for accumulators say nothing when Java is gone: `java_failure` says it."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    complain = getattr(server, "handle_error", None)
    if server is not None and complain is not None:
        server.handle_error = lambda *request: None if java_failure(AFTER_ERROR_S) else complain(*request)


def stop_session(spark: SparkSession) -> None:
    """Stop Spark; where Java has gone there is nothing left to stop."""
    try:
        spark.stop()
    except Exception:
        if java_failure(AFTER_ERROR_S) is None:
            raise
