"""The oracle against cases worked by hand: the judge has to be judged by a reader."""

from __future__ import annotations

import math
from pathlib import Path

from muntin import oracle
from muntin.model import Window
from muntin.oracle import admit, answer, columns, in_window, same_key

KEY = (columns("k"), columns("k"))


def row(ts, k=1, **more):
    return {"ts": ts, "k": k, **more}


def times(pairs):
    return [(p.left["ts"], p.right["ts"], p.ts) for p in pairs]


def test_the_oracle_stays_under_a_hundred_lines():
    assert len(Path(oracle.__file__).read_text().splitlines()) < 100


def test_a_row_exactly_one_window_older_is_out():
    assert in_window(Window(10, 10), 0, 9)
    assert not in_window(Window(10, 10), 0, 10)
    assert in_window(Window(10, 10), 9, 0)
    assert not in_window(Window(10, 10), 10, 0)


def test_the_earlier_row_is_measured_by_the_window_of_its_own_stream():
    left_long = Window(left=10, right=2)
    assert in_window(left_long, 0, 9), "left waits up to its 10"
    assert not in_window(left_long, 9, 0), "right waits only its 2"
    assert in_window(left_long, 1, 0)


def test_rows_of_the_same_instant_meet_in_the_smallest_window_of_either_side():
    assert in_window(Window(1, 1), 5, 5)
    assert not in_window(Window(1, 1), 5, 6)


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
