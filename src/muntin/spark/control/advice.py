"""What a job may well not mean, though nothing is wrong with it: said before it runs, or when a query comes."""

from __future__ import annotations

from muntin.model import JobSpec, Query
from muntin.model.duration import format_us
from muntin.plan import Plan


def advice(spec: JobSpec) -> list[str]:
    """One line for each trap that a job walks into."""
    return [line for query in spec.queries.values() if (line := _between_instants(query)) is not None]


def advice_about(query: Query, plan: Plan | None = None) -> list[str]:
    """One line for each trap that a new query walks into; `plan` says whether it was planned away."""
    from muntin.sql import parse_notes

    lines = [f"query {query.name}, {note}" for note in parse_notes(query.text)]
    if (line := _between_instants(query)) is not None:
        lines.append(line)
    if plan is not None and query.name in [other.name for other in plan.never]:
        lines.append(f"query {query.name}: no row can satisfy the selection, so the output stays empty")
    return lines


def _between_instants(query: Query) -> str | None:
    """`EVERY d` looks at the pairs that live at multiples of d: shorter lives are mostly missed."""
    every_us = query.aggregation.every_us if query.aggregation else None
    life_us = min((end for end in (query.window.left, query.window.right) if end > 0), default=0)
    if every_us is None or life_us >= every_us:
        return None
    missed = "it has hardly any rows" if life_us == 1 else "it misses the pairs in between"
    return (
        f"query {query.name}: EVERY {format_us(every_us)} looks at each multiple of {format_us(every_us)}, and a pair "
        f"lives for at most {format_us(life_us)}, so {missed}; write EMIT CHANGES in place of EVERY, or give both "
        f"streams windows of {format_us(every_us)} or more"
    )
