"""Pairs that were found, on their way to the queries: each once, routed at the very end."""

from muntin.core.results.results import (
    OUTPUT_TS,
    Columns,
    FoundPairs,
    ResultBatch,
    count,
    counted,
    output_schema,
    route,
    routed,
    unite,
)

__all__ = [
    "OUTPUT_TS",
    "Columns",
    "FoundPairs",
    "ResultBatch",
    "count",
    "counted",
    "output_schema",
    "route",
    "routed",
    "unite",
]
