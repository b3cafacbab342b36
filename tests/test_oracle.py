"""The oracle against cases worked by hand: the judge has to be judged by a reader."""

from __future__ import annotations

import math
from pathlib import Path

from muntin import oracle
from muntin.model import Axis, Window
from muntin.oracle import admit, answer, columns, same_key

KEY = (columns("k"), columns("k"))


def row(ts, k=1, **more):
    return {"ts": ts, "k": k, **more}


def times(pairs):
    return [(p.left["ts"], p.right["ts"], p.ts) for p in pairs]


def test_the_oracle_stays_short():
    pages = list(Path(oracle.__file__).parent.glob("*.py"))
    assert len(pages) == 4
    assert [page.name for page in pages if len(page.read_text().splitlines()) >= 140] == []


def meets(window, left_us, right_us):
    return len(answer(window, [row(left_us)], [row(right_us)], KEY)) == 1


def test_a_row_exactly_one_window_older_is_out():
    assert meets(Window(10, 10), 0, 9)
    assert not meets(Window(10, 10), 0, 10)
    assert meets(Window(10, 10), 9, 0)
    assert not meets(Window(10, 10), 10, 0)


def test_the_earlier_row_is_measured_by_the_window_of_its_own_stream():
    left_long = Window(left=10, right=2)
    assert meets(left_long, 0, 9), "left waits up to its 10"
    assert not meets(left_long, 9, 0), "right waits only its 2"
    assert meets(left_long, 1, 0)


def test_rows_of_the_same_instant_meet_in_the_smallest_window_of_either_side():
    assert meets(Window(1, 1), 5, 5)
    assert not meets(Window(1, 1), 5, 6)


def test_a_worked_join_gives_pairs_in_order_of_the_later_row():
    lefts = [row(0), row(4), row(5, k=2)]
    rights = [row(1), row(4), row(7)]
    assert times(answer(Window(4, 4), lefts, rights, KEY)) == [(0, 1, 1), (4, 1, 4), (4, 4, 4), (4, 7, 7)]


def test_duplicates_are_a_multiset():
    assert len(answer(Window(5, 5), [row(0), row(0)], [row(1), row(1)], KEY)) == 4


def test_a_null_key_matches_nobody_not_even_another_null():
    assert not same_key((None,), (None,))
    assert not same_key((1, None), (1, None))
    assert answer(Window(5, 5), [row(0, k=None)], [row(0, k=None)], KEY) == []


def test_nan_equals_nan_and_the_zeros_are_one_key():
    assert same_key((math.nan,), (float("nan"),))
    assert not same_key((math.nan,), (1.0,))
    assert same_key((-0.0,), (0.0,))


def test_every_part_of_a_key_has_to_agree():
    assert same_key(("x", 1), ("x", 1))
    assert not same_key(("x", 1), ("x", 2))


def test_a_selection_that_is_unknown_keeps_nothing():
    rows = [row(0, v=5), row(0, v=None), row(0, v=50)]

    def hot(r):
        return None if r["v"] is None else r["v"] > 30

    assert [p.left["v"] for p in answer(Window(1, 1), rows, [row(0)], KEY, (hot, None))] == [50]


def test_rows_of_one_micro_batch_are_never_late_for_each_other():
    accepted, letters = admit([[row(9), row(1), row(5)]])
    assert [r["ts"] for r in accepted] == [9, 1, 5]
    assert letters == []


def test_the_frontier_moves_between_micro_batches_and_turns_older_rows_away():
    accepted, letters = admit([[row(10)], [row(9), row(10), row(11)]])
    assert [r["ts"] for r in accepted] == [10, 10, 11]
    assert [(d.row["ts"], d.reason, d.frontier_us) for d in letters] == [(9, "late", 10)]


def test_lateness_lets_rows_in_up_to_and_including_the_bound():
    accepted, letters = admit([[row(10)], [row(7), row(6)]], lateness_us=3)
    assert [r["ts"] for r in accepted] == [10, 7]
    assert [d.row["ts"] for d in letters] == [6]


def test_the_frontier_never_moves_back():
    _, letters = admit([[row(10)], [row(2)], [row(5)]])
    assert [d.row["ts"] for d in letters] == [2, 5]


def test_disorder_within_the_bound_loses_nothing_however_it_is_cut():
    stream = [row(t) for t in (3, 0, 5, 2, 4, 7, 6, 9, 8)]
    for cut in range(len(stream) + 1):
        for second in range(cut, len(stream) + 1):
            accepted, letters = admit([stream[:cut], stream[cut:second], stream[second:]], lateness_us=3)
            assert len(accepted) == len(stream)
            assert letters == []


def test_a_null_time_is_a_dead_letter_and_does_not_move_the_frontier():
    accepted, letters = admit([[row(5), row(None)], [], [row(5)]])
    assert [r["ts"] for r in accepted] == [5, 5]
    assert [(d.row["ts"], d.reason, d.frontier_us) for d in letters] == [(None, "null_time", None)]


def test_each_stream_has_its_own_time_column():
    pairs = answer(Window(5, 5), [{"at": 1, "k": 1}], [{"seen": 3, "k": 1}], KEY, times=("at", "seen"))
    assert [p.ts for p in pairs] == [3]


