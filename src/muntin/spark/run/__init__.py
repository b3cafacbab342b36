"""Jobs and their runs on Spark.

`job` declares streams and queries and starts a `run`. A run has one `pipeline` (a Spark streaming query, built by
`dataflow`) or several. `doors` checks what Python hands over. `claim`, `verify`
and `ended` check the checkpoint and the output before anything runs. `status` has the dataclasses that a run writes
after every micro-batch, `status_board` fills them, `status_report` shows them in Python, and `stored` checks a change
against them while nothing runs.
`picture` describes the plan in force, and what a change would make of it; `history` and `history_keeper` remember how
the job went, `sharing` predicts what its queries would take apart. `client` is how other processes ask for changes.
`failure` explains what Spark throws. `rescaling` gives a stopped job other shards, with what `spark_checkpoint` knows
of Spark's own files.
"""

from muntin.spark.run import client, verify
from muntin.spark.run.history import History, Mark, Sample, history_file, marks_between, read_history
from muntin.spark.run.job import Job, check_job
from muntin.spark.run.picture import ChangePreview, StoredPicture
from muntin.spark.run.rescaling import Rescaled, rescale, successor_of
from muntin.spark.run.run import Run
from muntin.spark.run.sharing import Sharing, predicted_apart
from muntin.spark.run.spark_half import SparkHalf, damage_of
from muntin.spark.run.status import (
    JobStatus,
    JoinStatus,
    KeyShare,
    QueryStatus,
    SliceStatus,
    is_alive,
    is_driven,
    read_status,
    status_file,
    status_now,
)
from muntin.spark.run.status_report import StatusReport
from muntin.spark.run.stored import check_change, spec_of

__all__ = [
    "ChangePreview",
    "History",
    "Job",
    "JobStatus",
    "JoinStatus",
    "KeyShare",
    "Mark",
    "QueryStatus",
    "Rescaled",
    "Run",
    "Sample",
    "Sharing",
    "SliceStatus",
    "SparkHalf",
    "StatusReport",
    "StoredPicture",
    "check_change",
    "check_job",
    "client",
    "damage_of",
    "history_file",
    "is_alive",
    "is_driven",
    "marks_between",
    "predicted_apart",
    "read_history",
    "read_status",
    "rescale",
    "spec_of",
    "status_file",
    "status_now",
    "successor_of",
    "verify",
]
