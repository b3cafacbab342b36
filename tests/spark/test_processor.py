"""What Spark calls for each shard."""

from __future__ import annotations

import pickle
import subprocess
import sys

from muntin.plan import share
from muntin.spark.exchange import Topology
from muntin.spark.processor import JoinProcessor
from muntin.sql import parse_job

JOB = """
CREATE STREAM A (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');
CREATE STREAM B (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');
CREATE QUERY q AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW 5 s;
"""
HEAVY = ("numba", "duckdb", "pandas", "pyarrow", "muntin.core", "muntin.plan", "muntin.spark.exchange")


def test_a_run_does_not_wait_for_libraries_when_spark_asks_for_the_schema_of_the_state():
    """Spark unpacks the processor in a process of its own then, which nobody has warmed."""
    packed = pickle.dumps(JoinProcessor(Topology(share(parse_job(JOB)), 2, True, "id").packed))
    look = f"import pickle, sys; pickle.loads(sys.stdin.buffer.read()); print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], input=packed, capture_output=True)
    assert done.stdout.decode().strip() == "[]", done.stderr.decode()
