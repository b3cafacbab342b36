"""Our own durable files under a checkpoint: identity, plans, manifests, requests."""

from muntin.spark.checkpoint import identity, requests
from muntin.spark.checkpoint.durable import write_atomically
from muntin.spark.checkpoint.identity import (
    FOLDER,
    canonical,
    check_names,
    is_over,
    pipeline_folder,
    pipeline_numbers,
    stored_job,
)
from muntin.spark.checkpoint.manifests import KEPT_MANIFESTS, Manifest, Publisher, Staged, last_manifest, manifests
from muntin.spark.checkpoint.plans import Epoch, PlanLog, plan_log
from muntin.spark.checkpoint.requests import Answer, answers, read_answer, waiting

__all__ = [
    "FOLDER",
    "KEPT_MANIFESTS",
    "Answer",
    "Epoch",
    "Manifest",
    "PlanLog",
    "Publisher",
    "Staged",
    "answers",
    "canonical",
    "check_names",
    "identity",
    "is_over",
    "last_manifest",
    "manifests",
    "pipeline_folder",
    "pipeline_numbers",
    "plan_log",
    "read_answer",
    "requests",
    "stored_job",
    "waiting",
    "write_atomically",
]