# Rows of count windows carry a name, so that a case reads as a story: `a1` is the first row of the left stream.

ROWS = (Axis.ROWS, Axis.ROWS)


def named(prefix, *times_us, **more):
    return [row(ts, name=f"{prefix}{n}", **more) for n, ts in enumerate(times_us, 1)]


def names(pairs):
    return [p.left["name"] + p.right["name"] for p in pairs]


def test_a_count_window_is_the_last_n_rows_of_the_stream_however_old():
    lefts, rights = named("a", 0, 10, 5000), named("b", 11, 6000)
    # b1 finds a1, a2; when a3 comes only b1 is there; b2 finds the last two of a1, a2, a3.
    assert names(answer(Window(2, 2, ROWS), lefts, rights, KEY)) == ["a1b1", "a2b1", "a3b1", "a2b2", "a3b2"]


def test_a_count_window_of_one_row_holds_the_newest_row_only():
    lefts, rights = named("a", 0, 1), named("b", 2, 3)
    assert names(answer(Window(1, 1, ROWS), lefts, rights, KEY)) == ["a2b1", "a2b2"]


def test_a_count_window_counts_rows_of_other_keys_and_of_null_keys():
    lefts = [row(0, name="a1"), row(1, k=2, name="a2"), row(2, k=None, name="a3")]
    rights = named("b", 3)
    assert names(answer(Window(2, 2, ROWS), lefts, rights, KEY)) == [], "a2 and a3 have pushed a1 out"
    assert names(answer(Window(3, 2, ROWS), lefts, rights, KEY)) == ["a1b1"]


def test_a_count_window_counts_rows_that_fail_the_selections():
    lefts = [row(0, name="a1", v=9), row(1, name="a2", v=0)]
    big = (lambda r: r["v"] > 5, None)
    assert names(answer(Window(1, 1, ROWS), lefts, named("b", 2), KEY, big)) == []
    assert names(answer(Window(2, 1, ROWS), lefts, named("b", 2), KEY, big)) == ["a1b1"]


def test_a_count_window_goes_by_event_time_and_not_by_arrival():
    lefts = [row(5, name="late"), row(1, name="early")]
    assert names(answer(Window(1, 1, ROWS), lefts, named("b", 6), KEY)) == ["lateb1"]
    assert names(answer(Window(1, 1, ROWS), lefts, named("b", 3), KEY)) == ["earlyb1", "lateb1"]


def test_ties_in_a_count_window_go_left_first_and_then_by_arrival():
    # All at one instant, so the order is a1, a2, b1, b2: b1 and b2 see the left rows, no left row sees a right one.
    lefts, rights = named("a", 7, 7), named("b", 7, 7)
    assert names(answer(Window(1, 5, ROWS), lefts, rights, KEY)) == ["a2b1", "a2b2"]
    assert names(answer(Window(2, 5, ROWS), lefts, rights, KEY)) == ["a1b1", "a2b1", "a1b2", "a2b2"]


def test_a_window_in_time_beside_one_in_rows():
    lefts, rights = named("a", 0, 4, 8), named("b", 5, 9)
    # Left waits 5 us: b1 (5) finds a2 (4), not a1 (age 5); b2 (9) finds a3 (8), not a2 (age 5).
    # Right keeps one row: a3 (8) finds b1.
    assert names(answer(Window(5, 1, (Axis.TIME, Axis.ROWS)), lefts, rights, KEY)) == ["a2b1", "a3b1", "a3b2"]
    # Left keeps one row: b1 finds a2, b2 finds a3. Right waits 3 us: a3 (8) no longer finds b1 (age 3).
    assert names(answer(Window(1, 3, (Axis.ROWS, Axis.TIME)), lefts, rights, KEY)) == ["a2b1", "a3b2"]


def test_a_tie_of_mixed_axes_is_measured_by_the_left_window_since_left_comes_first():
    lefts, rights = named("a", 7, 7), named("b", 7)
    assert names(answer(Window(1, 100, (Axis.ROWS, Axis.TIME)), lefts, rights, KEY)) == ["a2b1"]
    assert names(answer(Window(1, 1, (Axis.TIME, Axis.ROWS)), lefts, rights, KEY)) == ["a1b1", "a2b1"]


def test_a_condition_over_both_rows_is_checked_on_each_pair_and_unknown_is_no():
    lefts = [row(0, v=1), row(0, v=None), row(0, v=9)]
    rights = [row(1, v=5)]

    def less(a, b):
        return None if a["v"] is None or b["v"] is None else a["v"] < b["v"]

    assert [p.left["v"] for p in answer(Window(5, 5), lefts, rights, KEY, holds=less)] == [1]


def test_without_an_equality_every_pair_in_the_window_is_asked():
    lefts, rights = named("a", 0, 1, k=None), named("b", 2, 3, k=2)
    pairs = answer(Window(3, 3), lefts, rights, None, holds=lambda a, b: b["ts"] - a["ts"] != 1)
    assert names(pairs) == ["a1b1", "a2b2"], "a1 with b2 is out of the window, a2 with b1 fails the condition"
