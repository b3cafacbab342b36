"""Streams with punctuations keep what they promise, and have the proportions that they say."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from muntin.generate import Punctuated, generate
from muntin.generate.punctuated import punctuated_streams
from muntin.model import UsageError

BROKEN = "SELECT count(*) FROM t d JOIN t p ON d.k = p.k AND p.closed AND NOT d.closed AND d.ts > p.ts"


def count(sql: str, **tables: pa.Table) -> int:
    with duckdb.connect() as base:
        for name, table in tables.items():
            base.register(name, table)
        return base.execute(sql).fetchall()[0][0]


def test_nexmark_has_its_proportions_and_no_bid_outside_the_life_of_its_auction(tmp_path):
    made = generate("nexmark", tmp_path / "n", rate=200, duration_s=100, auction_s=10, seed=3)
    again = generate("nexmark", tmp_path / "again", rate=200, duration_s=100, auction_s=10, seed=3)
    for name, folder in made.streams.items():
        files = sorted(folder.glob("*.parquet"))
        assert [f.read_bytes() for f in files] == [(again.streams[name] / f.name).read_bytes() for f in files]
    auction, bid = (f"read_parquet('{made.streams[name]}/*.parquet')" for name in ("Auction", "Bid"))
    bids = count(f"SELECT count(*) FROM {bid} WHERE NOT closed")
    assert made.rows["Auction"] == pytest.approx(3 * made.rows["Person"], abs=3)
    assert bids == pytest.approx(46 * made.rows["Person"], rel=0.01)
    assert count(
        f"SELECT count(*) FROM {auction} a JOIN {bid} b ON a.id = b.auction "
        "WHERE NOT closed AND b.ts >= a.ts AND b.ts < a.expires"
    ) == bids, "every bid is on an auction that is open"  # fmt: skip
    ended = f"SELECT count(*) FROM {auction} WHERE expires < (SELECT max(ts) FROM {bid})"
    assert count(f"SELECT count(*) FROM {bid} b JOIN {auction} a ON a.id = b.auction AND a.expires = b.ts "
                 "WHERE closed") >= count(ended) > 0, "an auction that ends is closed at its end"  # fmt: skip
    top = f"SELECT max(n) / avg(n) FROM (SELECT count(*) n FROM {bid} GROUP BY auction)"
    assert count(top) > 4, "some items are hot"


@pytest.mark.parametrize("pattern", ["punct-asc-100-40", "punct-desc-30-40", "punct-random-30-40", "cluster-asc-25"])
def test_no_row_comes_after_its_punctuation(pattern):
    table = punctuated_streams(Punctuated(a=pattern, duration_s=120))["A"]
    assert count(BROKEN, t=table) == 0
    closing = count("SELECT count(*) FROM t WHERE closed", t=table)
    size = int(pattern.split("-")[2])
    assert table.num_rows / closing == pytest.approx(size, rel=0.2)
    matches = count("SELECT count(*) FROM t d JOIN t p ON d.k = p.k AND p.closed AND NOT d.closed", t=table)
    assert matches > 0.5 * (table.num_rows - closing)


def test_irrelevant_punctuations_match_nothing_and_uniform_streams_have_none():
    made = punctuated_streams(Punctuated(a="punct-asc-30-40", b="uniform-50", irrelevant=True, duration_s=60))
    assert count("SELECT count(*) FROM t WHERE closed", t=made["A"]) > 100
    assert count("SELECT count(*) FROM t d JOIN t p ON d.k = p.k AND p.closed AND NOT d.closed", t=made["A"]) == 0
    assert count("SELECT count(*) FROM t WHERE closed", t=made["B"]) == 0
    assert count("SELECT count(DISTINCT k) FROM t", t=made["B"]) == 50


@pytest.mark.parametrize(
    ("workload", "options", "message"),
    [
        ("punctuated", {"a": "punct-up-1-2"}, "no arrival pattern punct-up-1-2"),
        ("nexmark", {"auction_s": 0}, "auction_s must be greater"),
        ("nexmark", {"locations": 3}, "no option locations"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, workload, options, message):
    with pytest.raises(UsageError, match=message):
        generate(workload, tmp_path / "d", **options)
