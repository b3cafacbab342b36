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
CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, category BIGINT, UNIQUE (id)) TIMESTAMP BY ts
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


OUTER = "A.id, COUNT(*) AS lines, COUNT(B.price) AS bids"
LEFT = (
    f"CREATE QUERY unsold AS SELECT {OUTER} FROM Auction A LEFT JOIN Bid B ON A.id = B.auction "
    "GROUP BY A.id EMIT FINAL WINDOW 5 seconds;"
)


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
    Path("job.sql").write_text(JOB.format(how=how) + query("short", 5) + query("long", 20) + LEFT)
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
            assert duck.is_ordered(Path("out", name))
        matches = f"A.id = B.auction AND {duck.within(5, 5)}"
        sql = f"SELECT {OUTER} FROM Auction A LEFT JOIN Bid B ON {matches} GROUP BY ALL"
        rows, missing, too_many = duck.difference(base, sql, Path("out", "unsold"))
        assert rows > 50 and (missing, too_many) == (0, 0)
        unsold = base.execute("SELECT count(*) FROM got WHERE bids = 0").fetchall()
        assert unsold[0][0] > 0, "auctions without a bid have a row, too"
