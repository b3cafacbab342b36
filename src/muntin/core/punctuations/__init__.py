"""Promises of streams: rows that they turn away or free, and the keys for which the output is over (ding2004).

`Promises` are those of one shard; `NoPromises` stands for them where there are none.
`PromiseLog` keeps them by number, `PromisedKeys` by key, `RangePromises` those about ranges of keys.
`PendingPunctuations` are the promises after which the output can still bring rows with the key.
`compact` gives back the room of rows that a promise freed.
"""

from muntin.core.punctuations.join_view import JoinView
from muntin.core.punctuations.no_promises import NoPromises, PromisesImage, PromisesMeta, RefusedRows
from muntin.core.punctuations.promise_log import NUMBER, PROMISED, PromiseLogMeta
from muntin.core.punctuations.promises import REASON, open_promises
from muntin.core.punctuations.propagation import NewPromises, in_order, punctuation_schema, spoken_by

__all__ = [
    "NUMBER",
    "PROMISED",
    "REASON",
    "JoinView",
    "NewPromises",
    "NoPromises",
    "PromiseLogMeta",
    "PromisesImage",
    "PromisesMeta",
    "RefusedRows",
    "in_order",
    "open_promises",
    "punctuation_schema",
    "spoken_by",
]
