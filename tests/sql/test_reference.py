"""The reference page is what the code says."""

from __future__ import annotations

from pathlib import Path

from muntin.sql import FORMS, FUNCTIONS
from muntin.sql.reference import COMMAND, reference
from muntin.sql.settings import SETTINGS
from muntin.sql.unknown import AGGREGATE_NAMES

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_reference_page_is_that_of_this_code() -> None:
    assert PAGE.read_text() == reference(), f"docs/sql.md is stale; make it anew: PYTHONPATH=src {COMMAND}"


def test_the_reference_page_has_every_function_and_setting_once() -> None:
    page = reference()
    for function in FUNCTIONS.values():
        assert page.count(f"| `{function.signature}` |") == 1, function.name
    for name in (*AGGREGATE_NAMES, *(setting.name for setting in SETTINGS)):
        assert page.count(f"| `{name}`") + page.count(f", `{name}` |") == 1, name
    assert len(FORMS) > 3 and all(form.replace("|", "\\|") in page for form in FORMS)


def test_the_grammar_stands_on_the_page() -> None:
    grammar = reference().partition("```\n")[2].partition("```")[0]
    for start in ("SET name", "CREATE STREAM", "CREATE [OR REPLACE] QUERY", "DROP QUERY", "subquery:"):
        assert f"\n{start}" in f"\n{grammar}", start
