"""The Java process of Spark: where signals reach it, and how its end is noticed.

A terminal, `timeout` and service managers send a signal to a whole group of processes. Java must not end before the
run has: so it is started in a session of its own, and ignores such signals wherever they come from (`java.py`). It ends
when the pipe that this process holds is closed, so also when this process is killed.
"""

from __future__ import annotations

from collections.abc import Mapping

from muntin.model import MuntinError


def start_java(settings: Mapping[str, str]) -> None:
    """Start Java with these settings of Spark's, unless this process has one."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        conf = SparkConf().setAll(list(settings.items()))
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, {"start_new_session": True}))


def java_failure() -> MuntinError | None:
    """Why nothing works any more, where Java has ended; None where it runs, or is not ours to know."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    code = None if process is None else process.poll()
    if code is None:
        return None
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return MuntinError(
        f"Java, which Spark runs in, {how}",
        hint="look for who ended it, such as the kernel for want of memory; a run with the same checkpoint goes on",
    )
