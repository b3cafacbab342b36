"""Our own durable files under a checkpoint: identity, plans, manifests, requests."""

from muntin.spark.checkpoint import identity, requests
from muntin.spark.checkpoint.durable import (
    WHAT_TO_DO,
    DamageError,
    FileKind,
    MissingError,
    from_line,
    read_json,
    to_line,
    write_json,
)
from muntin.spark.checkpoint.identity import (
    FOLDER,
    canonical,
    check_names,
    id_if_claimed,
    is_over,
    pipeline_folder,
    pipeline_numbers,
    stored_job,
)
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
from muntin.spark.checkpoint.plans import Epoch, PlanLog, plan_log
from muntin.spark.checkpoint.reports import ShardChange, ShardReport, TopKey
from muntin.spark.checkpoint.requests import Answer, answers, read_answer, waiting

__all__ = [
    "FOLDER",
    "KEPT_MANIFESTS",
    "WHAT_TO_DO",
    "Answer",
    "BatchOutcome",
    "DamageError",
    "Epoch",
    "FileKind",
    "Fingerprint",
    "Manifest",
    "MissingError",
    "PlanLog",
    "Publisher",
    "ShardChange",
    "ShardReport",
    "Staged",
    "TopKey",
    "answers",
    "canonical",
    "check_names",
    "from_line",
    "id_if_claimed",
    "identity",
    "is_over",
    "last_manifest",
    "mark_file",
    "pipeline_folder",
    "pipeline_numbers",
    "plan_log",
    "published",
    "read_answer",
    "read_json",
    "read_manifests",
    "requests",
    "stored_job",
    "to_line",
    "waiting",
    "write_json",
]
