"""Octets compare as the values that they stand for."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.kernels.order import places, sort_keys

TEXTS = st.none() | st.binary(max_size=3) | st.sampled_from([b"", b"\0", b"\0\0", b"\xff", b"\0\xff", b"a"])
NUMBERS = st.none() | st.floats(allow_nan=True, width=16) | st.sampled_from([0.0, -0.0, math.inf])
WAYS = st.tuples(st.booleans(), st.booleans())


def rank(value, way: tuple[bool, bool]) -> tuple:
    """A key for one value that Python sorts as SQL does; descending is left to the caller."""
    if value is None:
        return (0 if way[1] != way[0] else 2,)
    return (1, value != value, 0.0 if value != value else value) if isinstance(value, float) else (1, value)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, NUMBERS, TEXTS), min_size=1, max_size=12), st.tuples(WAYS, WAYS, WAYS))
def test_octets_compare_as_rows_do(rows, ways):
    kinds = (pa.binary(), pa.float64(), pa.binary())
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)]
    octets = sort_keys([(c, *way) for c, way in zip(columns, ways, strict=True)]).to_pylist()
    order = list(range(len(rows)))
    for n in (2, 1, 0):
        order.sort(key=lambda i, n=n: rank(rows[i][n], ways[n]), reverse=ways[n][0])
    assert [octets[i] for i in order] == sorted(octets)
    same = [[rank(v, way) for v, way in zip(row, ways, strict=True)] for row in rows]
    for i, a in enumerate(same):
        for j, b in enumerate(same):
            assert (a == b) == (octets[i] == octets[j])


@settings(deadline=None)
@given(st.lists(st.binary(max_size=2), unique=True), st.lists(st.binary(max_size=2), unique=True))
def test_places_are_those_among_the_known(known, wanted):
    known, wanted = sorted(known), sorted(wanted)
    at, same = places(pa.array(known, pa.large_binary()), pa.array(wanted, pa.large_binary()))
    assert at.tolist() == [sum(k < w for k in known) for w in wanted]
    assert same.tolist() == [w in known for w in wanted]
