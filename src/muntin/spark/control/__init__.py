"""What the driver decides while a job runs, and how the shards learn of it.

`changes` and `routing` bring queries in and out. `adapting` follows the traffic with other chains, `watch` looks for
silent streams and chooses orderings, `hot_keys` looks for keys with very many rows, `admission` slows down a stream
that is far ahead, and `pacing` limits the work of a micro-batch. Each decision is a plan file or a message of
`control_stream`, which is part of the checkpointed input: so a replay decides the same.
`measured_traffic` and `calibration` read what a checkpoint has measured. `advice` says what a job may not mean.
"""

from muntin.spark.control import control_stream
from muntin.spark.control.adapting import Adapter
from muntin.spark.control.admission import Admission
from muntin.spark.control.advice import advice, advice_about
from muntin.spark.control.calibration import constants_json, keep_constants, load_constants
from muntin.spark.control.changes import ChangeRequest, Changes, Tell, is_same
from muntin.spark.control.hot_keys import HotKeyWatch
from muntin.spark.control.measured_traffic import (
    Reports,
    expected_load,
    joined_as_before,
    knowledge_of,
    measured_by,
    plan_for,
    reports_of,
    strategy_of,
    streams_per_pipeline,
)
from muntin.spark.control.pacing import Pacing
from muntin.spark.control.routing import (
    QueryRouter,
    apply_change,
    assign_queries,
    query_differences,
    refuse_history,
    with_pending_changes,
)
from muntin.spark.control.watch import Orderings, OrderingSwitch, Watch

__all__ = [
    "Adapter",
    "Admission",
    "ChangeRequest",
    "Changes",
    "HotKeyWatch",
    "OrderingSwitch",
    "Orderings",
    "Pacing",
    "QueryRouter",
    "Reports",
    "Tell",
    "Watch",
    "advice",
    "advice_about",
    "apply_change",
    "assign_queries",
    "constants_json",
    "control_stream",
    "expected_load",
    "is_same",
    "joined_as_before",
    "keep_constants",
    "knowledge_of",
    "load_constants",
    "measured_by",
    "plan_for",
    "query_differences",
    "refuse_history",
    "reports_of",
    "strategy_of",
    "streams_per_pipeline",
    "with_pending_changes",
]
