"""Queries may be named in any script; their names are those of folders, so nothing else may be in them."""

from __future__ import annotations

import unicodedata

import pytest

from muntin.model import JobSpec, SqlError
from muntin.sql import is_name, parse_change, parse_job, parse_query

from .conftest import STREAMS
from .test_errors import AB, END

SELECT = f"SELECT A.t {AB} {END}"


@pytest.mark.parametrize("name", ["größe", "температура", "温度", "ήλιος", "q1", "Hot_2"])
def test_a_query_may_have_a_name_in_any_script(spec: JobSpec, name: str) -> None:
    for written in (name, f"`{name}`", unicodedata.normalize("NFD", name)):
        query = parse_query(f"CREATE QUERY {written} AS {SELECT}", spec)
        assert query.name == name
        assert parse_query(query.text, spec) == query, "what is stored can be read again"


@pytest.mark.parametrize("name", ["a b", "../x", "a/b", "a.b", "_q", "1q", "a-b", "q%2F", "a\u200bb", "😀", ""])
def test_what_could_mean_something_in_a_path_is_no_name(spec: JobSpec, name: str) -> None:
    assert not is_name(name)
    with pytest.raises(SqlError):
        parse_query(f"CREATE QUERY `{name}` AS {SELECT}", spec)


def test_a_name_fits_a_folder(spec: JobSpec) -> None:
    with pytest.raises(SqlError, match="has 240 bytes"):
        parse_query(f"CREATE QUERY {'温' * 80} AS {SELECT}", spec)


def test_two_spellings_of_a_name_are_one() -> None:
    one, two = (unicodedata.normalize(form, "Grün") for form in ("NFC", "NFD"))
    with pytest.raises(SqlError, match="already there"):
        parse_job(f"{STREAMS}CREATE QUERY {one} AS {SELECT}; CREATE QUERY {two.upper()} AS {SELECT};")
    job = parse_job(f"{STREAMS}CREATE QUERY {one} AS {SELECT};")
    assert parse_change(f"DROP QUERY {two.lower()}", job).name == one
