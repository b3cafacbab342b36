"""NEXMark's auctions and bids on Spark with promises beside windows, instead of windows, and without promises
(ding2004's PWJoin, PJoin and WJoin): rows in the state after each micro-batch, and finals that DuckDB judges.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from muntin.bench.judge import compared
from muntin.generate.nexmark import Nexmark, generate_nexmark
from muntin.plan.punctuation_modes import PUNCTUATION_MODES
from muntin.spark.run import Job
from muntin.sql import parse_job

WINDOW_S = 60
WHOLE, QUICK = Nexmark(rate=1000, auction_s=30), Nexmark(rate=200, duration_s=200, auction_s=30)
STREAMS = """
CREATE STREAM Auction (ts TIMESTAMP, id BIGINT, seller BIGINT, UNIQUE (id)) TIMESTAMP BY ts
  WITH (format = 'parquet', path = '{folder}/auction', maxFilesPerTrigger = '1');
CREATE STREAM Bid (ts TIMESTAMP, auction BIGINT, bidder BIGINT, price DOUBLE, closed BOOLEAN) TIMESTAMP BY ts
  PUNCTUATION WHEN closed WITH (format = 'parquet', path = '{folder}/bid', maxFilesPerTrigger = '1');
"""
FINALS = f"""
CREATE QUERY bids AS SELECT A.id, COUNT(*) AS bids, MAX(B.price) AS highest
FROM Auction A, Bid B WHERE A.id = B.auction GROUP BY A.id EMIT FINAL WINDOW {WINDOW_S} seconds;
"""
ORACLE = f"""
SELECT A.id, count(*) AS bids, max(B.price) AS highest FROM A JOIN B ON A.id = B.auction
WHERE NOT B.closed AND abs(epoch_us(A.ts) - epoch_us(B.ts)) < {WINDOW_S * 1_000_000} GROUP BY A.id"""


def measure(quick: bool, tell: Callable[[str], None], spark: Any) -> dict[str, Any]:
    """State of the same job under each policy; the last micro-batch, which ends the streams, is not counted."""
    options = QUICK if quick else WHOLE
    with tempfile.TemporaryDirectory(prefix="muntin-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        made = generate_nexmark(folder / "data", options)
        found: dict[str, Any] = {"rows": {stream: made.rows[stream] for stream in ("Auction", "Bid")}, "policies": {}}
        for mode in PUNCTUATION_MODES:
            tell(f"{mode.title} on Spark")
            found["policies"][mode.name] = _run(spark, folder, mode.name)
    return found | {"window_s": WINDOW_S, "auction_s": options.auction_s, "duration_s": options.duration_s}


def _run(spark: Any, folder: Path, how: str) -> dict[str, Any]:
    sizes: list[list[int]] = []
    told: list[int] = []

    def note(status: dict[str, Any]) -> None:
        sizes.append(status["joins"][0]["counters"]["state_rows"])
        told.append(status["queries"]["bids"]["total_rows"])

    spec = parse_job(f"SET punctuations = '{how}';" + STREAMS.format(folder=folder / "data") + FINALS)
    output = folder / how
    run = Job(spark, spec).start(output=output, checkpoint=folder / f"ckpt-{how}", mode="bounded", progress=note)
    run.await_termination()
    counters = run.status()["joins"][0]["counters"]
    steady = sizes[len(sizes) // 3 : -1]  # windows have filled
    return {
        "state_rows": [round(statistics.mean(side)) for side in zip(*steady, strict=True)],
        "most_state_rows": max(map(sum, sizes)),
        "purged": counters["purged"],
        "dropped": counters["dropped"],
        "told_before_the_end": told[-2],
        "finals": told[-1],
        "differences": _differences(folder, output / "bids"),
    }


def _differences(folder: Path, output: Path) -> int:
    """Rows in which the finals differ from what DuckDB finds in the same files."""
    with duckdb.connect() as base:
        base.execute("SET TimeZone = 'UTC'")
        for table, stream in (("A", "auction"), ("B", "bid")):
            base.execute(f"CREATE VIEW {table} AS FROM read_parquet('{folder}/data/{stream}/*.parquet')")
        base.execute(f"CREATE TABLE want AS {ORACLE}")
        base.execute(f"CREATE TABLE got AS SELECT id, bids, highest FROM read_parquet('{output}/*.parquet')")
        return sum(compared(base, "want", "got")[1:])


def render(figures: dict[str, Any]) -> str:
    rows = figures["rows"]
    lines = [
        f"NEXMark: {rows['Auction']:,} auctions of about {figures['auction_s']:.0f} s, {rows['Bid']:,} bids, "
        f"{figures['duration_s']:.0f} s of event time, windows of {figures['window_s']} s",
        "           auctions kept   bids kept   most rows kept   finals before the end   of all   differing",
    ]
    for how, f in figures["policies"].items():
        auctions, bids = f["state_rows"]
        lines.append(
            f"  {PUNCTUATION_MODES[how].title:<8} {auctions:>13,} {bids:>11,} {f['most_state_rows']:>16,} "
            f"{f['told_before_the_end']:>23,} {f['finals']:>8,} {f['differences']:>11,}"
        )
    return "\n".join(lines)
