"""What the driver tells a running job: changes of queries, idle streams, orderings, chains."""

from muntin.spark.control import control_stream, known
from muntin.spark.control.adapting import Adapter
from muntin.spark.control.admission import Admission
from muntin.spark.control.changes import ChangeRequest, Changes
from muntin.spark.control.known import keep_constants, to_json
from muntin.spark.control.routing import Router, assign, differences, with_pending
from muntin.spark.control.watch import Orderings, Watch

__all__ = [
    "Adapter",
    "Admission",
    "ChangeRequest",
    "Changes",
    "Orderings",
    "Router",
    "Watch",
    "assign",
    "control_stream",
    "differences",
    "keep_constants",
    "known",
    "to_json",
    "with_pending",
]
