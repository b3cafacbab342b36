"""The bench of the join alone: that it finds what DuckDB finds, and what its index takes."""

from __future__ import annotations

import pytest

from muntin.bench.core import Streams, even_keys, join_in_batches, join_in_duckdb, zipf_keys, zipf_window_us


@pytest.mark.slow
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
