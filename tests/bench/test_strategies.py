"""kostowski's figures 7 and 8 in order and shape, from counters: what each invalidation strategy costs and keeps."""

from __future__ import annotations

import pytest

from muntin.bench.core import Streams, even_keys, join_in_batches, join_in_duckdb, zipf_keys, zipf_window_us
from muntin.plan.invalidations import INVALIDATIONS
from muntin.testing.stale_rows import invalidation


@pytest.fixture(scope="module")
def figures():
    return {name: invalidation(name, rounds=1) for name in INVALIDATIONS.names}


def test_figure_7_the_two_lazy_strategies_cost_a_small_part_of_the_two_greedy_ones(figures):
    checks = {name: f["stale_checks"] for name, f in figures.items()}
    assert checks["probe"] < checks["probe-insert"] < 2 * checks["probe"]
    assert min(checks["probe-all"], checks["all"]) > 10 * checks["probe-insert"]
    assert checks["all"] > 1.8 * checks["probe-all"], "both sides instead of one"


def test_figure_8_only_probe_time_invalidation_piles_up_stale_rows(figures):
    window = figures["all"]["rows_in_window"]
    kept = {name: f["rows_kept"] / window for name, f in figures.items()}
    assert kept["probe"] > 1.3
    for name in ("probe-insert", "probe-all", "all"):
        assert kept[name] < 1.1, name


@pytest.mark.parametrize(("keys", "window_us"), [(even_keys, 100_000_000), (zipf_keys, zipf_window_us())])
def test_the_bench_and_duckdb_find_the_same_pairs(keys, window_us):
    streams = Streams(20_000, keys)
    ours = join_in_batches(streams, [window_us // 2, window_us])
    assert ours["pairs"] == join_in_duckdb(streams, window_us)["pairs"] > 0


def test_the_index_takes_at_most_twice_what_its_live_rows_need():
    """A row needs 16 bytes in its buffer and 12 in the time list, a key a cache line and two places in the table."""
    result = join_in_batches(Streams(100_000, even_keys), [60_000_000])
    assert result["live_rows"] > 100_000
    assert result["index_bytes"] < 2 * (28 * result["live_rows"] + 80 * 50_000)
