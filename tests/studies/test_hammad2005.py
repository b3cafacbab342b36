"""hammad2005 on the operator, beside what its studies assert."""

from __future__ import annotations

import random

import pytest

from muntin.model import Side
from muntin.plan.orderings import FILTER_ORDER, SYNC_FILTER, Pace, gain
from muntin.studies.hammad2005_examples import TupleAtATime
from muntin.studies.hammad2005_responses import arrivals, response, simulated


def test_the_hand_over_is_not_over_while_rows_are_ahead_though_nothing_is_held():
    """Step K asks for the hold buffer alone. c10 is joined and has no partner yet, so it is empty; but c7 meets c10
    before b8 meets b9, and that result must come first."""
    example = TupleAtATime("adaptive")
    for tuple_ in ("Se2", "Td3"):
        example.bring(tuple_)
    example.operator.follow(True)
    assert example.bring("Tb9") == [] and example.bring("Tc10") == [] and example.held == ([0, 0], 0)
    example.operator.follow(False)
    assert example.bring("Sc7") == [] and example.held == ([0, 0], 1)
    assert example.bring("Sb8") == [] and example.held == ([0, 0], 2)
    assert example.bring("Sd20") == ["b8b9", "c7c10"]


def test_micro_batches_that_end_where_a_side_changes_are_as_good_as_a_row_at_a_time(monkeypatch):
    """The clock takes runs of rows of one side together; nobody is answered at another time for it."""
    brought, told = arrivals(1, 10, 64, random.Random(5)), {}
    for name in ("runs", "rows"):
        if name == "rows":
            monkeypatch.setattr(
                "muntin.studies.virtual_order._cuts", lambda a, warm: [warm, *range(warm + 1, len(a) + 1)]
            )
        for ordering in (SYNC_FILTER, FILTER_ORDER):
            (trace,) = simulated(ordering.name, brought, 5e-4)
            told[name, ordering.name] = trace.responses
    for ordering in (SYNC_FILTER, FILTER_ORDER):
        runs, rows = told["runs", ordering.name], told["rows", ordering.name]
        assert runs.keys() <= rows.keys() and len(runs) > 20
        assert all(runs[n] == pytest.approx(rows[n], abs=0.01) for n in runs)


def test_the_gain_is_as_by_equation_7_for_evenly_spaced_rows():
    gains = []
    for slow in (0.25, 1):
        brought, pace = arrivals(slow, 10, 66), Pace(5e-4, 60, slow, 10)
        sync, early = (
            response(simulated(o.name, brought, 5e-4)[0], brought, Side.RIGHT) for o in (SYNC_FILTER, FILTER_ORDER)
        )
        gains.append(1 - early / sync)
        assert gains[-1] == pytest.approx(gain(pace.load), abs=0.05)
    assert gains == sorted(gains)
