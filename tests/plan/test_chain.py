"""Chains against all other chains of the same windows, and the shapes of wang2006, figure 19."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import expm1

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.plan.chains import CPU_OPT, MEM_OPT, Edges
from muntin.plan.cost import DEFAULT, Constants
from muntin.plan.joins import Cuts
from muntin.plan.traffic import Floats, Survivors

SECOND = 1_000_000
UNIFORM = tuple(2.5 * n for n in range(1, 13))
MOSTLY_SMALL = (*range(1, 11), 20, 30)
SMALL_LARGE = (*range(1, 7), *range(25, 31))
MATCH = 0.025
"""Table 4, and the join selectivity of section 7.3."""


def cost_of(edges: Edges, cuts: Cuts) -> float:
    """What a chain costs."""
    return float(edges.length(*edges.path(cuts)).sum())


def rows_of(edges: Edges, cuts: Cuts) -> float:
    """How many rows a chain holds."""
    return float(edges.rows(*edges.path(cuts)).sum())


def cut_pays(gap_s: float, beyond_s: float, rate: float, match: float, constants: Constants) -> bool:
    """Without selections: whether a cut costs less than to route the pairs between it and the next window.

    `gap_s` is the distance to that window, `beyond_s` to the largest one, `rate` that of the stored rows.
    """
    partners = rate * match
    return constants.route_ns * partners * gap_s > constants.slice_ns * -expm1(-partners * beyond_s)


def matrix(edges: Edges) -> Floats:
    """`length` of every edge, infinite where there is none."""
    nodes = np.arange(edges.last + 1)
    forward = nodes[:, None] < nodes
    starts, ends = np.nonzero(forward)
    lengths = np.full(forward.shape, np.inf)
    lengths[starts, ends] = edges.length(starts, ends)
    return lengths


def plain(windows_s, rate=30.0, match=MATCH, other_rate=None) -> Survivors:
    """A state without selections."""
    windows = tuple(round(w * SECOND) for w in windows_s)
    ones = np.ones(len(windows))
    return Survivors(windows, np.array(windows_s, float), ones, ones, ones, rate, other_rate or rate, match)


def all_chains(windows: Cuts) -> list[Cuts]:
    """Every set of windows that has the last one."""
    *inner, last = windows
    return [(*chosen, last) for size in range(len(windows)) for chosen in combinations(inner, size)]


@st.composite
def states(draw: st.DrawFn, selections: bool = True) -> Survivors:
    gaps = draw(st.lists(st.integers(1, 40), min_size=1, max_size=9))
    windows_s = np.cumsum(gaps) / 4
    state = plain(windows_s, draw(st.sampled_from([0.5, 20.0, 1000.0])), draw(st.sampled_from([0.0001, 0.025, 1.0])),
                  draw(st.sampled_from([0.5, 20.0, 1000.0])))  # fmt: skip
    if not selections:
        return state
    shares = st.lists(st.integers(0, 100), min_size=len(gaps), max_size=len(gaps))
    kept, probing, common = (np.sort(np.array(draw(shares)))[::-1] / 100 for _ in range(3))
    return replace(state, kept=kept, probing=probing, wanted=np.minimum(np.minimum(kept, probing), common))


constants = st.builds(Constants, *[st.floats(0, 100)] * 7)


# -- optimality ------------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(state=st.one_of(states(), states(selections=False)), c=constants)
def test_cpu_opt_is_the_cheapest_of_all_chains(state, c):
    edges = Edges(state, c)
    found = cost_of(edges, CPU_OPT.cuts(edges))
    assert found == pytest.approx(min(cost_of(edges, cuts) for cuts in all_chains(state.windows)))


@settings(max_examples=80, deadline=None)
@given(state=st.one_of(states(), states(selections=False)))
def test_mem_opt_holds_the_fewest_rows_of_all_chains(state):
    """Theorem 4; without selections all chains hold the same (theorem 3)."""
    edges = Edges(state, DEFAULT)
    rows = [rows_of(edges, cuts) for cuts in all_chains(state.windows)]
    assert rows_of(edges, MEM_OPT.cuts(edges)) == pytest.approx(min(rows))
    if (state.kept == 1).all():
        assert rows == pytest.approx([state.rate * state.seconds[-1]] * len(rows))


@settings(max_examples=80, deadline=None)
@given(state=states(), data=st.data())
def test_merging_never_lowers_the_rows_nor_what_is_looked_at(state, data):
    edges = Edges(state, DEFAULT)
    cuts = data.draw(st.sampled_from(all_chains(state.windows)))
    for inner in cuts[:-1]:
        merged = tuple(c for c in cuts if c != inner)
        assert rows_of(edges, merged) >= rows_of(edges, cuts) * (1 - 1e-12)
        looked_at = [edges.comparisons(*edges.path(chain)).sum() for chain in (cuts, merged)]
        assert looked_at[1] >= looked_at[0] * (1 - 1e-12)


@settings(max_examples=50, deadline=None)
@given(state=states(), c=constants)
def test_rows_are_stored_and_taken_out_once_in_any_chain(state, c):
    edges = Edges(state, c)
    for cuts in all_chains(state.windows):
        starts, ends = edges.path(cuts)
        assert edges.removed(starts, ends).sum() == pytest.approx(state.rate * state.kept[0])
        assert edges.inserted(starts).sum() == pytest.approx(state.rate * state.kept[0])


@settings(max_examples=50, deadline=None)
@given(state=states(), c=constants)
def test_the_matrix_has_the_length_of_every_edge_and_no_other(state, c):
    edges = Edges(state, c)
    lengths = matrix(edges)
    for i in range(edges.last + 1):
        for j in range(edges.last + 1):
            assert lengths[i, j] == (pytest.approx(float(edges.length(i, j))) if i < j else np.inf)


def test_a_chain_worked_by_hand():
    """Windows of 1, 3 and 6 s; half of the rows live for 3 s, a fifth for 6; of 10 other rows a second 4 look past
    the first, and of all pairs a tenth are wanted past the second."""
    state = replace(
        plain((1, 3, 6), rate=100, match=0.5, other_rate=10),
        kept=np.array([1, 0.5, 0.2]),
        probing=np.array([1, 0.4, 0.4]),
        wanted=np.array([1, 0.3, 0.1]),
    )
    c = Constants(invalidate_ns=7, scan_ns=3, insert_ns=11, slice_ns=2, route_ns=5)
    edges = Edges(state, c)
    assert rows_of(edges, state.windows) == pytest.approx(100 + 100 + 60)
    cuts = state.windows[0], state.windows[2]
    assert rows_of(edges, cuts) == pytest.approx(100 + 50 * 5)
    scanned = 100 * 10 * 0.5 * (1 + 0.5 * (0.4 * 2 + 0.4 * 3))
    routed = 100 * 10 * 0.5 * 0.1 * 3
    beyond = 100 * 0.5 * (0.5 * 2 + 0.2 * 3)
    stepped = 10 * 0.4 * -np.expm1(-beyond)
    expected = 3 * scanned + 5 * routed + 2 * stepped + 7 * 100 + 11 * 100
    assert cost_of(edges, cuts) == pytest.approx(expected)


def test_equal_costs_leave_the_slices_short():
    free = Constants(1, 1, 1)
    assert CPU_OPT.cuts(Edges(plain(UNIFORM), free)) == plain(UNIFORM).windows


# -- table 4 and figure 19 -------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(state=states(selections=False))
def test_without_selections_a_cut_is_where_it_pays_by_itself(state):
    gaps, end = np.diff(state.seconds), state.seconds[-1]
    places = zip(state.windows, state.seconds, gaps, strict=False)
    expected = [w for w, s, gap in places if cut_pays(gap, end - s, state.rate, state.match, DEFAULT)]
    edges = Edges(state, DEFAULT)
    assert cost_of(edges, (*expected, state.windows[-1])) == pytest.approx(cost_of(edges, CPU_OPT.cuts(edges)))


def shapes(rate: float, c: Constants = DEFAULT) -> list[list[float]]:
    """Ends of the slices in seconds, for the three distributions of table 4."""
    return [
        [cut / SECOND for cut in CPU_OPT.cuts(Edges(plain(windows, rate), c))]
        for windows in (UNIFORM, MOSTLY_SMALL, SMALL_LARGE)
    ]


FIGURE_19 = [list(UNIFORM), [10, 20, 30], [6, 30]]
RATES = np.geomspace(1, 10_000, 200)


def test_figure_19_uniform_is_mem_opt_small_windows_are_merged_and_skewed_ones_are_two_slices():
    """With the measured constants, over one range of rates: a step over a cut costs several times what it costs to
    place a pair, so there must be more pairs than at the 20 to 80 rows a second of section 7.3."""
    alike = [n for n, rate in enumerate(RATES) if shapes(rate) == FIGURE_19]
    assert alike == list(range(alike[0], alike[-1] + 1))
    assert 100 < RATES[alike[0]] < RATES[alike[-1]] < 500


def test_where_a_step_costs_three_times_a_placement_the_shapes_are_met_at_the_papers_rates():
    """Section 7.3 has 20 to 80 rows a second."""
    papers = replace(DEFAULT, slice_ns=3 * DEFAULT.route_ns)
    assert shapes(60, papers) == FIGURE_19


def test_where_a_step_is_cheap_no_chain_has_two_slices_for_skewed_windows():
    """The last two windows are merged only if a step costs more than to place a pair, at any rate."""
    even = replace(DEFAULT, slice_ns=DEFAULT.route_ns)
    for rate in np.geomspace(0.1, 1000, 40):
        chain = CPU_OPT.cuts(Edges(plain(SMALL_LARGE, rate), even))
        assert 29 * SECOND in chain


def test_where_placing_a_pair_is_free_no_cut_pays():
    free = replace(DEFAULT, route_ns=0)
    assert not cut_pays(1, 1, 20, MATCH, free)
    assert len(CPU_OPT.cuts(Edges(plain(UNIFORM), free))) == 1


def test_slow_streams_merge_all_and_fast_ones_nothing():
    assert [len(cuts) for cuts in shapes(0.01)] == [1, 1, 1]
    assert [len(cuts) for cuts in shapes(10_000)] == [12, 12, 12]


# -- size ------------------------------------------------------------------------------------------------------------


class CountingEdges(Edges):
    looked_up = 0

    def length(self, i, j):
        found = super().length(i, j)
        self.looked_up += np.size(found)
        return found


def test_the_work_grows_with_the_square_of_the_windows_and_not_faster():
    n = 1500
    state = replace(plain(np.arange(1, n + 1)), kept=np.linspace(1, 0.01, n), probing=np.linspace(1, 0.5, n))
    edges = CountingEdges(state, DEFAULT)
    chain = CPU_OPT.cuts(edges)
    assert edges.looked_up == n * (n + 1) / 2
    assert chain[-1] == state.windows[-1]
    assert cost_of(edges, chain) <= min(cost_of(edges, state.windows), cost_of(edges, state.windows[-1:]))
