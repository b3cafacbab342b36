"""How far a micro-batch goes: nothing twice, nothing left out, never more than the limit, and a replay is the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.spark.brokers.offsets import Extent, MessageLog, advance, from_stored, losses, stored

PLACES = [MessageLog("a", 0), MessageLog("a", 10), MessageLog("b", 2)]
BOUNDS = st.dictionaries(
    st.sampled_from(PLACES), st.tuples(st.integers(0, 5), st.integers(0, 9)).map(lambda b: Extent(b[0], sum(b)))
)
LIMITS = st.one_of(st.none(), st.integers(1, 12))


@given(BOUNDS, LIMITS)
def test_all_messages_are_read_once_and_no_micro_batch_has_more_than_the_limit(bounds, limit):
    at, read, batches = {}, {place: [] for place in bounds}, 0
    while (end := advance(at, bounds, limit)) != at:
        spans = {place: range(at[place], end[place]) for place in at}
        assert limit is None or sum(map(len, spans.values())) <= limit
        for place, span in spans.items():
            read[place] += span
        at, batches = end, batches + 1
        assert batches < 100
    assert read == {place: list(range(*found)) for place, found in bounds.items()}


@given(BOUNDS, LIMITS)
def test_a_limit_is_used_up_as_long_as_messages_wait(bounds, limit):
    start = {place: found.low for place, found in bounds.items()}
    waiting = sum(found.high - found.low for found in bounds.values())
    taken = sum(advance(start, bounds, limit).values()) - sum(start.values())
    assert taken == (waiting if limit is None else min(limit, waiting))


def test_a_place_that_is_new_joins_with_its_first_message_and_reads_nothing_yet():
    start = {PLACES[0]: 5}
    bounds = {PLACES[0]: Extent(0, 7), PLACES[1]: Extent(3, 9)}
    first = advance(start, bounds, None)
    assert first == {PLACES[0]: 7, PLACES[1]: 3}
    assert advance(first, bounds, None) == {PLACES[0]: 7, PLACES[1]: 9}


def test_a_place_that_is_gone_stays_where_it_is_and_one_made_anew_begins():
    assert advance({PLACES[0]: 5}, {}, None) == {PLACES[0]: 5}
    assert advance({PLACES[0]: 50}, {PLACES[0]: Extent(0, 7)}, None) == {PLACES[0]: 0}


def test_what_has_expired_is_a_loss_and_is_named():
    found = losses({PLACES[0]: 2, PLACES[1]: 5, PLACES[2]: 9}, {p: Extent(5, 7) for p in PLACES})
    assert [loss.place for loss in found] == [PLACES[0], PLACES[2]]
    assert str(found[0]) == "messages 2 to 4 of partition 0 of a have expired before they were read"
    assert "was read up to 9: it was made anew" in str(found[1])
    assert advance({PLACES[0]: 2}, {PLACES[0]: Extent(5, 7)}, 1) == {PLACES[0]: 6}, "what is gone counts for nothing"


@given(st.dictionaries(st.sampled_from(PLACES), st.integers(0, 9)))
def test_offsets_are_texts_that_do_not_depend_on_the_order_in_which_places_came(offsets):
    text = json.dumps(stored(offsets))
    assert text == json.dumps(stored(dict(reversed(offsets.items()))))
    assert from_stored(json.loads(text)) == offsets


def test_what_is_no_offset_is_refused():
    for wrong in ({"a": {"0": -1}}, {"a": {"0": "1"}}, {"a": {"x": 1}}):
        with pytest.raises(ValueError):
            from_stored(wrong)
