"""Jobs and their runs on Spark.

`job` declares streams and queries and starts a `run`. A run has one `pipeline` (a Spark streaming query, built by
`dataflow`) or several. `claim` and `verify` check the checkpoint and the output before anything runs. `status` has the
dataclasses that a run writes after every micro-batch, `status_board` fills them. `failure` explains what Spark throws,
and `signals` notes Ctrl-C.
"""

from muntin.spark.run.job import Job, check_job
from muntin.spark.run.run import Run
from muntin.spark.run.status import read_status, status_file

__all__ = ["Job", "Run", "check_job", "read_status", "status_file"]
