"""NEXMark 9, the winning bid of each auction while it is open: totals are DuckDB's, and the state is what is open."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from muntin.generate.nexmark import Nexmark, generate_nexmark
from muntin.model import Side
from muntin.sql import parse_job
from muntin.testing import LocalJob

QUERY = """
CREATE QUERY won AS
SELECT A.id, A.category, MAX(B.price) AS price, COUNT(*) AS bids
FROM Auction A JOIN Bid B ON A.id = B.auction AND A.ts <= B.ts
GROUP BY A.id, A.category
WINDOW UNTIL {until} AT MOST 12 hours
EMIT FINAL;
"""
UNTILS = {"A.expires": "A.expires", "A.expires - INTERVAL 10 SECONDS": "A.expires - INTERVAL 10 SECOND"}
"""What a row of Auction waits for, and the same for DuckDB: bids come until it expires."""


def test_winning_bids_are_duckdbs_at_the_ends_of_their_auctions_and_only_open_ones_are_kept(tmp_path: Path):
    made = generate_nexmark(tmp_path / "data", Nexmark(rate=200, duration_s=120, auction_s=20, files=12))
    files = {name: sorted(folder.glob("*.parquet")) for name, folder in made.streams.items() if name != "Person"}
    for text, sql in UNTILS.items():
        local = LocalJob(parse_job(made.job_sql.partition("-- NEXMark 8")[0] + QUERY.format(until=text)))
        found, most = [], 0
        for n in range(12):
            found.append(local.push({name: pq.read_table(of[n]) for name, of in files.items()})["won"])
            most = max(most, local.counters()[0].state_rows[Side.LEFT])
            local.restart()
        before_the_end = sum(table.num_rows for table in found)
        found.append(local.push({}, ended=True)["won"])
        won = pa.concat_tables(found)
        base = duckdb.connect()
        base.execute("SET TimeZone = 'UTC'")
        for name, of in files.items():
            base.execute(f"CREATE TABLE {name} AS FROM read_parquet({[str(file) for file in of]})")
        base.execute(f"""CREATE TABLE want AS SELECT A.id, A.category, max(B.price) AS price, count(*) AS bids,
            least(any_value({sql}) - INTERVAL 1 MICROSECOND, (SELECT max(ts) FROM (SELECT ts FROM Auction UNION ALL
            SELECT ts FROM Bid))) AS _ts FROM Auction A JOIN Bid B ON A.id = B.auction AND NOT closed
            AND A.ts <= B.ts AND B.ts < {sql} GROUP BY A.id, A.category""")
        base.register("got", won)
        wanted, missing, too_many = (
            base.execute(f"SELECT count(*) FROM ({rows})").fetchall()[0][0]
            for rows in ("FROM want", "FROM want EXCEPT ALL FROM got", "FROM got EXCEPT ALL FROM want")
        )
        assert wanted > 500 and (missing, too_many) == (0, 0), text
        assert before_the_end > 0.7 * wanted, "most are told while the streams go on"
        (opened,) = base.execute(f"""SELECT max(n) FROM (SELECT count(*) AS n FROM Auction A, (SELECT DISTINCT ts
            FROM Auction) t WHERE A.ts <= t.ts AND t.ts < {sql} GROUP BY t.ts)""").fetchall()[0]
        assert most <= opened < 400, "of 1,400 auctions only those are kept that are open"
