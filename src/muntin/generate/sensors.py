"""A data centre: thermometers and hygrometers at numbered locations (the setting of hammad2003, section 2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from muntin.generate.arrivals import START_US, Times, delayed, poisson
from muntin.generate.files import Generated, quoted, refuse_used, write_stream
from muntin.model import UsageError

COLUMNS = "ts TIMESTAMP, LocationId BIGINT, Value DOUBLE"


@dataclass(frozen=True)
class Reading:
    """How the values of one stream lie: a level, how far locations differ, how far readings of one location differ."""

    level: float
    between: float
    within: float


READINGS = {"Temperature": Reading(24.0, 3.0, 2.0), "Humidity": Reading(55.0, 10.0, 8.0)}


@dataclass(frozen=True)
class Sensors:
    """Options of the workload. `rate` is in rows per second and stream; `humidity_rate` differs from it if given."""

    rate: float = 100.0
    humidity_rate: float | None = None
    locations: int = 1000
    duration_s: float = 600.0
    files: int = 10
    disorder_s: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("rate", "locations", "duration_s", "files"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be greater than zero, not {getattr(self, name)}")
        if self.disorder_s < 0 or (self.humidity_rate is not None and self.humidity_rate <= 0):
            raise UsageError("disorder_s must not be negative and humidity_rate must be greater than zero")
        if self.seed < 0:
            raise UsageError(f"seed must not be negative, not {self.seed}")

    @property
    def duration_us(self) -> int:
        return round(self.duration_s * 1_000_000)

    @property
    def disorder_us(self) -> int:
        return round(self.disorder_s * 1_000_000)

    def rate_of(self, stream: str) -> float:
        return self.humidity_rate if stream == "Humidity" and self.humidity_rate is not None else self.rate


def generate_sensors(folder: Path, options: Sensors) -> Generated:
    """Write both streams and the job file; each stream draws from its own generator, so neither moves the other."""
    refuse_used(folder)
    seeds = np.random.SeedSequence(options.seed).spawn(len(READINGS))
    streams, rows = {}, {}
    for seed, (name, reading) in zip(seeds, READINGS.items(), strict=True):
        rng = np.random.default_rng(seed)
        times = poisson(rng, options.rate_of(name), options.duration_us)
        table = _table(rng, times, options.locations, reading)
        streams[name], rows[name] = folder / name.lower(), len(times)
        arrivals = delayed(rng, times, options.disorder_us)
        write_stream(streams[name], table, arrivals, options.duration_us, options.files)
    job = folder / "job.sql"
    job_sql = "\n".join([_streams_sql(streams, options), QUERIES])
    job.write_text(job_sql)
    return Generated(streams, rows, job, job_sql)


def _table(rng: np.random.Generator, times: Times, locations: int, reading: Reading) -> pa.Table:
    level = reading.level + reading.between * rng.standard_normal(locations)
    location = rng.integers(0, locations, len(times), dtype=np.int64)
    value = level[location] + reading.within * rng.standard_normal(len(times))
    return pa.table(
        {
            "ts": pa.array(START_US + times, pa.timestamp("us", "UTC")),
            "LocationId": pa.array(location),
            "Value": pa.array(np.round(value, 2)),
        }
    )


def _streams_sql(streams: dict[str, Path], options: Sensors) -> str:
    late = f" LATENESS {-(-options.disorder_us // 1000)} milliseconds" if options.disorder_us else ""
    return "\n".join(
        f"CREATE STREAM {name} ({COLUMNS}) TIMESTAMP BY ts{late}\n"
        f"  WITH (format = 'parquet', path = '{quoted(path)}', maxFilesPerTrigger = '1');\n"
        for name, path in streams.items()
    )


QUERIES = """\
-- Readings of the same location at nearly the same time.
CREATE QUERY together AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId
WINDOW 5 seconds;

CREATE QUERY half_minute AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId
WINDOW 30 seconds;

-- Hot and humid within a minute: the cooling may be failing.
CREATE QUERY alarm AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 28 AND B.Value > 65
WINDOW 1 min;

-- The same over two minutes, with a narrower selection.
CREATE QUERY severe AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity, round(A.Value + B.Value / 10, 2) AS strain
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.Value > 30
WINDOW 2 min;

-- One aisle of the room, looked at for longer.
CREATE QUERY aisle AS
SELECT A.LocationId, A.ts AS measured, A.Value AS temperature, B.Value AS humidity
FROM Temperature A, Humidity B
WHERE A.LocationId = B.LocationId AND A.LocationId BETWEEN 100 AND 199
WINDOW 2 min;

-- Heat first, then damp: a temperature waits 90 seconds for a humidity, a humidity only one.
CREATE QUERY damp_after_heat AS
SELECT A.LocationId, A.Value AS temperature, B.Value AS humidity
FROM Temperature [RANGE 90 seconds] A, Humidity [RANGE 1 second] B
WHERE A.LocationId = B.LocationId AND A.Value > 28;
"""
