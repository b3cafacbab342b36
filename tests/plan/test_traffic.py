"""How rows divide over queries: by assumption, by declaration, by measurement; and how that becomes ages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.model import Axis, Side
from muntin.plan.joins import signature
from muntin.plan.regions import Predicates
from muntin.plan.strategies import share
from muntin.plan.traffic import Knowledge, Mix, Traffic, assumed, fit, measured, pairs, survivors, traffic_of


def only_join(spec, strategy="state-slice"):
    (join,) = share(spec, strategy).joins
    return join


def fractions(traffic: Traffic, side: Side = Side.LEFT) -> list[float]:
    return list(traffic.mixes[side].fractions)


# -- assumed ---------------------------------------------------------------------------------------------------------


def test_without_selections_there_is_one_class_that_all_queries_want(job):
    traffic = assumed(only_join(job((1,), (2,))))
    for mix in traffic.mixes:
        assert mix.wants.tolist() == [[True, True]] and mix.weights.tolist() == [1.0]
    assert (traffic.rates, traffic.match, traffic.known) == ((1000.0, 1000.0), 1 / 10_000, "assumed")


def test_ranges_are_equally_likely_their_first_value_a_tenth_of_them_and_null_a_hundredth(job):
    traffic = assumed(only_join(job((1, "v > 10"), (2, "v >= 10"), (3, "v > 20"), (4, "v < 10"))))
    third = 0.99 / 3
    assert fractions(traffic) == pytest.approx([1.9 * third, 2 * third, 0.9 * third, third])
    assert traffic.mixes[0].weights.sum() == pytest.approx(1)


def test_a_value_named_for_equality_alone_is_a_ninth_of_all_others_together(job):
    traffic = assumed(only_join(job((1, "tag in a"), (2, "tag in a,b"))))
    assert fractions(traffic) == pytest.approx([0.99 / 11, 0.99 * 2 / 11])


def test_nothing_lies_between_neighbouring_integers(job):
    traffic = assumed(only_join(job(*((n, f"n >= {n}") for n in range(1, 10)))))
    assert fractions(traffic) == pytest.approx([0.99 * n / 10 for n in range(9, 0, -1)])


def test_columns_are_independent_and_what_is_not_indexed_holds_half_of_the_time(job):
    traffic = assumed(only_join(job((1, "v > 10"), (2, "tag in a"), (3, "v > 10 AND tag in a"), (4, "opaque"))))
    warm, tagged, both, opaque = fractions(traffic)
    assert both == pytest.approx(warm * tagged)
    assert opaque == 0.5


def test_more_combinations_than_can_be_enumerated_are_drawn_always_the_same(job):
    spec = job(*((n, f"v > {n} AND n > {n}") for n in range(1, 100)))
    join = only_join(spec)
    assert Predicates([q.where[0] for q in join.queries], join.streams[0].schema).combinations > 4096
    first, second = assumed(join), assumed(join)
    assert fractions(first) == fractions(second)
    assert fractions(first)[0] > fractions(first)[50] > fractions(first)[-1]
    assert fractions(first)[0] == pytest.approx(0.979 * 0.970, abs=0.02)
    assert first.mixes[0].weights.sum() == pytest.approx(1)


# -- declared --------------------------------------------------------------------------------------------------------


def test_what_is_declared_counts_and_the_argument_before_the_stream(job):
    join = only_join(job((1,), rate=50.0))
    assert assumed(join).rates == (50.0, 50.0)
    assert assumed(join).known == "declared"
    assert assumed(join, rates={"B": 7.0}).rates == (50.0, 7.0)
    assert assumed(join, keys=200).match == 1 / 200
    assert assumed(join, keys=200, match=0.3).match == 0.3


def test_without_a_key_every_row_is_looked_at(job):
    join = only_join(job((1,), keys=0))
    assert assumed(join, keys=200, match=0.3).match == 1.0


def test_declared_selectivities_are_met(job):
    join = only_join(job((1, "v > 10", "v > 5"), (2, "v > 20"), (3, "tag in a"), (4, "v > 15 AND tag in a,b"), (5,)))
    declared = {"q1": (0.8, 0.25), "q2": (0.3, None), "q3": (0.4, None), "q4": (0.35, None), "q5": (0.2, 0.2)}
    traffic = assumed(join, selectivities=declared)
    assert traffic.known == "declared"
    assert fractions(traffic) == pytest.approx([0.8, 0.3, 0.4, 0.35, 1.0], abs=1e-6)
    assert fractions(traffic, Side.RIGHT) == pytest.approx([0.25, 1, 1, 1, 1], abs=1e-6)


def test_what_is_not_declared_follows_what_is(job):
    """Of the values that are left, the assumption says how they divide."""
    join = only_join(job((1, "v > 10"), (2, "v > 20")))
    before, after = fractions(assumed(join)), fractions(assumed(join, selectivities={"q1": (0.1, None)}))
    assert after[1] / after[0] == pytest.approx(before[1] / before[0])


@pytest.mark.parametrize(
    "declared",
    [
        {"q1": (0.2, None), "q2": (0.7, None)},
        {"q1": (0.2, None), "q3": (0.6, None)},
        {"q1": (0.0, None), "q2": (1.0, None)},
        {"q1": (-3.0, None), "q2": (7.0, None)},
    ],
    ids=["a part larger than the whole", "one predicate, two fractions", "none and all", "no fractions"],
)
def test_declarations_that_cannot_be_met_still_give_a_mix(job, declared):
    traffic = assumed(only_join(job((1, "v > 10"), (2, "v > 20"), (3, "v > 10"))), selectivities=declared)
    weights = traffic.mixes[0].weights
    assert (weights >= 0).all() and weights.sum() == pytest.approx(1)


def test_fractions_of_a_predicate_that_no_class_satisfies_change_nothing():
    weights = np.array([0.25, 0.75])
    holds = np.array([[False, True], [False, True]])
    assert fit(weights, holds, [0.5, 0.5]).tolist() == weights.tolist()


# -- measured --------------------------------------------------------------------------------------------------------


def seen(join, wants=((True, False), (True, True), (False, False)), counts=(60, 30, 10)) -> Traffic:
    return measured(
        join, 5, (np.array(wants), np.ones((1, len(join.queries)), bool)), (np.array(counts), np.array([200])), 0.2
    )


def test_counts_per_class_are_a_mix(job):
    traffic = seen(only_join(job((1, "v > 10"), (2, "v > 20"))))
    assert traffic.rates == (20, 40)
    assert fractions(traffic) == pytest.approx([0.9, 0.3])
    assert traffic.known == "measured"


def test_a_stream_of_which_nothing_came_is_no_fault(job):
    traffic = seen(join := only_join(job((1, "v > 10"), (2, "v > 20"))), counts=(0, 0, 0))
    assert traffic.rates[0] == 0
    assert all(np.isfinite(s.seconds).all() for s in survivors(join, traffic))


def test_measurements_go_before_declarations_and_hold_for_fewer_queries(job):
    spec = job((1, "v > 10"), (2, "v > 20"))
    join = only_join(spec)
    known = Knowledge(
        rates={"A": 1.0}, selectivities={"q1": (0.5, None)}, measured={signature(join.queries[0]): seen(join)}
    )
    assert fractions(traffic_of(join, known)) == pytest.approx([0.9, 0.3])
    fewer = only_join(job((1, "v > 10")))
    assert fractions(traffic_of(fewer, known)) == pytest.approx([0.9])
    assert traffic_of(fewer, known).known == "measured"


def test_a_query_added_to_a_running_join_is_assumed_beside_what_the_others_have_shown(job):
    old = only_join(job((1, "v > 10"), (2, "v > 20")))
    new = only_join(job((1, "v > 10"), (2, "v > 20"), (3, "v > 30")))
    traffic = traffic_of(new, Knowledge(measured={signature(old.queries[0]): seen(old)}))
    assert (traffic.rates, traffic.match, traffic.known) == ((20, 40), 0.2, "declared")
    assert fractions(traffic)[:2] == pytest.approx([0.9, 0.3], abs=1e-6)
    assert 0 < fractions(traffic)[2] < 0.3


# -- ages ------------------------------------------------------------------------------------------------------------


def test_rows_get_fewer_with_age_and_rows_of_the_other_side_look_less_far(job):
    join = only_join(job((1,), (2, "v > 10"), ((2, 3), "v > 20")))
    traffic = seen(join, ((True, True, True), (True, True, False), (True, False, False)), (10, 20, 70))
    left, right = survivors(join, traffic)
    assert left.windows == (1_000_000, 2_000_000)
    assert left.seconds.tolist() == [1, 2]
    assert left.kept == pytest.approx([1, 0.3])
    assert left.probing == pytest.approx([1, 1])
    assert right.kept == pytest.approx([1, 1, 1])
    assert right.probing == pytest.approx([1, 0.3, 0.1])
    assert (left.rate, left.other_rate, right.rate) == (20, 40, 40)


def test_a_window_of_rows_is_as_long_as_its_rows_take_to_come(job):
    join = only_join(job((100,), (250,), axes=(Axis.ROWS, Axis.TIME)))
    left, right = survivors(join, assumed(join, rates={"A": 50.0}))
    assert left.seconds.tolist() == [2, 5]
    assert right.seconds.tolist() == [100, 250]


def test_pull_up_keeps_and_probes_with_everything(job):
    spec = job((1,), (2, "v > 10", "v > 10"))
    traffic = assumed(only_join(spec))
    for state in survivors(only_join(spec, "pull-up"), traffic):
        assert state.kept.tolist() == state.probing.tolist() == [1, 1]


def test_the_parts_of_a_divided_stream_are_all_of_it(job):
    spec = job((1,), (2, "v > 10", "v > 5"), (3, "v > 20"))
    traffic = assumed(only_join(spec))
    joins = share(spec, "push-down").joins
    for side in Side:
        parts = {j.partitions[side].truths: float(survivors(j, traffic)[side].kept[-1]) for j in joins}
        assert sum(parts.values()) == pytest.approx(1)


def test_a_query_alone_sees_the_rows_that_it_wants(job):
    spec = job((1,), (2, "v > 10"))
    traffic = assumed(only_join(spec))
    kept = [float(survivors(j, traffic)[0].kept[0]) for j in share(spec, "isolated").joins]
    assert kept == pytest.approx(fractions(traffic))


@settings(max_examples=60, deadline=None)
@given(
    windows=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=6),
    data=st.data(),
)
def test_ages_are_those_of_the_definition(job, windows, data):
    join = only_join(job(*((w,) for w in windows)))
    mixes = []
    for _ in Side:
        wants = data.draw(st.lists(st.lists(st.booleans(), min_size=len(windows), max_size=len(windows)),
                                   min_size=1, max_size=5))  # fmt: skip
        weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(wants), max_size=len(wants))), float)
        mixes.append(Mix(np.array(wants), weights / weights.sum()))
    traffic = Traffic((10, 20), 0.5, (mixes[0], mixes[1]), "measured", join.queries)
    for side, state in zip(Side, survivors(join, traffic), strict=True):
        for n, window in enumerate(state.windows):
            large = np.array([q.window.side(side) >= window for q in join.queries])
            for got, mix in ((state.kept, mixes[side]), (state.probing, mixes[side.other])):
                wanted = (mix.wants & large).any(axis=1)
                assert got[n] == pytest.approx(mix.weights[wanted].sum())
            both = ((a * b) for wa, a in zip(*_parts(mixes[0]), strict=True)
                    for wb, b in zip(*_parts(mixes[1]), strict=True) if (wa & wb & large).any())  # fmt: skip
            assert state.wanted[n] == pytest.approx(sum(both))


def _parts(mix: Mix):
    return mix.wants, mix.weights


def test_pairs_of_too_many_classes_are_drawn_always_the_same(job):
    join = only_join(job(*((n, f"v > {n}", f"v < {n}") for n in range(1, 101))))
    traffic = assumed(join)
    assert all(len(mix.weights) > 100 for mix in traffic.mixes)
    first, second = (pairs(*traffic.mixes) for _ in range(2))
    assert first.weights.sum() == pytest.approx(1)
    assert first.fractions.tolist() == second.fractions.tolist()
    both = np.multiply(*(mix.fractions for mix in traffic.mixes))
    assert first.fractions == pytest.approx(both, abs=0.03)
