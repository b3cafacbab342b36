"""Where eager delivery hands rows over as they come: a callable, files with lines of JSON, a socket, or nowhere.

callable    target(query, table, batch)                 a micro-batch that is run again after a crash comes again, with
                                                        the same number: at least once
files       OUTPUT/<query>/b<batch>.jsonl               exactly once: a file belongs to one micro-batch, and one of a
                                                        micro-batch that was not committed is written anew
socket      lines of JSON with the query's name first   at least once
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from muntin.model import UsageError
from muntin.model.event_time import EARLIEST_US, LATEST_US, time_text

SCHEME = "tcp://"


class Target(Protocol):
    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        """Rows of a query in timestamp order, after those that came before."""

    def commit(self) -> list[str]:
        """The micro-batch is complete; the files that were written for it, relative to the output."""

    def close(self) -> None: ...


class Nowhere:
    """Rows are counted by whoever hands them over."""

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        pass

    def commit(self) -> list[str]:
        return []

    def close(self) -> None:
        pass


class Calls(Nowhere):
    def __init__(self, callback: Callable[[str, pa.Table, int], None]):
        self._callback = callback

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        self._callback(name, table, batch)


class JsonFiles(Nowhere):
    def __init__(self, folder: Path, last_batch: int, prefix: str = "b"):
        """`last_batch`: the last one committed. What was written for a later one is taken away."""
        self._folder, self._prefix = folder, prefix
        self._open: dict[str, BinaryIO] = {}
        for file in folder.glob(f"*/{self._prefix}*.jsonl"):
            number = file.stem.removeprefix(self._prefix)
            if number.isdigit() and int(number) > last_batch:
                file.unlink()

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        if name not in self._open:
            (self._folder / name).mkdir(parents=True, exist_ok=True)
            self._open[name] = (self._folder / name / f"{self._prefix}{batch:010d}.jsonl").open("wb")
        self._open[name].write(json_lines(table))
        self._open[name].flush()

    def commit(self) -> list[str]:
        written = [str(Path(file.name).relative_to(self._folder)) for file in self._open.values()]
        self.close()
        return written

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()


class Socket(Nowhere):
    def __init__(self, url: str):
        host, _, port = url.removeprefix(SCHEME).rpartition(":")
        if not host or not port.isdigit():
            raise UsageError(f"{url} is not an address", hint=f"write {SCHEME}HOST:PORT")
        try:
            self._connection = socket.create_connection((host, int(port)), timeout=10)
        except OSError as error:
            raise UsageError(f"nobody listens at {url}: {error}") from error
        self._connection.settimeout(None)

    def deliver(self, name: str, table: pa.Table, batch: int) -> None:
        self._connection.sendall(json_lines(table, {"_query": name}))

    def close(self) -> None:
        self._connection.close()


def json_lines(table: pa.Table, more: Mapping[str, Any] | None = None) -> bytes:
    """Each row as an object on a line; times in ISO 8601, what JSON has no number for (NaN, infinity) as text."""
    first = "".join(f"{json.dumps(k)}: {json.dumps(v)}, " for k, v in (more or {}).items())
    names = [json.dumps(name) for name in table.column_names]
    row = "{" + first.replace("%", "%%") + ", ".join(f"{n.replace('%', '%%')}: %s" for n in names) + "}\n"
    columns = [_texts(column) for column in table.columns]
    return "".join([row % values for values in zip(*columns, strict=True)]).encode()


def _texts(column: pa.ChunkedArray) -> list[str]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return ["null" if v is None else v for v in column.cast(pa.string()).to_pylist()]
    if pa.types.is_temporal(kind) and not _has_four_digit_years(column):
        return ["null" if us is None else _time_text(us, kind) for us in _microseconds(column)]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        texts = pc.strftime(column.cast(pa.timestamp("us", "UTC")), "%Y-%m-%dT%H:%M:%SZ").to_pylist()
        return ["null" if v is None else f'"{v}"' for v in texts]
    return [json.dumps(_value(v)) for v in column.to_pylist()]


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
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
