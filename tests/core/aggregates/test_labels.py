"""Labels are in the order of what they stand for, also when there is no room between two of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.core.aggregates import labels as module
from muntin.core.aggregates.labels import OCTETS, Labels
from muntin.core.storage.memory import Heap


def add(labels: Labels, values: list[bytes], known: dict[bytes, int]) -> int:
    """Take in values, with `known` kept up to date; whether all labels have changed for that."""
    found, moved = labels.add(pa.array(values, pa.large_binary()), [pa.array([len(v) for v in values])])
    if moved is not None:
        for value, now in zip(known, moved.now(np.array(list(known.values()), np.int64)), strict=True):
            known[value] = int(now)
    for value, label in zip(values, found.tolist(), strict=True):
        assert known.setdefault(value, label) == label, "a value keeps its label"
    return moved is not None


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.lists(st.binary(max_size=2), min_size=1, max_size=9), min_size=1, max_size=6))
def test_labels_are_in_order_and_lead_back_to_their_values(batches):
    labels, known = Labels([pa.field("size", pa.int64())], Heap()), {}
    for batch in batches:
        add(labels, batch, known)
        in_order = sorted(known)
        assert [known[v] for v in in_order] == sorted(set(known.values()))
        back = labels.take(np.array([known[v] for v in in_order[::-1]]))
        assert back[OCTETS].to_pylist() == in_order[::-1]
        assert back["size"].to_pylist() == [len(v) for v in in_order[::-1]]


def test_where_there_is_no_room_between_two_all_are_spread_out():
    labels, known = Labels([pa.field("size", pa.int64())], Heap()), {}
    add(labels, [b"", b"b"], known)
    spread = sum(add(labels, [b"a" * n], known) for n in range(1, 100))  # always just before the last
    assert spread >= 1 and [known[v] for v in sorted(known)] == sorted(known.values())
    assert labels.take(np.array([known[b"aaa"]]))[OCTETS].to_pylist() == [b"aaa"]


def test_values_that_nobody_keeps_are_let_go():
    labels, known = Labels([pa.field("size", pa.int64())], Heap()), {}
    for n in range(20):
        add(labels, [b"%d" % (n * 500 + i) for i in range(500)], known)
        labels.settle(lambda: np.array([known[b"7"], known[b"8"]]))
    assert len(labels) <= module.SPARE + 500 and labels.take(np.array([known[b"8"]]))[OCTETS].to_pylist() == [b"8"]
