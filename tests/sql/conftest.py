from __future__ import annotations

import pytest

from muntin.model import JobSpec, Place, SqlError
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


def marked(case: str) -> tuple[str, Place]:
    """The text without marks, and the place they were around."""
    start = case.index("«")
    stop = case.index("»") - 1
    text = case.replace("«", "").replace("»", "")
    return text, Place(text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1) + 1, stop - start)


def check(error: SqlError, text: str, place: Place, message: str) -> None:
    assert message in error.message
    assert error.place == place, error.render()
    assert error.text == text and error.hint
    assert error.exit_code == 2
    assert "^" * min(place.length, 180) in error.render() or "\n" in text
