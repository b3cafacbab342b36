"""Aggregates over pairs, from the pairs of one shard to the rows of a query.

`Aggregates` keeps the groups of live pairs and `Finals` those of EMIT FINAL; both send `GroupValues`, and `finish`
makes the rows of a query of what all shards have sent. What is kept of a group for which function is not known here:
functions say so themselves (`muntin.plan.functions`), and this room knows sums, extremes and different values.
"""

from muntin.core.aggregates.aggregates import Aggregates
from muntin.core.aggregates.durable_totals import OPEN, SEGMENT, SERIAL, DurableTotalsMeta, SegmentMeta, contents_of
from muntin.core.aggregates.final_state import KEY1, KEY2, OWNER1, OWNER2, FinalStateMeta
from muntin.core.aggregates.finals import Finals, FinalsImage, FinalsMeta
from muntin.core.aggregates.groups import GroupState, GroupStateImage, GroupValues
from muntin.core.aggregates.key_ends import KeyEnds
from muntin.core.aggregates.values import FAULT, finish

__all__ = [
    "FAULT",
    "KEY1",
    "KEY2",
    "OPEN",
    "OWNER1",
    "OWNER2",
    "SEGMENT",
    "SERIAL",
    "Aggregates",
    "DurableTotalsMeta",
    "FinalStateMeta",
    "Finals",
    "FinalsImage",
    "FinalsMeta",
    "GroupState",
    "GroupStateImage",
    "GroupValues",
    "KeyEnds",
    "SegmentMeta",
    "contents_of",
    "finish",
]
