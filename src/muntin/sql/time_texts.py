"""Texts that Spark reads as dates and timestamps, as DuckDB expressions over a text `a`.

    2024 | 2024-07 | 2024-7-9 | +12024-01-01 | -0001-01-01          a date, or its midnight
    2024-07-09 anything | 2024-07-09Tanything                       a date only
    2024-07-09 1[:02[:03[.123456789]]] [zone]                       a timestamp; Z, UTC, GMT or +01:00 as zone

Digits after the microseconds are cut off. A timestamp without time zone ignores the zone. Anything else is NULL.
"""

from __future__ import annotations

BLANKS = r"[\x00-\x20]*"
_DAY = r"(?:-(\d{1,2})(?:-(\d{1,2})"
_CLOCK = r"([01]?\d|2[0-3])(?::([0-5]?\d)(?::([0-5]?\d)(?:\.(\d*))?)?)?"
_ZONE = r" ?(?:Z|UTC|GMT|UT|([+-](?:1[0-8]|0?\d)):([0-5]?\d))?"
_DATE_FORM = rf"^{BLANKS}([+-]?\d{{4,7}}){_DAY}(?:[ T].*)?)?)?{BLANKS}$"
_TIME_FORM = rf"^{BLANKS}([+-]?\d{{4,6}}){_DAY}(?:[ T]{_CLOCK}{_ZONE})?)?)?{BLANKS}$"

PLAIN = r"\s*\d{4}-\d{1,2}-\d{1,2}(?:[ T]\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d{1,6})?)?\s*"
"""Texts that DuckDB reads in the same way."""


def _number(form: str, group: int, missing: str) -> str:
    return f"coalesce(TRY_CAST(regexp_extract(a, '{form}', {group}, 's') AS INTEGER), {missing})"


def _numbers(form: str, *groups: tuple[int, str]) -> str:
    return ", ".join(_number(form, group, missing) for group, missing in groups)


DATE = f"TRY(make_date({_numbers(_DATE_FORM, (1, 'NULL'), (2, '1'), (3, '1'))}))"

_FRACTION = f"CAST(rpad(substring(regexp_extract(a, '{_TIME_FORM}', 7, 's'), 1, 6), 6, '0') AS INTEGER)"
_SECOND = f"make_timestamp({_numbers(_TIME_FORM, (1, 'NULL'), (2, '1'), (3, '1'), (4, '0'), (5, '0'), (6, '0'))})"
_OFFSET = (
    f"to_seconds(CASE WHEN starts_with(regexp_extract(a, '{_TIME_FORM}', 8, 's'), '-') THEN 1 ELSE -1 END"
    f" * (abs({_number(_TIME_FORM, 8, '0')}) * 3600 + {_number(_TIME_FORM, 9, '0')} * 60))"
)
_USUAL = r"[1-9]\d{3}-\d{2}-\d{2}[ T](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?Z?"
"""Texts that DuckDB reads in the same way, and faster."""


def _timestamp(kind: str, otherwise: str) -> str:
    plain = f"TRY(CAST(TRY_CAST(rtrim(a, 'Z') AS TIMESTAMP) AS {kind}))"
    return f"CASE WHEN regexp_full_match(a, '{_USUAL}') THEN {plain} ELSE {otherwise} END"


TIMESTAMP_NTZ = _timestamp("TIMESTAMP", f"TRY({_SECOND} + to_microseconds({_FRACTION}))")
TIMESTAMP = _timestamp("TIMESTAMPTZ", f"TRY(CAST({_SECOND} + to_microseconds({_FRACTION}) + {_OFFSET} AS TIMESTAMPTZ))")
