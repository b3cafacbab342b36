"""The reference page is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from muntin.model import JoinKind, Query, Window
from muntin.sql import FORMS, FUNCTIONS, parse_job, parse_query
from muntin.sql.reference import COMMAND, reference
from muntin.sql.settings import SETTINGS
from muntin.sql.unknown import AGGREGATE_NAMES

DAYS = 2 * 86_400_000_000
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


def alternatives(rule: str) -> list[str]:
    """The ways to write something, as the grammar has them; each with its optional words and without."""
    text = re.search(rf"^{rule}: +(.*?)(?=^[a-z]+: |^```)", reference(), re.DOTALL | re.MULTILINE)
    assert text is not None
    forms = [" ".join(form.split()) for form in text[1].split("|")]
    return sorted({re.sub(r"\[([^]]+)\] ?", kept, form) for form in forms for kept in ("", r"\1 ")})


def query(rest: str) -> Query:
    columns = "(ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts WITH (format = 'x')"
    spec = parse_job(f"CREATE STREAM A {columns}; CREATE STREAM B {columns};")
    return parse_query(f"SELECT A.k FROM {rest}", spec, name="q")


def test_every_join_of_the_grammar_is_one() -> None:
    kinds = set()
    for join in alternatives("join"):
        made = query(f"A {join} B ON A.k = B.k AND A.ts >= B.ts WINDOW 1 min")
        kinds.add((made.kind, made.preserved))
    assert len(kinds) == 8, "inner, left, right, full, semi, anti, as-of, as-of left"


def test_every_condition_of_the_grammar_is_one() -> None:
    intervals = alternatives("interval")
    assert len(intervals) == 5
    for interval in intervals:
        for condition in alternatives("range"):
            text = condition.replace("interval", interval).replace(", n,", ", 1,")
            assert query(f"A, B WHERE A.k = B.k AND {text} WINDOW 2 days").window != Window(DAYS, DAYS), text
    found = {
        query(f"A WHERE {re.sub('item.*', 'B WHERE A.k = B.k)', e)} WINDOW 1 min").kind for e in alternatives("exists")
    }
    assert found == {JoinKind.SEMI, JoinKind.ANTI}
