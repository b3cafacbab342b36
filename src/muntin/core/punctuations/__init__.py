"""Promises of streams: rows that they turn away or free, and the keys of which the output is over."""

from muntin.core.punctuations.compaction import compact
from muntin.core.punctuations.promises import REASON, Promises
from muntin.core.punctuations.propagation import NewPromises, in_order, punctuation_schema, told

__all__ = ["REASON", "NewPromises", "Promises", "compact", "in_order", "punctuation_schema", "told"]
