"""Aggregate functions: one file each, or one for a few that keep the same numbers.

A function says what it is called in SQL, of which types it can be and what it refuses, what is kept of each group for
it (`kept.py`), and its result from these numbers. `AGGREGATES` has them all: the SQL front end, the planner, the
operator's state and the tests of the documents read that tuple, and nobody asks for a function by name.
To add one: a file, its place in the tuple (`registry.py`), a line in `docs/semantics.md`, and tests.
"""

from muntin.plan.functions.function import AggregateFunction, Refusal
from muntin.plan.functions.kept import PAIRS, DistinctValues, Extreme, KeptSums, Numbers, WideSum
from muntin.plan.functions.measures import Measures
from muntin.plan.functions.registry import AGGREGATES, function_named, function_of

__all__ = [
    "AGGREGATES",
    "PAIRS",
    "AggregateFunction",
    "DistinctValues",
    "Extreme",
    "KeptSums",
    "Measures",
    "Numbers",
    "Refusal",
    "WideSum",
    "function_named",
    "function_of",
]
