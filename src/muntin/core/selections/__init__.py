"""Which queries want which rows: all selections, evaluated once for each row.

`Classes` number the sets of queries that want the same; a row carries the number of its class.
`Selections` are the classes of one side, with how long rows of a class stay and how far they probe.
`slicing` and `routes` give the kernels the slices of the state and the readers of each.
`own_times` and what follows from them are of rows that wait until a time of their own.
Predicates over both sides are classified in the same way, for each pair that is found.
"""

from muntin.core.selections.classes import Classes, query_bits, query_flags
from muntin.core.selections.own_windows import (
    microseconds,
    open_to_each_other,
    own_times,
    own_windows,
    times_width,
)
from muntin.core.selections.selections import ClassTally, Selections
from muntin.core.selections.slice_tables import everybody, per_class, readers_of, routes, slicing, wanted_by

__all__ = [
    "ClassTally",
    "Classes",
    "Selections",
    "everybody",
    "microseconds",
    "open_to_each_other",
    "own_times",
    "own_windows",
    "per_class",
    "query_bits",
    "query_flags",
    "readers_of",
    "routes",
    "slicing",
    "times_width",
    "wanted_by",
]
