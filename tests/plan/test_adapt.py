"""Migrations need a lasting, sizeable prediction, and are undone where they do not pay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muntin.plan import share
from muntin.plan.adapt import PATIENCE, REST, TRIAL, Adaptation, cuts_of, with_cuts
from muntin.sql import parse_job

SPEC = parse_job(
    "CREATE STREAM A (ts TIMESTAMP, k INT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'a');"
    "CREATE STREAM B (ts TIMESTAMP, k INT) TIMESTAMP BY ts WITH (format = 'parquet', path = 'b');"
    + "".join(f"CREATE QUERY q{w} AS SELECT A.k FROM A, B WHERE A.k = B.k WINDOW {w} s;" for w in (1, 2, 9))
)
NOW = share(SPEC)
BETTER = with_cuts(NOW, {0: ((9_000_000,), (9_000_000,))}, "cpu-opt")


def warmed(cost: float = 100.0) -> Adaptation:
    adaptation = Adaptation()
    for _ in range(TRIAL):
        adaptation.note(cost)
    return adaptation


def migrated() -> Adaptation:
    adaptation = warmed()
    moves = [adaptation.look(NOW, BETTER, 0.3) for _ in range(PATIENCE)]
    assert moves[:-1] == [None] * (PATIENCE - 1)
    assert moves[-1] is not None and moves[-1].kind == "migrated" and moves[-1].plan == BETTER
    return adaptation


def test_a_gain_must_last_before_the_job_migrates():
    migrated()


@pytest.mark.parametrize("gain", [0.0, 0.09])
def test_a_small_gain_is_not_worth_it(gain):
    adaptation = warmed()
    assert [adaptation.look(NOW, BETTER, gain) for _ in range(10)] == [None] * 10


def test_a_gain_that_comes_and_goes_is_not_followed():
    adaptation = warmed()
    assert [adaptation.look(NOW, BETTER, g) for g in (0.3, 0.3, 0.0) * 4] == [None] * 12


def test_the_same_cuts_are_no_migration():
    adaptation = warmed()
    assert [adaptation.look(NOW, NOW, 0.5) for _ in range(10)] == [None] * 10


def test_without_micro_batches_to_compare_with_nothing_is_tried():
    assert [Adaptation().look(NOW, BETTER, 0.3) for _ in range(10)] == [None] * 10


def test_a_migration_that_pays_stays():
    adaptation = migrated()
    for _ in range(TRIAL):
        adaptation.note(80.0)
        assert adaptation.look(BETTER, BETTER, 0.0) is None


def test_a_migration_that_does_not_pay_is_undone_and_nothing_is_tried_for_a_while():
    adaptation = migrated()
    for _ in range(3):
        adaptation.note(500.0)
        assert adaptation.look(NOW, BETTER, 0.3) is None, "it is not in force yet: these costs do not count"
    moves = []
    for _ in range(TRIAL):
        adaptation.note(110.0)
        moves.append(adaptation.look(BETTER, BETTER, 0.0))
    (undone,) = [move for move in moves if move is not None]
    assert undone.kind == "undone" and undone.gain == pytest.approx(-0.1)
    assert cuts_of(undone.plan) == cuts_of(NOW) and undone.plan.chain == NOW.chain
    for _ in range(REST):
        adaptation.note(100.0)
        assert adaptation.look(NOW, BETTER, 0.3) is None
    assert any(adaptation.look(NOW, BETTER, 0.3) for _ in range(PATIENCE))


def test_other_queries_end_the_trial():
    adaptation = migrated()
    fewer = replace(BETTER, joins=(replace(BETTER.joins[0], queries=BETTER.joins[0].queries[1:]),))
    assert adaptation.look(fewer, fewer, 0.0) is None
    for _ in range(TRIAL):
        adaptation.note(900.0)
        assert adaptation.look(fewer, fewer, 0.0) is None
