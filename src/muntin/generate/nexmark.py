"""NEXMark: people, the auctions they open, the bids on these; an auction that ends is closed by a punctuation in Bid.

Of 50 events 1 is a person, 3 are auctions, 46 are bids. Half of the bids go to a hot auction and half of the auctions
belong to a hot seller, both of which change as time goes on. No bid comes before its auction has opened or after it has
ended; at its end comes a row of Bid with `closed` that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from muntin.generate.arrivals import START_US, delayed, poisson
from muntin.generate.files import Generated, quoted, refuse_used, write_stream
from muntin.generate.options import DisorderedOptions
from muntin.kernels.arrays import Int64s

ROUND, PEOPLE, AUCTIONS = 50, 1, 3
"""Of so many events the first are people, the next auctions, the rest bids."""
HOT_EVERY = 20
"""One of so many auctions and sellers is hot while it is the newest such."""
HOT_SHARE = 0.5
TRIES = 8
"""Draws of an open auction before a bid goes to the newest one."""
FIRST_NAMES = ("Ada", "Edgar", "Frances", "Grace", "Jim", "Luping", "Michael", "Pat")
CITIES = (("Portland", "OR"), ("Boise", "ID"), ("Bend", "OR"), ("San Francisco", "CA"), ("Los Angeles", "CA"),
          ("Phoenix", "AZ"), ("Seattle", "WA"), ("Kent", "WA"), ("Cheyenne", "WY"), ("Redmond", "WA"))  # fmt: skip
CATEGORIES = (10, 11, 12, 13, 14)
COLUMNS = {
    "Person": "ts TIMESTAMP, id BIGINT, name STRING, city STRING, state STRING",
    "Auction": "ts TIMESTAMP, id BIGINT, seller BIGINT, category BIGINT, reserve DOUBLE, expires TIMESTAMP,\n"
    "  UNIQUE (id)",
    "Bid": "ts TIMESTAMP, auction BIGINT, bidder BIGINT, price DOUBLE, closed BOOLEAN",
}


@dataclass(frozen=True)
class Nexmark(DisorderedOptions):
    """Options of the workload. `rate` counts the events of all three streams per second; an auction is open for half
    to one and a half times `auction_s`."""

    rate: float = 500.0
    auction_s: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("auction_s")


def generate_nexmark(folder: Path, options: Nexmark) -> Generated:
    """Write the three streams and a job over them."""
    refuse_used(folder)
    rng = np.random.default_rng(options.seed)
    streams, rows = {}, {}
    for name, (times, table) in _tables(rng, options).items():
        streams[name], rows[name] = folder / name.lower(), len(times)
        arrivals = delayed(rng, times, options.disorder_us)
        write_stream(streams[name], table, arrivals, options.duration_us, options.files)
    job, job_sql = folder / "job.sql", "\n".join([_streams_sql(streams, options), QUERIES])
    job.write_text(job_sql)
    return Generated(streams, rows, job, job_sql)


def _tables(rng: np.random.Generator, options: Nexmark) -> dict[str, tuple[Int64s, pa.Table]]:
    times = poisson(rng, options.rate, options.duration_us)
    place = np.arange(len(times)) % ROUND
    people, opened = times[place < PEOPLE], times[(place >= PEOPLE) & (place < PEOPLE + AUCTIONS)]
    made = times[place >= PEOPLE + AUCTIONS]
    length = options.auction_s * 1_000_000 * rng.uniform(0.5, 1.5, len(opened))
    ends = opened + length.astype(np.int64)
    return {
        "Person": (people, _people(rng, people)),
        "Auction": (opened, _auctions(rng, people, opened, ends)),
        "Bid": _bids(rng, people, made, opened, ends, options),
    }


def _people(rng: np.random.Generator, times: Int64s) -> pa.Table:
    homes = rng.integers(0, len(CITIES), len(times))
    names = rng.integers(0, len(FIRST_NAMES), len(times))
    return pa.table(
        {
            "ts": _stamps(times),
            "id": np.arange(len(times), dtype=np.int64),
            "name": pa.array([FIRST_NAMES[n] for n in names], pa.string()),
            "city": pa.array([CITIES[n][0] for n in homes], pa.string()),
            "state": pa.array([CITIES[n][1] for n in homes], pa.string()),
        }
    )


def _auctions(rng: np.random.Generator, people: Int64s, opened: Int64s, ends: Int64s) -> pa.Table:
    return pa.table(
        {
            "ts": _stamps(opened),
            "id": np.arange(len(opened), dtype=np.int64),
            "seller": _known(rng, people, opened),
            "category": np.array(CATEGORIES, np.int64)[rng.integers(0, len(CATEGORIES), len(opened))],
            "reserve": np.round(rng.lognormal(4, 1, len(opened)), 2),
            "expires": _stamps(ends),
        }
    )


def _known(rng: np.random.Generator, people: Int64s, times: Int64s) -> Int64s:
    """A person for each event who has come before it: the hot one of the time, or anyone of the last few hundred."""
    last = np.maximum(np.searchsorted(people, times, "right") - 1, 0)
    anyone = last - (rng.random(len(times)) * np.minimum(last + 1, 300)).astype(np.int64)
    return np.where(rng.random(len(times)) < HOT_SHARE, last // HOT_EVERY * HOT_EVERY, anyone).astype(np.int64)


def _bids(
    rng: np.random.Generator, people: Int64s, made: Int64s, opened: Int64s, ends: Int64s, options: Nexmark
) -> tuple[Int64s, pa.Table]:
    """Bids on auctions that are open, and a closing row at the end of each auction that ends in time."""
    last = np.searchsorted(opened, made, "right") - 1
    made, last = made[last >= 0], last[last >= 0]
    first = np.searchsorted(opened, made - round(1.5e6 * options.auction_s))
    auction = np.where(rng.random(len(made)) < HOT_SHARE, np.maximum(last // HOT_EVERY * HOT_EVERY, first), -1)
    for _ in range(TRIES):
        over = (auction < 0) | (ends[auction] <= made)
        drawn = first + (rng.random(len(made)) * (last + 1 - first)).astype(np.int64)
        auction = np.where(over, drawn, auction)
    auction = np.where(ends[auction] <= made, last, auction)
    fine = ends[auction] > made  # where auctions are short and few, none may be open
    made, auction = made[fine], auction[fine]
    closing = np.flatnonzero(ends < options.duration_us)
    times = np.concatenate([made, ends[closing]])
    order = np.argsort(times, kind="stable")
    none = np.zeros(len(closing))
    closed = np.arange(len(times)) >= len(made)
    prices = np.round(rng.lognormal(4, 1, len(made)), 2)
    columns = {
        "ts": _stamps(times),
        "auction": np.concatenate([auction, closing]).astype(np.int64),
        "bidder": pa.array(np.concatenate([_known(rng, people, made), none]).astype(np.int64), mask=closed),
        "price": pa.array(np.concatenate([prices, none]), mask=closed),
        "closed": closed,
    }
    return times[order], pa.table(columns).take(pa.array(order))


def _stamps(times: Int64s) -> pa.Array:
    return pa.array(START_US + times, pa.timestamp("us", "UTC"))


def _streams_sql(streams: dict[str, Path], options: Nexmark) -> str:
    late = f" LATENESS {-(-options.disorder_us // 1000)} milliseconds" if options.disorder_us else ""
    ends = {"Bid": " PUNCTUATION WHEN closed"}
    return "\n".join(
        f"CREATE STREAM {name} ({COLUMNS[name]}) TIMESTAMP BY ts{late}{ends.get(name, '')}\n"
        f"  WITH (format = 'parquet', path = '{quoted(path)}', maxFilesPerTrigger = '1');\n"
        for name, path in streams.items()
    )


QUERIES = """\
-- NEXMark 8: people who open an auction soon after they have come.
CREATE QUERY newcomers_10s AS
SELECT A.id, A.name, B.id AS auction
FROM Person [RANGE 10 seconds] A, Auction [NOW] B
WHERE A.id = B.seller;

CREATE QUERY newcomers_1min AS
SELECT A.id, A.name, B.id AS auction
FROM Person [RANGE 1 min] A, Auction [NOW] B
WHERE A.id = B.seller;

-- NEXMark 3: who sells in certain states, in one category.
CREATE QUERY local_items AS
SELECT A.name, A.city, A.state, B.id AS auction
FROM Person [RANGE 5 min] A, Auction [NOW] B
WHERE A.id = B.seller AND B.category = 10 AND A.state IN ('OR', 'ID', 'CA');

-- The bids of an auction within a minute of its opening: its end and its being one of a kind empty the state.
CREATE QUERY bids AS
SELECT A.id AS auction, B.bidder, B.price
FROM Auction [RANGE 1 min] A, Bid [NOW] B
WHERE A.id = B.auction;
"""
