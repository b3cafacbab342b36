"""From SQL text to the model; the only place that imports sqlglot.

`dialect` is the grammar, `statements` reads whole statements, `plain` says a SELECT without names that stand for
something else, `bind` makes queries: `joins` says which streams are joined and how, `conditions` where each condition
goes, `time_bounds` and `windows` how long rows wait. `expressions` and `translate` (with the rules in `operators`,
`casts`, ... and the functions of `function_table`) make scalar expressions for the evaluator, `places` the errors.
"""

from muntin.sql.duration import parse_duration_us
from muntin.sql.function_table import FORMS, FUNCTIONS
from muntin.sql.names import is_name
from muntin.sql.statements import (
    order_joins,
    parse_change,
    parse_event_time,
    parse_job,
    parse_notes,
    parse_promises,
    parse_query,
)

__all__ = [
    "FORMS",
    "FUNCTIONS",
    "is_name",
    "order_joins",
    "parse_change",
    "parse_duration_us",
    "parse_event_time",
    "parse_job",
    "parse_notes",
    "parse_promises",
    "parse_query",
]
