"""Queries that come later and ask for what the streams have brought so far, on a stand-in for Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from muntin.model import UsageError
from muntin.spark.checkpoint import requests
from muntin.spark.ingest import sources
from muntin.sql import parse_job
from whole_way.drive import kept_apart
from whole_way.test_changed_jobs import STREAMS, Place, Q

P = "CREATE QUERY p FROM BEGINNING AS SELECT A.ts AS t, B.ts AS u FROM A, B WHERE A.k = B.k WINDOW 5 microseconds;"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with kept_apart(tmp_path), mock.patch.object(sources, "FILE_FORMATS", ("x",)):
        found = Place(tmp_path)
        with mock.patch.object(sources, "check_source", lambda stream: None):
            yield found


def wanted(*times: int) -> list[tuple[int, ...]]:
    return sorted((a, b, max(a, b)) for a in times for b in times if abs(a - b) < 5)


@pytest.mark.parametrize("how", ["file", "request"])
def test_a_query_from_the_beginning_has_every_row_once_and_in_order(place: Place, how: str):
    place.come(10, 12)
    place.come(13)
    place.run(STREAMS + Q)
    place.come(15)
    if how == "request":
        requests.submit(place.root / "ckpt", P)
    status = place.run(STREAMS + Q + P * (how == "file")).status()
    assert [p["queries"] for p in status["pipelines"]] == [["q"], ["p"]]
    assert "FROM BEGINNING" in status["queries"]["p"]["text"]
    place.come(17)
    place.run(STREAMS + Q + P, "bounded")
    found = place.rows("p")
    assert sorted(found) == wanted(10, 12, 13, 15, 17)
    assert [row[-1] for row in found] == sorted(row[-1] for row in found)
    assert len(place.rows("q")) == 25
    assert not place.reasons()


def test_a_query_that_was_there_from_the_start_shares_the_join_of_the_others(place: Place):
    place.come(10, 12)
    status = place.run(STREAMS + Q + P).status()
    assert [sorted(p["queries"]) for p in status["pipelines"]] == [["p", "q"]]
    again = place.run(STREAMS + Q + P.replace("FROM BEGINNING ", ""), "bounded")
    assert again.differences == [], "it only says how a query comes"
    assert sorted(place.rows("p")) == wanted(10, 12)


def test_a_source_that_cannot_be_read_again_is_refused_by_name(place: Place):
    place.come(10, 12)
    place.run(STREAMS + Q)
    with mock.patch.object(sources, "FILE_FORMATS", ()):
        with pytest.raises(UsageError, match="query p asks for rows from the beginning, and stream A has format x, wh"):
            place.start(STREAMS + Q + P)
        late = STREAMS.replace("name =", "startingOffsets = 'latest', name =")
        with pytest.raises(UsageError, match="and stream A is read from latest on"):
            place.start(late + Q + P)
        place.run(late.replace("latest", "earliest") + Q + P)
    assert sorted(place.rows("p")) == wanted(10, 12)


def test_a_query_from_the_beginning_does_not_take_the_place_of_another(place: Place):
    place.come(10, 12)
    place.run(STREAMS + Q)
    other = P.replace("QUERY p", "QUERY q")
    with pytest.raises(UsageError, match="query q is there already, and its rows of before are in the output"):
        place.start(STREAMS + other)
    requests.submit(place.root / "ckpt", other.replace("CREATE QUERY", "CREATE OR REPLACE QUERY"))
    place.run(STREAMS + Q, "bounded")
    assert len(place.rows("q")) == 4


def test_the_clause_is_read_and_written():
    query = parse_job(STREAMS + P).queries["p"]
    assert query.from_beginning and query.text.startswith("CREATE QUERY p FROM BEGINNING AS SELECT")
    with pytest.raises(UsageError, match="expected BEGINNING after FROM"):
        parse_job(STREAMS + P.replace("BEGINNING", "START"))
