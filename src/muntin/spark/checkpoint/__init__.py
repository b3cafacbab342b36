"""Our own durable files under a checkpoint and an output folder.

`opening` finds both halves of a checkpoint. `identity` binds it to a job, and an output to it. `lock`
and `lease` let one process run on it. `plans` keeps the plan of every epoch. `manifests`, `commit_log` and `publisher`
commit micro-batches. `requests` is the mailbox for changes of queries.
`durable` writes and reads dataclasses as files of JSON, each whole, with kind and checksum. Nothing here needs Spark.
`docs/state-format.md` shows every file.
"""

from muntin.spark.checkpoint import identity, requests
from muntin.spark.checkpoint.commit_log import CommitLog, FencedError, last_manifest, read_manifests, write_manifest
from muntin.spark.checkpoint.compatibility import changed_rules, differences
from muntin.spark.checkpoint.durable import (
    WHAT_TO_DO,
    DamageError,
    FileKind,
    MissingError,
    as_record,
    from_line,
    read_json,
    read_record,
    to_line,
    write_json,
    write_record,
)
from muntin.spark.checkpoint.identity import (
    FOLDER,
    STATE_FORMAT,
    JobIdentity,
    check_names,
    id_if_claimed,
    pipeline_folder,
    pipeline_numbers,
    stored_job,
)
from muntin.spark.checkpoint.lease import Lease, has_driver
from muntin.spark.checkpoint.lock import Lock, is_taken, take_checkpoint
from muntin.spark.checkpoint.manifests import BatchOutcome, Fingerprint, Manifest, Staged, TableFile
from muntin.spark.checkpoint.object_publisher import ObjectPublisher
from muntin.spark.checkpoint.opening import is_for_spark_to_find, open_checkpoint, remember_spark_half, with_spark_half
from muntin.spark.checkpoint.output_log import OutputLog, committed_files, spans
from muntin.spark.checkpoint.plans import Epoch, PlanLog, StoredJoin, copy_plans
from muntin.spark.checkpoint.power import PowerSync
from muntin.spark.checkpoint.publisher import KEPT_MANIFESTS, Publisher, mark_file, published
from muntin.spark.checkpoint.reports import ShardChange, ShardReport, TopKey
from muntin.spark.checkpoint.requests import Answer, answers, read_answer, waiting
from muntin.spark.checkpoint.take_over import TAKE_OVER, TakeOver, read_take_over, write_take_over

__all__ = [
    "FOLDER",
    "KEPT_MANIFESTS",
    "STATE_FORMAT",
    "TAKE_OVER",
    "WHAT_TO_DO",
    "Answer",
    "BatchOutcome",
    "CommitLog",
    "DamageError",
    "Epoch",
    "FencedError",
    "FileKind",
    "Fingerprint",
    "JobIdentity",
    "Lease",
    "Lock",
    "Manifest",
    "MissingError",
    "ObjectPublisher",
    "OutputLog",
    "PlanLog",
    "PowerSync",
    "Publisher",
    "ShardChange",
    "ShardReport",
    "Staged",
    "StoredJoin",
    "TableFile",
    "TakeOver",
    "TopKey",
    "answers",
    "as_record",
    "changed_rules",
    "check_names",
    "committed_files",
    "copy_plans",
    "differences",
    "from_line",
    "has_driver",
    "id_if_claimed",
    "identity",
    "is_for_spark_to_find",
    "is_taken",
    "last_manifest",
    "mark_file",
    "open_checkpoint",
    "pipeline_folder",
    "pipeline_numbers",
    "published",
    "read_answer",
    "read_json",
    "read_manifests",
    "read_record",
    "read_take_over",
    "remember_spark_half",
    "requests",
    "spans",
    "stored_job",
    "take_checkpoint",
    "to_line",
    "waiting",
    "with_spark_half",
    "write_json",
    "write_manifest",
    "write_record",
    "write_take_over",
]
