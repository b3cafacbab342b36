from __future__ import annotations

import pytest

from muntin.model import JobSpec
from muntin.sql import parse_job

STREAMS = """\
CREATE STREAM Temperature (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE, tag STRING, t TINYINT, ok BOOLEAN, day DATE)
  TIMESTAMP BY ts LATENESS 5 seconds
  WITH (format = 'parquet', path = 'data/temperature', maxFilesPerTrigger = '1');
CREATE STREAM Humidity (ts TIMESTAMP, LocationId BIGINT, Value DOUBLE, tag STRING, d DECIMAL(10,2), wet BOOLEAN)
  TIMESTAMP BY ts WITH (format = 'json', path = 'data/humidity');
"""


@pytest.fixture(scope="session")
def spec() -> JobSpec:
    return parse_job(STREAMS)
