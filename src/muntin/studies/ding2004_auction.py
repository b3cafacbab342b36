"""The auction of ding2004 (1.2, figure 1): bids of each item within twelve hours, counted once they are certain."""

from __future__ import annotations

import pyarrow as pa

from muntin.sql import parse_job
from muntin.studies.study import Claim, Curve, Effort, Findings, Panel, Study, Verdict, counted
from muntin.testing.local_job import LocalJob

AUCTION = """
CREATE STREAM Auction (ts TIMESTAMP, item_id BIGINT, UNIQUE (item_id)) TIMESTAMP BY ts WITH (format='x', path='y');
CREATE STREAM Bid (ts TIMESTAMP, item_id BIGINT, closed BOOLEAN) TIMESTAMP BY ts PUNCTUATION WHEN closed
  WITH (format = 'x', path = 'y');
CREATE QUERY bids AS SELECT A.item_id, COUNT(*) AS bids
FROM Auction [RANGE 12 HOURS] A JOIN Bid [NOW] B ON A.item_id = B.item_id GROUP BY A.item_id EMIT FINAL;
"""
HOUR_US = 3_600_000_000


def auction() -> list[tuple[float, int, int, int, int]]:
    """Item 180 closes after 5 hours, item 181 after 20: hour, item and count of each result, rows of (Auction, Bid)."""
    local, told = LocalJob(parse_job(AUCTION)), []
    for half in range(0, 46):
        at = half * HOUR_US // 2
        opened = [180, 181] if half == 0 else [1000 + half]  # others open later, and nobody bids on them
        bids = [(180, half == 10)] if 1 <= half <= 10 else []
        bids += [(181, half == 40)] if 1 <= half <= 40 else []
        got = local.push({
            "Auction": pa.table({"ts": pa.array([at] * len(opened), pa.timestamp("us", "UTC")),
                                 "item_id": pa.array(opened, pa.int64())}),
            "Bid": pa.table({"ts": pa.array([at] * len(bids), pa.timestamp("us", "UTC")),
                             "item_id": pa.array([i for i, _ in bids], pa.int64()),
                             "closed": pa.array([c for _, c in bids], pa.bool_())}),
        })["bids"]  # fmt: skip
        kept = local.counters()[0].state_rows
        told += [(half / 2, row["item_id"], row["bids"], *kept) for row in got.to_pylist()]
    return told


def figure_1(_: Effort) -> Findings:
    told = auction()
    rows = [{"hour": h, "item": i, "bids": n, "auctions_kept": a, "bids_kept": b} for h, i, n, a, b in told]
    by_item = {item: (hour, bids) for hour, item, bids, _, _ in told}
    early, late = by_item.get(180, (99.0, 0)), by_item.get(181, (99.0, 0))
    claims = [
        Claim("an auction that closes before 12 hours is counted when its punctuation comes", "1.2",
              "before the window ends", f"hour {early[0]:g}, {early[1]} bids",
              Verdict.HOLDS if early[0] <= 6 and early[1] == 9 else Verdict.DOES_NOT, ""),
        Claim("one that is open for longer is counted when its window ends", "1.2", "at 12 hours",
              f"hour {late[0]:g}, {late[1]} bids",
              Verdict.HOLDS if 12 <= late[0] <= 13 and late[1] == 23 else Verdict.DOES_NOT, ""),
        counted("no bid is kept, since each auction's item is unique", "1.2", "none", 
                [r["bids_kept"] == 0 for r in rows], "results"),
    ]  # fmt: skip
    curve = Curve("counted at", ["180, closes after 5 h", "181, closes after 20 h"], [early[0], late[0]])
    return Findings(rows, claims, [Panel("bids within 12 hours", "item", "hour of the result", [curve])])


STUDIES = (Study("ding2004", "figure 1", "bids of each auction within twelve hours of its opening", figure_1),)
