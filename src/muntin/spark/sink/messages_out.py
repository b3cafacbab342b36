"""Rows as messages for a broker: tasks make the values, the driver sends them in order.

A value is the row, in a format that can be written; the key is the join key, where the query selects it. Punctuations,
where they are asked for, go the way of the rows with a header that tells them apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple
from urllib.parse import parse_qsl

import pyarrow as pa

from muntin.core.results import OUTPUT_TS
from muntin.core.storage import read_table, table_bytes
from muntin.formats import FORMATS, json_texts
from muntin.model import Query, UsageError
from muntin.spark.checkpoint import BatchOutcome, Staged
from muntin.spark.sink.parquet import punctuations_of
from muntin.spark.sink.sink import OutputRequest, Stager

MESSAGES = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("ts", pa.int64())])
KIND = "muntin"
"""The header that says what a message is that is no row."""
PUNCTUATION = "punctuation"


@dataclass(frozen=True)
class Target:
    """Where messages go: `scheme:HOST:PORT/PREFIX?option=value` for all queries, or `INTO kind 'HOST:PORT/NAME'`."""

    servers: str
    prefix: str
    options: Mapping[str, str]
    is_one: bool
    """Whether the name is that of one target, and not how those of all queries begin."""

    @classmethod
    def of(cls, request: OutputRequest, scheme: str, spelling: str, known: Mapping[str, str]) -> Target:
        """Refuses what is spelled otherwise, and options that there are not."""
        if request.into is not None:
            text, options = request.into.place, dict(request.into.options)
            spelling = f"INTO {request.into.kind} '{spelling.removeprefix(scheme).replace('PREFIX', 'NAME')}'"
        else:
            text, _, asked = (request.output or "").removeprefix(scheme).partition("?")
            options = dict(parse_qsl(asked, keep_blank_values=True))
        servers, found, prefix = text.partition("/")
        if not servers or not found or (request.into is not None and not prefix):
            raise UsageError(f"{text} is not a place for messages", hint=f"write {spelling}")
        for name in options:
            if name not in known:
                raise UsageError(
                    f"{scheme.rstrip(':')} output has no option {name}",
                    hint="options are " + "; ".join(f"{option}: {said}" for option, said in known.items()),
                )
        return cls(servers, prefix, options, request.into is not None)

    def name(self, query: str) -> str:
        """The topic or subject of a query's messages."""
        return self.prefix if self.is_one else self.prefix + query

    def check_format(self) -> None:
        name = self.options.get("format", "json")
        writing = [kind.name for kind in FORMATS.values() if kind.writes]
        if name not in writing:
            raise UsageError(f"rows cannot be written as {name}", hint=f"write format={' or format='.join(writing)}")
        FORMATS[name]({}).check(pa.schema([]))


@dataclass(frozen=True)
class StageMessages(Stager):
    """Makes messages of rows, and leaves them to the driver."""

    format: str
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    punctuations: bool = False
    takes_tables: ClassVar[bool] = True

    def stage(self, name: str, part: int, table: pa.Table) -> Staged | None:
        if name.endswith(punctuations_of("")) and not self.punctuations:
            return None
        keys = [key for key in self.keys.get(name, ()) if key in table.column_names]
        times = table[OUTPUT_TS.name if OUTPUT_TS.name in table.column_names else "ts"]
        columns = [
            pa.array(_keys(table, keys), pa.binary()),
            pa.array(FORMATS[self.format]({}).encode(table), pa.binary()),
            times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).combine_chunks(),
        ]
        messages = pa.table(columns, schema=MESSAGES)
        return Staged(name, part, table.num_rows, table=table_bytes(messages).to_pybytes())


def _keys(table: pa.Table, columns: list[str]) -> list[bytes | None]:
    """The key of each row: a single part as its text, several as a JSON array."""
    if not columns:
        return [None] * table.num_rows
    texts = [json_texts(table[name]) for name in columns]
    if len(columns) == 1:
        return [None if text == "null" else _bare(text).encode() for text in texts[0]]
    return [f"[{', '.join(parts)}]".encode() for parts in zip(*texts, strict=True)]


def _bare(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


class Outgoing(NamedTuple):
    """A message on its way; `number` counts those of a query in a micro-batch."""

    query: str
    number: int
    key: bytes | None
    value: bytes
    ts_ms: int | None
    is_punctuation: bool


def outgoing(done: BatchOutcome) -> Iterator[Outgoing]:
    """What a micro-batch sends, query by query in output order, punctuations after the rows."""
    numbers: dict[str, int] = {}
    for staged in sorted(done.staged, key=lambda one: (one.name, one.part)):
        query = staged.name.partition(punctuations_of(""))[0]
        is_punctuation = staged.name != query
        for message in read_table(staged.table or b"").to_pylist():
            numbers[query] = numbers.get(query, -1) + 1
            ts = None if message["ts"] is None else message["ts"] // 1000
            yield Outgoing(query, numbers[query], message["key"], message["value"], ts, is_punctuation)


def check_columns(query: Query, rows: pa.Schema, form: str) -> None:
    """Refuse a query whose rows the format cannot carry."""
    try:
        FORMATS[form]({}).encode(rows.empty_table())
    except Exception as error:
        raise UsageError(f"query {query.name}: {form} cannot carry its columns: {error}") from error
