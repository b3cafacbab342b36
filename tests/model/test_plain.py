"""A job survives the way to JSON and back, whatever its queries are made of."""

from __future__ import annotations

import json

from hypothesis import given, settings

from muntin.model.plain import from_plain, to_plain
from muntin.sql import parse_job
from worlds import EXAMPLES, STREAMS, queries


@settings(max_examples=EXAMPLES, deadline=None)
@given(queries("q"))
def test_a_query_comes_back_as_it_was(query):
    spec = parse_job(STREAMS.format(late=3) + query["sql"])
    assert from_plain(json.loads(json.dumps(to_plain(spec)))) == spec
