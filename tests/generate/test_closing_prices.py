"""NEXMark 4, the average price that the auctions of each category have closed at: DuckDB's, at each time it changes."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.generate.nexmark import Nexmark, generate_nexmark
from muntin.sql import parse_job
from muntin.testing import LocalJob

QUERIES = """
CREATE QUERY won AS
SELECT A.id, MAX(B.price) AS price
FROM Auction A JOIN Bid B ON A.id = B.auction AND A.ts <= B.ts
GROUP BY A.id
WINDOW UNTIL A.expires AT MOST 12 hours
EMIT FINAL;

CREATE QUERY average AS
SELECT A.category, AVG(W.price) AS price, COUNT(*) AS auctions
FROM won W JOIN Auction A ON W.id = A.id
GROUP BY A.category
WINDOW 12 hours
EMIT CHANGES;
"""
WANTED = """
CREATE TABLE won AS
  SELECT A.id, any_value(A.category) AS category, max(B.price) AS price,
    least(any_value(A.expires) - INTERVAL 1 MICROSECOND,
          (SELECT max(ts) FROM (SELECT ts FROM Auction UNION ALL SELECT ts FROM Bid))) AS closed
  FROM Auction A JOIN Bid B ON A.id = B.auction AND NOT B.closed AND A.ts <= B.ts AND B.ts < A.expires GROUP BY A.id;
CREATE TABLE want AS
  SELECT DISTINCT category, avg(price) OVER w AS price, count(*) OVER w AS auctions, closed AS _ts FROM won
  WINDOW w AS (PARTITION BY category ORDER BY closed);
"""


@pytest.mark.slow
def test_average_closing_prices_are_duckdbs_whenever_they_change(tmp_path: Path):
    made = generate_nexmark(tmp_path / "data", Nexmark(rate=100, duration_s=120, auction_s=20, files=6))
    files = {name: sorted(folder.glob("*.parquet")) for name, folder in made.streams.items() if name != "Person"}
    local = LocalJob(parse_job(made.job_sql.partition("-- NEXMark 8")[0] + QUERIES), 2)
    assert [join.everywhere for join in local.plan.joins] == [(False, False)] * 2, "both joins have one key"
    found = []
    for n in range(6):
        found.append(local.push({name: pq.read_table(of[n]) for name, of in files.items()})["average"])
        local.restart()
    before_the_end = sum(table.num_rows for table in found)
    found.append(local.push({}, ended=True)["average"])
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    for name, of in files.items():
        base.execute(f"CREATE TABLE {name} AS FROM read_parquet({[str(file) for file in of]})")
    base.execute(WANTED)
    base.register("told", pa.concat_tables(found))
    base.execute("CREATE TABLE got AS FROM told WHERE _ts <= (SELECT max(closed) FROM won)")
    ((wanted, got, both),) = base.execute("""SELECT (SELECT count(*) FROM want), (SELECT count(*) FROM got), count(*)
        FROM want JOIN got USING (category, auctions, _ts) WHERE abs(want.price - got.price) < 1e-9 * got.price
        """).fetchall()
    assert wanted > 500 and got == both == wanted
    assert before_the_end > 0.7 * wanted, "most are told while the streams go on"
