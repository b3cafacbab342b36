"""EXPLAIN: the shared plan of a job, each node once, and what it costs beside the other ways of sharing.

`describe` makes a tree of plain values (`description`) with all there is to say; `explain` is its text for people,
`explain_json` its JSON for programs. The text stays short enough to read: what there are many of is listed up to a
limit, then counted.
"""

from muntin.plan.explain.describe import describe, describe_in_force
from muntin.plan.explain.description import Alternative, PlanDescription, to_json
from muntin.plan.explain.text import explain, explain_json, in_words

__all__ = [
    "Alternative",
    "PlanDescription",
    "describe",
    "describe_in_force",
    "explain",
    "explain_json",
    "in_words",
    "to_json",
]
