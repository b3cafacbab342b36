"""Lines of JSON in files, written as rows come and exactly once: `--output DIR` with eager delivery.

A file `<query>/b<batch>.jsonl` belongs to one micro-batch; the files of one that was not committed are written anew.
Dead letters and punctuations come with the commit, as Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc

from muntin.model import Settings
from muntin.model.event_time import EARLIEST_US, LATEST_US, time_text
from muntin.plan import Plan
from muntin.spark.checkpoint import BatchOutcome, Publisher
from muntin.spark.sink.parquet import ParquetFolders, beside_rows

SUFFIX = ".jsonl"


class JsonLines(ParquetFolders):
    name = "json lines"
    noun = "files of JSON lines"
    summary = "with SET delivery = 'eager': lines of JSON in DIR/<query>/, written as rows come"
    takes_batches = False
    takes_eager = True
    _open: dict[str, BinaryIO]

    def schemas(self, plan: Plan, settings: Settings) -> dict[str, pa.Schema]:
        """Lines of JSON have no schema."""
        return beside_rows(plan, settings)

    def attached(self, pipeline: int, publisher: Publisher) -> Self:
        mine = super().attached(pipeline, publisher)
        mine._open = {}
        return mine

    def begin(self) -> None:
        prefix = self.publisher.prefix
        for file in self.folder.glob(f"*/{prefix}*{SUFFIX}"):
            number = file.stem.removeprefix(prefix)
            if number.isdigit() and not self.publisher.is_committed(int(number)):
                file.unlink()

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        if name not in self._open:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            self._open[name] = (self.folder / name / f"{self.publisher.prefix}{batch:010d}{SUFFIX}").open("wb")
        self._open[name].write(json_lines(table))
        self._open[name].flush()

    def hand_over(self, done: BatchOutcome) -> None:
        done.written += [str(Path(file.name).relative_to(self.folder)) for file in self._open.values()]
        self.close()

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()


def json_lines(table: pa.Table, more: Mapping[str, Any] | None = None) -> bytes:
    """Each row as an object on a line; times in ISO 8601, intervals in microseconds, NaN and infinity as text."""
    first = "".join(f"{json.dumps(k)}: {json.dumps(v)}, " for k, v in (more or {}).items())
    names = [json.dumps(name) for name in table.column_names]
    row = "{" + first.replace("%", "%%") + ", ".join(f"{n.replace('%', '%%')}: %s" for n in names) + "}\n"
    columns = [json_texts(column) for column in table.columns]
    return "".join([row % values for values in zip(*columns, strict=True)]).encode()


def json_texts(column: pa.ChunkedArray) -> list[str]:
    """Each value as JSON, `null` where there is none."""
    if pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return ["null" if v is None else v for v in column.cast(pa.string()).to_pylist()]
    if pa.types.is_temporal(kind) and not _has_four_digit_years(column):
        return ["null" if us is None else _time_text(us, kind) for us in _microseconds(column)]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        texts = pc.strftime(column.cast(pa.timestamp("us", "UTC")), "%Y-%m-%dT%H:%M:%SZ").to_pylist()
        return ["null" if v is None else f'"{v}"' for v in texts]
    return [json.dumps(_value(v)) for v in column.to_pylist(maps_as_pydicts="strict")]


DAY_US = 86_400_000_000


def _microseconds(column: pa.ChunkedArray) -> list[int | None]:
    """Times as whole numbers; those of dates may be too large for int64."""
    if pa.types.is_date(column.type):
        return [None if day is None else day * DAY_US for day in column.cast(pa.int32()).to_pylist()]
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()


def _has_four_digit_years(column: pa.ChunkedArray) -> bool:
    """Whether Arrow and Python can write all of these times; both have an end."""
    ends = pc.min_max(column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())).as_py()
    unit = DAY_US if pa.types.is_date(column.type) else 1
    return ends["min"] is None or (ends["min"] * unit >= EARLIEST_US and ends["max"] * unit <= LATEST_US)


def _time_text(us: int, kind: pa.DataType) -> str:
    if pa.types.is_date(kind):
        return f'"{time_text(us).partition("T")[0]}"'
    return f'"{time_text(us, "T", "microseconds")}Z"' if kind.tz is not None else f'"{time_text(us, " ")}"'


def _value(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {name: _value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner) for inner in value]
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
