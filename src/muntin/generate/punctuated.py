"""Punctuated streams with the arrival patterns of ding2004 (5.1 and 6.1).

    punct-ORDER-SEGMENT-MATCH   segments of about SEGMENT rows, MATCH percent of which have the value that the
                                punctuation at the end of the segment is about; the others have values still to come
    cluster-ORDER-SIZE          rows of one value follow each other, then comes the punctuation for it
    uniform-VALUES              no punctuations; values are uniform in [0, VALUES)

ORDER is that of the punctuated values: asc, desc or random. Sizes of segments and the percentage of matches are Poisson
distributed, as are the gaps between rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from muntin.generate.arrivals import START_US, poisson
from muntin.generate.files import Generated, quoted, refuse_used, write_stream
from muntin.generate.options import Options
from muntin.kernels.arrays import Int64s
from muntin.model import UsageError

PATTERN = re.compile(
    r"punct-(?P<order>asc|desc|random)-(?P<segment>[1-9]\d*)-(?P<match>\d+)"
    r"|cluster-(?P<corder>asc|desc|random)-(?P<size>[1-9]\d*)|uniform-(?P<values>[1-9]\d*)"
)
AHEAD = 20
"""Rows that do not match the next punctuation have one of the values of so many punctuations after it."""


@dataclass(frozen=True)
class Punctuated(Options):
    """Options of the workload: the pattern of each stream, and the mean rate of both in rows per second.

    `irrelevant`: punctuations come as often, but are about values that no row has.
    """

    a: str = "punct-asc-100-40"
    b: str = "punct-asc-100-40"
    irrelevant: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for pattern in (self.a, self.b):
            if not PATTERN.fullmatch(pattern):
                hint = "write punct-asc-100-40, cluster-random-30 or uniform-15000"
                raise UsageError(f"there is no arrival pattern {pattern}", hint=hint)


def generate_punctuated(folder: Path, options: Punctuated) -> Generated:
    """Write both streams and a job over them."""
    refuse_used(folder)
    streams, rows = {}, {}
    for name, table in punctuated_streams(options).items():
        streams[name], rows[name] = folder / name.lower(), table.num_rows
        times = table["ts"].cast(pa.int64()).to_numpy() - START_US
        write_stream(streams[name], table, times, options.duration_us, options.files)
    job, job_sql = folder / "job.sql", "\n".join([_streams_sql(streams), QUERIES])
    job.write_text(job_sql)
    return Generated(streams, rows, job, job_sql)


def punctuated_streams(options: Punctuated) -> dict[str, pa.Table]:
    """The rows of both streams, in order; each draws from its own generator."""
    seeds = np.random.SeedSequence(options.seed).spawn(2)
    patterns = zip(("A", "B"), (options.a, options.b), seeds, strict=True)
    return {name: _stream(np.random.default_rng(seed), pattern, options) for name, pattern, seed in patterns}


def _stream(rng: np.random.Generator, pattern: str, options: Punctuated) -> pa.Table:
    found = PATTERN.fullmatch(pattern)
    assert found is not None
    times = poisson(rng, options.rate, options.duration_us)
    if found["values"]:
        values, ends, over = (
            rng.integers(0, int(found["values"]), len(times)),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
        )
    else:
        size, match = int(found["segment"] or found["size"]), int(found["match"] or 100)
        values, ends, over = _segments(rng, len(times), found["order"] or found["corder"], size, match)
    if options.irrelevant:
        over = -1 - over
    at = np.concatenate([times, times[ends]])  # a punctuation comes with the last row of its segment
    order = np.argsort(at, kind="stable")
    columns = {
        "ts": pa.array(START_US + at, pa.timestamp("us", "UTC")),
        "id": np.arange(len(at), dtype=np.int64),
        "k": np.concatenate([values, over]).astype(np.int64),
        "closed": np.arange(len(at)) >= len(times),
    }
    return pa.table(columns).take(pa.array(order))


def _segments(rng: np.random.Generator, rows: int, order: str, size: int, match: int) -> tuple[Int64s, Int64s, Int64s]:
    """The value of each row; the last row of each whole segment, and the value that is over with it."""
    sizes = np.maximum(1, rng.poisson(size, rows // size * 2 + 10))
    last = np.cumsum(sizes) - 1
    segment = np.searchsorted(last, np.arange(rows))
    number = int(segment[-1]) + 1 if rows else 0
    domain = np.arange(number + AHEAD + 1)
    turn = {"asc": domain, "desc": domain[::-1], "random": rng.permutation(len(domain))}[order]
    shares = np.minimum(rng.poisson(match, number), 100) / 100 if match < 100 else np.ones(number)
    matching = rng.random(rows) < shares[segment]
    values = turn[np.where(matching, segment, segment + 1 + rng.integers(0, AHEAD, rows))]
    ended = np.flatnonzero(last[:number] < rows)
    return values, last[ended], turn[ended]


def _streams_sql(streams: dict[str, Path]) -> str:
    return "\n".join(
        f"CREATE STREAM {name} (ts TIMESTAMP, id BIGINT, k BIGINT, closed BOOLEAN)\n"
        f"  TIMESTAMP BY ts PUNCTUATION WHEN closed\n"
        f"  WITH (format = 'parquet', path = '{quoted(path)}', maxFilesPerTrigger = '1');\n"
        for name, path in streams.items()
    )


QUERIES = """\
CREATE QUERY short AS SELECT A.id AS a, B.id AS b, A.k FROM A, B WHERE A.k = B.k WINDOW 1 second;

CREATE QUERY long AS SELECT A.id AS a, B.id AS b, A.k FROM A, B WHERE A.k = B.k WINDOW 15 seconds;
"""
