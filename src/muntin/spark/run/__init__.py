"""Jobs and runs: start, watch, report, stop."""

from muntin.spark.run import status
from muntin.spark.run.runner import Job, Run, check_job, read_status
from muntin.spark.run.signals import StopSignals

__all__ = ["Job", "Run", "StopSignals", "check_job", "read_status", "status"]
