"""A condition that NULL keeps from ever being true gets a note, and stays what it is."""

from __future__ import annotations

import pytest

from muntin.sql import parse_job

from .conftest import STREAMS

AB = "FROM Temperature A, Humidity B WHERE A.LocationId = B.LocationId"


def notes(query: str) -> tuple[str, ...]:
    return parse_job(f"{STREAMS}CREATE QUERY q AS\n{query} WINDOW 1 min;", source="job.sql").notes


@pytest.mark.parametrize(
    ("condition", "note"),
    [
        ("A.tag = NULL", "A.tag = NULL is never true; write A.tag IS NULL"),
        ("NULL = A.tag", "NULL = A.tag is never true; write A.tag IS NULL"),
        ("A.tag <> NULL", "A.tag <> NULL is never true; write A.tag IS NOT NULL"),
        ("A.tag != (NULL)", "A.tag != (NULL) is never true; write A.tag IS NOT NULL"),
        ("A.Value > NULL", "A.Value > NULL is never true; write A.Value IS NULL"),
        ("(A.ok OR A.tag = NULL)", "A.tag = NULL is never true; write A.tag IS NULL"),
        ("A.t IN (NULL)", "A.t IN (NULL) is never true; write A.t IS NULL"),
        ("A.t NOT IN (NULL)", "A.t NOT IN (NULL) is never true; write A.t IS NOT NULL"),
        ("A.t NOT IN (1, NULL)", "A.t NOT IN (1, NULL) is never true; write A.t NOT IN (...) without the NULL"),
        ("a.locationid IS NULL", "a.locationid IS NULL is never true here: A.LocationId = B.LocationId is true for no"),
    ],
)
def test_a_condition_that_is_never_true_gets_a_note(condition: str, note: str) -> None:
    (found,) = notes(f"SELECT A.ts {AB} AND {condition}")
    assert found.startswith(f"job.sql:7: {note}")


@pytest.mark.parametrize(
    "condition",
    [
        "A.tag IS NULL",
        "A.tag <=> NULL",
        "A.t IN (1, NULL)",
        "A.t NOT IN (1)",
        "COALESCE(A.t, NULL) = 1",
        "B.tag IS NOT NULL",
    ],
)
def test_a_condition_that_may_be_true_gets_none(condition: str) -> None:
    assert notes(f"SELECT A.ts {AB} AND {condition}") == ()
