"""One tuple has the aggregate functions, and everybody reads it: the documents too."""

from __future__ import annotations

from pathlib import Path

import pytest

from muntin.plan.functions import AGGREGATES, AggregateFunction, function_named

ROOT = Path(__file__).parents[2]


def test_every_function_has_a_name_of_its_own():
    names = [function.name for function in AGGREGATES]
    sql = [name for function in AGGREGATES for name in function.sql_names]
    assert len(set(names)) == len(names) and len(set(sql)) == len(sql)
    assert all(function_named(f.distinct) in AGGREGATES for f in AGGREGATES if f.distinct is not None)


@pytest.mark.parametrize("function", AGGREGATES, ids=lambda f: f.name)
def test_the_semantics_speak_of_every_function(function: AggregateFunction):
    section = (ROOT / "docs" / "semantics.md").read_text().split("## 7. Aggregates")[1]
    names = [name.upper() for name in function.sql_names] or ["COUNT(DISTINCT x)"]
    assert [name for name in names if f"`{name}" not in section] == []


def test_nobody_but_its_own_file_asks_for_a_function_by_name():
    """A function is known by its entry in the tuple: no text of its name decides anything elsewhere."""
    home = ROOT / "src" / "muntin" / "plan" / "functions"
    others = [p for layer in ("sql", "plan", "core", "spark") for p in (ROOT / "src" / "muntin" / layer).rglob("*.py")]
    names = [f'"{name}"' for f in AGGREGATES for name in {f.name, *f.sql_names} - {"min", "max", "count", "sum"}]
    assert [p.name for p in others if home not in p.parents and any(n in p.read_text() for n in names)] == []
