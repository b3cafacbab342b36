"""The oracle against cases worked by hand: the judge has to be judged by a reader."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from muntin import oracle
from muntin.model import Axis, JoinKind, Side, Window
from muntin.oracle import admit, answer, columns, delivered, same_key

KEY = (columns("k"), columns("k"))


def row(ts, k=1, **more):
    return {"ts": ts, "k": k, **more}


def times(pairs):
    return [(p.left["ts"], p.right["ts"], p.ts) for p in pairs]


def test_the_oracle_stays_short():
    pages = list(Path(oracle.__file__).parent.glob("*.py"))
    assert len(pages) == 7
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


def meets_until(a, b, untils):
    """Whether rows (time, time of its own) meet where both wait for ten."""
    by = tuple((lambda r: r["x"]) if used else None for used in untils)
    return len(answer(Window(10, 10), [row(a[0], x=a[1])], [row(b[0], x=b[1])], KEY, untils=by)) == 1


def test_a_row_waits_until_a_time_of_its_own_and_at_most_for_its_window():
    only_left = (True, False)
    assert meets_until((0, 5), (4, None), only_left)
    assert not meets_until((0, 5), (5, None), only_left), "what comes at that time comes too late"
    assert meets_until((0, 50), (9, None), only_left)
    assert not meets_until((0, 50), (10, None), only_left)
    assert meets_until((0, None), (9, None), only_left), "NULL: the row waits for its window"
    assert meets_until((9, 0), (0, None), only_left), "the time of the later row does not matter"
    assert not meets_until((9, 0), (0, 5), (False, True))


def test_rows_of_one_time_meet_if_either_of_them_waits():
    assert meets_until((5, 2), (5, 2), (True, False))
    assert meets_until((5, 2), (5, 2), (False, True))
    assert meets_until((5, 2), (5, 6), (True, True))
    assert meets_until((5, None), (5, 2), (True, True))
    assert not meets_until((5, 5), (5, 2), (True, True))


def test_a_row_without_a_match_goes_out_at_its_own_end():
    lefts = [row(0, x=x) for x in (-3, 0, 1, 7, 50, None)]
    alone = delivered(Window(10, 10), [], (lefts, []), preserved=[Side.LEFT], untils=(lambda r: r["x"], None))
    assert [(p.left["x"], p.ts) for p in alone] == [(-3, 1), (0, 1), (1, 1), (7, 7), (50, 10), (None, 10)]


def test_a_pair_is_live_until_the_first_of_its_ends():
    lefts, rights = [row(0, x=4)], [row(1, x=50), row(2, x=3)]
    untils = (lambda r: r["x"], lambda r: r["x"])
    pairs = answer(Window(10, 10), lefts, rights, KEY, untils=untils)
    changes = oracle.aggregate(Window(10, 10), pairs, lambda p: 1, len, untils=untils)
    assert [(t, count) for t, _, count in changes] == [(1, 1), (2, 2), (3, 1), (4, 0)]


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


# Bands: ages that begin later than 0. With d = right.ts - left.ts a query allows the differences from x to y.


def band(x, y):
    return Window(max(0, y + 1), max(0, -x + 1), starts=(max(0, x), max(0, -y)))


@pytest.mark.parametrize("x", range(-4, 5))
@pytest.mark.parametrize("y", range(-4, 5))
def test_a_band_of_differences_meets_these_and_no_others(x, y):
    met = [d for d in range(-6, 7) if meets(band(x, y), 10, 10 + d)]
    assert met == list(range(x, y + 1))


def test_a_window_is_a_band_around_zero():
    assert band(-9, 9) == Window(10, 10)


# What goes out: each case says which rows, by name, with which output timestamp; `-` is a row that there is not.


def out(window, lefts, rights, keeps=(None, None), holds=None, **how):
    matches = answer(window, lefts, rights, KEY, keeps, holds=holds)
    found = delivered(window, matches, (lefts, rights), keeps=keeps, **how)
    return [(p.left["name"] or "-", p.right["name"] or "-", p.ts) for p in found]


LEFT, RIGHT = Side
FULL = (LEFT, RIGHT)


def test_a_row_without_a_match_goes_out_once_when_its_window_is_over():
    lefts, rights = named("a", 0, 3, 30), named("b", 2, 12)
    assert out(Window(10, 5), lefts, rights, preserved=[LEFT]) == [
        ("a1", "b1", 2), ("a2", "b1", 3), ("a2", "b2", 12), ("a3", "-", 40),
    ]  # fmt: skip
    assert out(Window(2, 5), lefts, rights, preserved=[RIGHT]) == [("a2", "b1", 3), ("-", "b2", 17)]
    assert out(Window(2, 5), lefts, rights, preserved=FULL) == [
        ("a1", "-", 2), ("a2", "b1", 3), ("-", "b2", 17), ("a3", "-", 32),
    ]  # fmt: skip


def test_a_row_whose_partners_could_only_be_earlier_goes_out_at_its_own_time():
    assert out(band(-5, -2), named("a", 10), [], preserved=[LEFT]) == [("a1", "-", 10)]
    assert out(band(-5, 0), named("a", 10), [], preserved=[LEFT]) == [("a1", "-", 11)]
    assert out(band(2, 5), named("a", 10), [], preserved=[LEFT]) == [("a1", "-", 16)]
    assert out(band(2, 5), [], named("b", 10), preserved=[RIGHT]) == [("-", "b1", 10)]


def test_a_null_key_matches_nothing_so_its_row_goes_out():
    assert out(Window(2, 2), named("a", 0, k=None), named("b", 0, k=None), preserved=FULL) == [
        ("a1", "-", 2), ("-", "b1", 2),
    ]  # fmt: skip


def test_selections_say_which_rows_count_and_conditions_what_is_a_match():
    lefts, rights = named("a", 0, v=1) + named("x", 0, v=9), named("b", 1, v=5)
    small = (lambda r: r["v"] < 5, None)
    assert out(Window(3, 3), lefts, rights, keeps=small, preserved=[LEFT]) == [("a1", "b1", 1)]
    assert out(Window(3, 3), lefts, rights, preserved=[LEFT], holds=lambda a, b: a["v"] < 5) == [
        ("a1", "b1", 1), ("x1", "-", 3),
    ]  # fmt: skip


def test_what_is_asked_afterwards_sees_nulls_and_takes_no_row_back():
    lefts, rights = named("a", 0, 1), named("b", 0, v=7)
    how = {"preserved": [LEFT], "window": Window(1, 1), "lefts": lefts, "rights": rights}
    assert out(**how) == [("a1", "b1", 0), ("a2", "-", 2)]
    assert out(**how, after=lambda a, b: b["v"] is None) == [("a2", "-", 2)]
    assert out(**how, after=lambda a, b: None if b["v"] is None else b["v"] > 5) == [("a1", "b1", 0)]
    assert out(**how, after=lambda a, b: None if b["v"] is None else b["v"] > 9) == []


def test_a_semi_join_has_each_row_once_at_its_first_match():
    lefts, rights = named("a", 0, 6, 30), named("b", 5, 5, 7)
    assert out(Window(10, 10), lefts, rights, kind=JoinKind.SEMI, subject=LEFT) == [("a1", "-", 5), ("a2", "-", 6)]
    assert out(Window(10, 10), lefts, rights, kind=JoinKind.SEMI, subject=RIGHT) == [
        ("-", "b1", 5), ("-", "b2", 5), ("-", "b3", 7),
    ]  # fmt: skip


def test_an_anti_join_has_the_rows_without_a_match_alone():
    lefts, rights = named("a", 0, 6, 30), named("b", 5)
    assert out(Window(10, 10), lefts, rights, kind=JoinKind.ANTI, subject=LEFT, preserved=[LEFT]) == [("a3", "-", 40)]


def test_an_as_of_join_takes_the_latest_row_that_is_not_later():
    lefts, rights = named("a", 5, 9, 30), named("b", 1, 4, 8, 10)
    how = {"kind": JoinKind.ASOF, "subject": LEFT}
    assert out(band(-9, 0), lefts, rights, **how) == [("a1", "b2", 5), ("a2", "b3", 9)]
    assert out(band(-9, 0), lefts, rights, **how, preserved=[LEFT]) == [
        ("a1", "b2", 5), ("a2", "b3", 9), ("a3", "-", 30),
    ]  # fmt: skip
    assert out(band(0, 9), rights, lefts, kind=JoinKind.ASOF, subject=RIGHT) == [("b2", "a1", 5), ("b3", "a2", 9)]


def test_an_as_of_join_takes_of_equal_times_the_last_to_arrive():
    lefts = named("a", 5)
    rights = [row(5, name="first"), row(5, name="last"), row(4, name="older")]
    assert out(band(-9, 0), lefts, rights, kind=JoinKind.ASOF, subject=LEFT) == [("a1", "last", 5)]
    assert out(band(-9, -1), lefts, rights, kind=JoinKind.ASOF, subject=LEFT) == [("a1", "older", 5)]
    assert out(band(0, 9), rights, lefts, kind=JoinKind.ASOF, subject=RIGHT) == [("last", "a1", 5)]


def test_equal_rows_are_told_apart():
    lefts = [row(0, name="a"), row(0, name="a")]
    assert out(Window(1, 1), lefts, [], preserved=[LEFT]) == [("a", "-", 1), ("a", "-", 1)]
    assert out(Window(1, 1), lefts, named("b", 0, 0), kind=JoinKind.SEMI, subject=LEFT) == [("a", "-", 0)] * 2


# The same in plain SQL: an independent judge over random rows.

MATCH = "l.k = r.k AND r.ts - l.ts BETWEEN :x AND :y AND l.v + r.v <> 4"
TS = """CASE WHEN r.id IS NULL THEN greatest(l.ts, l.ts + :y + 1)
             WHEN l.id IS NULL THEN greatest(r.ts, r.ts - :x + 1) ELSE greatest(l.ts, r.ts) END"""
AS_OF = f"SELECT l.id, (SELECT r.id FROM r WHERE {MATCH} ORDER BY r.ts DESC, r.id DESC LIMIT 1) AS found, l.ts FROM l"
ABOUT_LEFT = {"subject": LEFT, "preserved": [LEFT]}
SQL = {
    "left": (f"SELECT l.id, r.id, {TS} FROM l LEFT JOIN r ON {MATCH}", {"preserved": [LEFT]}),
    "right": (f"SELECT l.id, r.id, {TS} FROM l RIGHT JOIN r ON {MATCH}", {"preserved": [RIGHT]}),
    "full": (f"SELECT l.id, r.id, {TS} FROM l FULL JOIN r ON {MATCH}", {"preserved": FULL}),
    "after": (
        f"SELECT l.id, r.id, {TS} FROM l LEFT JOIN r ON {MATCH} WHERE r.v IS NULL OR r.v = 0",
        {"preserved": [LEFT], "after": lambda a, b: b["v"] is None or b["v"] == 0},
    ),
    "anti": (
        f"SELECT l.id, NULL, greatest(l.ts, l.ts + :y + 1) FROM l WHERE NOT EXISTS (FROM r WHERE {MATCH})",
        {"kind": JoinKind.ANTI, **ABOUT_LEFT},
    ),
    "semi": (
        f"SELECT l.id, NULL, min(greatest(l.ts, r.ts)) FROM l, r WHERE {MATCH} GROUP BY l.id",
        {"kind": JoinKind.SEMI, "subject": LEFT},
    ),
    "as-of": (f"FROM ({AS_OF}) WHERE found IS NOT NULL", {"kind": JoinKind.ASOF, "subject": LEFT}),
    "as-of left": (AS_OF, {"kind": JoinKind.ASOF, **ABOUT_LEFT}),
}


def value(cell):
    return "NULL" if cell is None else str(cell)


@pytest.mark.parametrize("name", SQL)
def test_the_oracle_and_plain_sql_agree_on_random_rows(name):
    sql, how = SQL[name]
    base, wanted = duckdb.connect(), 0
    base.execute("SET threads = 1")
    for seed in range(40):
        dice = random.Random(f"{name} {seed}")
        rows = [[row(dice.randint(0, 12), dice.choice([1, 1, 2, None]), id=n, v=dice.choice([0, 1, 2, 3, None]))
                 for n in range(dice.randint(3, 15))] for _ in Side]  # fmt: skip
        y = 0 if name.startswith("as-of") else dice.randint(-3, 6)
        x = y - dice.randint(0, 9)
        for table, given in zip("lr", rows, strict=True):
            values = ", ".join(f"({', '.join(map(value, r.values()))})" for r in given)
            base.execute(f"CREATE OR REPLACE TABLE {table} AS FROM (VALUES {values}) t(ts, k, id, v) WHERE v <> 3")
        keeps = (lambda r: r["v"] not in (None, 3),) * 2
        matches = answer(band(x, y), *rows, KEY, keeps, holds=lambda a, b: a["v"] + b["v"] != 4)
        got = delivered(band(x, y), matches, tuple(rows), keeps=keeps, **how)
        want = Counter(base.execute(sql.replace(":x", f"({x})").replace(":y", f"({y})")).fetchall())
        assert Counter((p.left["id"], p.right["id"], p.ts) for p in got) == want, seed
        assert [p.ts for p in got] == sorted(p.ts for p in got)
        wanted += len(want)
    assert wanted >= 40
