"""Our own durable files under a checkpoint and an output folder.

`identity` binds a checkpoint to a job and an output to a checkpoint. `lock` lets one process run on it. `plans` keeps
the plan of every epoch. `manifests` commits micro-batches. `requests` is the mailbox for changes of queries.
`durable` writes and reads dataclasses as files of JSON, each whole, with kind and checksum. Nothing here needs Spark.
`docs/state-format.md` shows every file.
"""

from muntin.spark.checkpoint import identity, requests
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
from muntin.spark.checkpoint.lock import Lock
from muntin.spark.checkpoint.manifests import (
    KEPT_MANIFESTS,
    BatchOutcome,
    Fingerprint,
    Manifest,
    Publisher,
    Staged,
    last_manifest,
    mark_file,
    published,
    read_manifests,
)
from muntin.spark.checkpoint.plans import Epoch, PlanLog
from muntin.spark.checkpoint.reports import ShardChange, ShardReport, TopKey
from muntin.spark.checkpoint.requests import Answer, answers, read_answer, waiting

__all__ = [
    "FOLDER",
    "KEPT_MANIFESTS",
    "STATE_FORMAT",
    "WHAT_TO_DO",
    "Answer",
    "BatchOutcome",
    "DamageError",
    "Epoch",
    "FileKind",
    "Fingerprint",
    "JobIdentity",
    "Lock",
    "Manifest",
    "MissingError",
    "PlanLog",
    "Publisher",
    "ShardChange",
    "ShardReport",
    "Staged",
    "TopKey",
    "answers",
    "as_record",
    "check_names",
    "from_line",
    "id_if_claimed",
    "identity",
    "last_manifest",
    "mark_file",
    "pipeline_folder",
    "pipeline_numbers",
    "published",
    "read_answer",
    "read_json",
    "read_manifests",
    "read_record",
    "requests",
    "stored_job",
    "to_line",
    "waiting",
    "write_json",
    "write_record",
]
