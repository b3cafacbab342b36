"""Jobs and their runs on Spark.

`job` declares streams and queries and starts a `run`. A run has one `pipeline` (a Spark streaming query, built by
`dataflow`) or several. `doors` checks what Python hands over, `advice` says what a job may not mean. `claim`, `verify`
and `ended` check the checkpoint and the output before anything runs. `status` has the dataclasses that a run writes
after every micro-batch, `status_board` fills them, and `stored` checks a change against them while nothing runs.
`client` is how other processes ask for changes. `failure` explains what Spark throws.
"""

from muntin.spark.run import client
from muntin.spark.run.advice import advice
from muntin.spark.run.job import Job, check_job
from muntin.spark.run.run import Run
from muntin.spark.run.status import read_status, status_file
from muntin.spark.run.stored import check_change

__all__ = ["Job", "Run", "advice", "check_change", "check_job", "client", "read_status", "status_file"]
