"""A data centre: thermometers and hygrometers at numbered locations (the setting of hammad2003, section 2.1).

In the last third of the time the cooling of one rack fails: temperature and humidity of its locations rise together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from muntin.generate.arrivals import START_US, delayed, poisson
from muntin.generate.files import Generated, quoted, refuse_used, write_stream
from muntin.generate.options import DisorderedOptions
from muntin.kernels.arrays import Floats, Int64s

COLUMNS = "ts TIMESTAMP, LocationId BIGINT, Value DOUBLE"


RACK = 10
"""Locations in a rack; their numbers are neighbours."""


@dataclass(frozen=True)
class Reading:
    """How the values of one stream lie: a level, how far locations differ, how far readings of one location differ, and
    by how much they rise where the cooling fails."""

    level: float
    between: float
    within: float
    rise: float


READINGS = {"Temperature": Reading(24.0, 3.0, 2.0, 20.0), "Humidity": Reading(55.0, 10.0, 8.0, 35.0)}


@dataclass(frozen=True)
class Fault:
    """Where the cooling fails, from when on, and how long the values rise until they stay."""

    locations: range
    begins_us: int
    rises_us: int

    def severity(self, location: Int64s, times: Int64s) -> Floats:
        """From 0, nothing, to 1 for each reading."""
        inside = (location >= self.locations.start) & (location < self.locations.stop)
        return inside.astype(np.float64) * np.clip((times - self.begins_us) / self.rises_us, 0.0, 1.0)


@dataclass(frozen=True)
class Sensors(DisorderedOptions):
    """Options of the workload. `rate` is in rows per second and stream; `humidity_rate` differs from it if given."""

    humidity_rate: float | None = None
    locations: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("humidity_rate", "locations")

    def rate_of(self, stream: str) -> float:
        return self.humidity_rate if stream == "Humidity" and self.humidity_rate is not None else self.rate


def cooling_fault(options: Sensors) -> Fault:
    """The fault that is planted; its rack is drawn apart, so that it moves nothing else."""
    rng = np.random.default_rng(np.random.SeedSequence(options.seed).spawn(len(READINGS) + 1)[-1])
    first = RACK * int(rng.integers(0, max(1, options.locations // RACK)))
    locations = range(first, min(first + RACK, options.locations))
    return Fault(locations, START_US + 2 * options.duration_us // 3, max(1, options.duration_us // 10))


def generate_sensors(folder: Path, options: Sensors) -> Generated:
    """Write both streams and the job file; each stream draws from its own generator, so neither moves the other."""
    refuse_used(folder)
    seeds = np.random.SeedSequence(options.seed).spawn(len(READINGS))
    streams, rows, fault = {}, {}, cooling_fault(options)
    for seed, (name, reading) in zip(seeds, READINGS.items(), strict=True):
        rng = np.random.default_rng(seed)
        times = poisson(rng, options.rate_of(name), options.duration_us)
        table = _table(rng, times, options.locations, reading, fault)
        streams[name], rows[name] = folder / name.lower(), len(times)
        arrivals = delayed(rng, times, options.disorder_us)
        write_stream(streams[name], table, arrivals, options.duration_us, options.files)
    job = folder / "job.sql"
    job_sql = "\n".join([_streams_sql(streams, options), QUERIES])
    job.write_text(job_sql)
    return Generated(streams, rows, job, job_sql)


def _table(rng: np.random.Generator, times: Int64s, locations: int, reading: Reading, fault: Fault) -> pa.Table:
    level = reading.level + reading.between * rng.standard_normal(locations)
    location = rng.integers(0, locations, len(times), dtype=np.int64)
    value = level[location] + reading.within * rng.standard_normal(len(times))
    value += reading.rise * fault.severity(location, START_US + times)
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
