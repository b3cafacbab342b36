"""EXPLAIN and predictions know of rows that wait until times of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muntin.model import JobSpec, Side
from muntin.plan import SharedJoin, covers, share
from muntin.plan.cost import DEFAULT
from muntin.plan.explain import explain
from muntin.plan.joins import signature
from muntin.plan.predict import predict_join, traffics_of
from muntin.plan.traffic import Knowledge
from muntin.sql import parse_job, parse_query

STREAMS = """
CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, expires TIMESTAMP, reserve DOUBLE{promise})
  TIMESTAMP BY ts RATE 100 PER SECOND{mark} WITH (format = 'parquet', path = 'a');
CREATE STREAM Bid (ts TIMESTAMP, auction BIGINT, price DOUBLE)
  TIMESTAMP BY ts RATE 100 PER SECOND WITH (format = 'parquet', path = 'b');
"""
PAIRS = "SELECT A.id, B.price FROM Auction A JOIN Bid B ON A.id = B.auction"


def job(mark: str = "", at_most: str = "1 hour") -> JobSpec:
    until = f"CREATE QUERY own AS {PAIRS} WINDOW UNTIL A.expires AT MOST {at_most};"
    return parse_job(STREAMS.format(promise="", mark=mark) + until)


def only_join(spec: JobSpec) -> SharedJoin:
    (join,) = share(spec).joins
    return join


def known(spec: JobSpec, stay_s: float | None) -> Knowledge:
    """What a run has measured."""
    join = only_join(spec)
    (traffic,) = traffics_of([join]).values()
    return Knowledge(measured={signature(join.queries[0]): replace(traffic, stays_s=(stay_s, None))})


def test_explain_says_until_when_rows_wait_and_that_nothing_was_measured():
    text = explain(job())
    assert "window 1 h, rows of Auction at most until A.expires" in text
    assert "rows wait until A.expires, at most 1 h; how long they stay was not measured" in text
    assert "state of Auction: the last 1 h; about 360,000 rows" in text


def test_what_was_measured_takes_the_place_of_the_bound():
    spec = job()
    text = explain(spec, known(spec, 36.0))
    assert "they stay for 36 s on average, as measured" in text
    assert "state of Auction: the last 1 h; about 3,600 rows" in text
    assert "state of Bid: the last 1 h; about 360,000 rows" in text, "the other stream waits as before"


def test_fewer_rows_are_compared_with_as_well():
    spec = job()
    join = only_join(spec)
    whole, part = (
        predict_join(join, known(spec, stay).measured[signature(join.queries[0])], DEFAULT) for stay in (None, 360.0)
    )
    left = part.states[Side.LEFT].comparisons.sum() / whole.states[Side.LEFT].comparisons.sum()
    assert left == pytest.approx(0.1)
    assert part.states[Side.RIGHT].rows.sum() == whole.states[Side.RIGHT].rows.sum()


def test_a_stream_that_sends_punctuations_keeps_its_rows_for_the_bound():
    spec = job(mark=" PUNCTUATION WHEN reserve < 0")
    assert "about 360,000 rows" in explain(spec, known(spec, 36.0)).partition("state of Auction")[2].splitlines()[0]


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        ("WINDOW UNTIL A.expires AT MOST 1 hour", True),
        ("WINDOW UNTIL A.expires AT MOST 5 min", True),
        ("WINDOW UNTIL A.expires AT MOST 2 hours", False),
        ("WINDOW 5 min", False),
        ("WINDOW UNTIL A.ts + INTERVAL 1 MINUTE AT MOST 5 min", False),
        ("WINDOW UNTIL B.ts + INTERVAL 1 MINUTE AT MOST 5 min", False),
    ],
)
def test_rows_that_left_at_their_own_ends_are_not_there_for_others(window: str, kept: bool):
    spec = job()
    query = parse_query(f"CREATE QUERY new AS {PAIRS} {window};", spec)
    for strategy in ("state-slice", "pull-up"):
        (join,) = share(spec, strategy).joins
        assert covers(join, query) is kept


def test_what_stayed_for_the_whole_window_is_there_for_all():
    spec = parse_job(STREAMS.format(promise="", mark="") + f"CREATE QUERY all AS {PAIRS} WINDOW 1 hour;")
    query = parse_query(f"CREATE QUERY new AS {PAIRS} WINDOW UNTIL A.expires AT MOST 30 min;", spec)
    assert covers(only_join(spec), query)
