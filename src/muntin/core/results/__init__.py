"""Pairs on their way to the queries: each pair once, each row of it once.

`FoundPairs` are the pairs of one step by row numbers, while the operator still has the rows.
`ResultBatch` stands alone: the rows that occur, and the pairs as positions in them.
`route` and its kin say which query receives which pairs, at the very end.
`PairSlices` divide pairs among slices instead, each pair once, for outputs that keep slices.
`OutputColumns` computes the SELECT lists: what concerns one side once per row, not once per pair.
"""

from muntin.core.results.found_pairs import NOBODY, FoundPairs
from muntin.core.results.output_columns import OUTPUT_TS, OutputColumns, output_schema, unite
from muntin.core.results.result_batch import ResultBatch
from muntin.core.results.routing import alone, count, counted, route, routed, unmatched
from muntin.core.results.slices import BITS, PairSlices, SlicedQuery, SliceLayout, StoredSlice, is_sliced

__all__ = [
    "BITS",
    "NOBODY",
    "OUTPUT_TS",
    "FoundPairs",
    "OutputColumns",
    "PairSlices",
    "ResultBatch",
    "SliceLayout",
    "SlicedQuery",
    "StoredSlice",
    "alone",
    "count",
    "counted",
    "is_sliced",
    "output_schema",
    "route",
    "routed",
    "unite",
    "unmatched",
]
