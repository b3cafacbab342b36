"""Totals that are told once survive the end of a process, and are DuckDB's under every use of promises."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from . import duck

JOB = """
SET punctuations = '{how}';
CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, category BIGINT, expires TIMESTAMP, UNIQUE (id))
  TIMESTAMP BY ts
  WITH (format = 'parquet', path = 'auction');
CREATE STREAM Bid (ts TIMESTAMP, auction BIGINT, bidder BIGINT, price DOUBLE, closed BOOLEAN) TIMESTAMP BY ts
  PUNCTUATION WHEN closed WITH (format = 'parquet', path = 'bid');
"""
SELECT = "A.id, A.category, COUNT(*) AS bids, COUNT(DISTINCT B.bidder) AS bidders, MAX(B.price) AS highest"


def query(name: str, window: int) -> str:
    return (
        f"CREATE QUERY {name} AS SELECT {SELECT} FROM Auction A, Bid B WHERE A.id = B.auction "
        f"GROUP BY A.id, A.category EMIT FINAL WINDOW {window} seconds;"
    )


OWN = "FROM Auction A JOIN Bid B ON A.id = B.auction AND A.ts <= B.ts"
UNTIL = "WINDOW UNTIL A.expires - INTERVAL 4 SECONDS AT MOST 8 seconds"
OPEN = (
    f"CREATE QUERY won AS SELECT {SELECT} {OWN} GROUP BY A.id, A.category {UNTIL} EMIT FINAL;"
    f"CREATE QUERY open_bids AS SELECT A.id, B.bidder, B.price {OWN} {UNTIL};"
    f"CREATE QUERY no_bids AS SELECT A.id FROM Auction A LEFT ANTI JOIN Bid B ON A.id = B.auction {UNTIL};"
)
"""Rows that wait until a time of their own."""
OPENED = "A.ts <= B.ts AND B.ts < least(A.expires - INTERVAL 4 SECOND, A.ts + INTERVAL 8 SECOND)"
OUTER = "A.id, COUNT(*) AS lines, COUNT(B.price) AS bids"
LEFT = (
    f"CREATE QUERY unsold AS SELECT {OUTER} FROM Auction A LEFT JOIN Bid B ON A.id = B.auction "
    "GROUP BY A.id EMIT FINAL WINDOW 5 seconds;"
)


def _open_sql() -> dict[str, str]:
    """The queries of `OPEN` for DuckDB."""
    end = "A.ts + greatest(INTERVAL 1 MICROSECOND, least(A.expires - INTERVAL 4 SECOND - A.ts, INTERVAL 8 SECOND))"
    before = "A.id = B.auction AND B.ts < A.ts AND epoch_us(A.ts) - epoch_us(B.ts) < 8000000"
    return {
        "won": f"SELECT {SELECT} FROM Auction A JOIN Bid B ON A.id = B.auction AND {OPENED} GROUP BY ALL",
        "open_bids": f"SELECT A.id, B.bidder, B.price, B.ts AS _ts FROM Auction A JOIN Bid B ON A.id = B.auction "
        f"AND {OPENED}",
        "no_bids": f"SELECT A.id, {end} AS _ts FROM Auction A WHERE NOT EXISTS (FROM Bid B WHERE A.id = B.auction "
        f"AND {OPENED}) AND NOT EXISTS (FROM Bid B WHERE {before})",
    }


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("pwjoin", marks=pytest.mark.spark),
        pytest.param("pjoin", marks=pytest.mark.stand_in),
        pytest.param("off", marks=pytest.mark.stand_in),
    ],
)
def test_finals_over_two_runs_are_duckdbs(muntin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str):
    monkeypatch.chdir(tmp_path)
    assert muntin("generate", "nexmark", "data", "--rate", "100", "--duration", "60", "--auction", "10")[0] == 0
    Path("job.sql").write_text(JOB.format(how=how) + query("short", 5) + query("long", 20) + LEFT + OPEN)
    early = []
    for part, mode in ((slice(0, 5), "--available-now"), (slice(5, None), "--bounded")):
        for stream in ("auction", "bid"):
            Path(stream).mkdir(exist_ok=True)
            for file in sorted(Path("data", stream).glob("*.parquet"))[part]:
                shutil.copy(file, stream)
        code, _, err = muntin("run", "job.sql", "--output", "out", "--checkpoint", "ckpt", mode)
        assert code == 0, err
        early.append(sum(pq.read_metadata(file).num_rows for file in duck.output_files(Path("out", "short"))))
    assert (early[0] > 0) is (how != "off"), "without promises nothing is certain before the end"
    with duck.connect({"Auction": Path("auction"), "Bid": Path("bid")}) as base:
        base.execute("DELETE FROM Bid WHERE closed")
        for name, window in (("short", 5), ("long", 20)):
            sql = duck.wanted(SELECT, "Auction A, Bid B", "A.id = B.auction", (window, window), "GROUP BY ALL")
            rows, missing, too_many = duck.difference(base, sql, Path("out", name))
            assert rows > 50 and (missing, too_many) == (0, 0), name
        for name, sql in _open_sql().items():
            rows, missing, too_many = duck.difference(base, sql, Path("out", name))
            assert rows > 5 and (missing, too_many) == (0, 0), name
            assert duck.is_ordered(Path("out", name))
        matches = f"A.id = B.auction AND {duck.within(5, 5)}"
        sql = f"SELECT {OUTER} FROM Auction A LEFT JOIN Bid B ON {matches} GROUP BY ALL"
        rows, missing, too_many = duck.difference(base, sql, Path("out", "unsold"))
        assert rows > 50 and (missing, too_many) == (0, 0)
        unsold = base.execute("SELECT count(*) FROM got WHERE bids = 0").fetchall()
        assert unsold[0][0] > 0, "auctions without a bid have a row, too"
