"""From SQL text to the model; the only place that imports sqlglot.

`dialect` is the grammar, `statements` reads whole statements, `plain` says a SELECT without names that stand for
something else, `bind` makes queries, `expressions` and `translate` (with the rules in `operators` and the table of
functions) make scalar expressions for the evaluator, `places` makes the errors.
"""

from muntin.sql.duration import parse_duration_us
from muntin.sql.names import is_name
from muntin.sql.statements import parse_change, parse_job, parse_promises, parse_query

__all__ = ["is_name", "parse_change", "parse_duration_us", "parse_job", "parse_promises", "parse_query"]
