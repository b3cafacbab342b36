"""Scalar expressions over Arrow tables, evaluated by an in-process DuckDB.

The SQL that arrives here was produced by the front end from a whitelist; the connection is nevertheless shut off from
files, extensions and settings, so that a slip in the whitelist cannot reach the machine.

What fails for one row (overflow, a cast that does not work, a division by zero) is NULL for that row: one bad row
must not stop a shared job. The front end says so at each operation that can fail; the TRY around the whole is for what
it missed. DuckDB's optimizer is told to leave expressions alone: it would compare `v > 4` where `v + 1 > 5` is
written, and so keep the row in which `v + 1` overflows.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from functools import cache

import duckdb
import pyarrow as pa

from muntin.kernels.functions import function, named_in
from muntin.model.types import INTERVAL, nested_kind, nested_parts

_ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    INTERVAL: pa.duration("us"),
}
_DUCKDB = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    INTERVAL: "BIGINT",
}
"""An interval is a number of microseconds there: DuckDB's own has months and days apart."""

_FROM_DUCKDB = {v: k for k, v in _DUCKDB.items() if k != INTERVAL} | {"HUGEINT": "decimal(38,0)"}


@cache
def arrow_type(name: str) -> pa.DataType:
    """The Arrow type that carries a column type of the model."""
    if name.startswith("decimal("):
        precision, scale = name[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    kind = nested_kind(name)
    if kind is None:
        return _ARROW[name]
    parts = [(inner, arrow_type(of)) for inner, of in nested_parts(name)]
    if kind == "struct":
        return pa.struct(parts)
    return pa.list_(parts[0][1]) if kind == "array" else pa.map_(parts[0][1], parts[1][1])


def duckdb_type(name: str) -> str:
    kind = nested_kind(name)
    if kind is None:
        return _DUCKDB.get(name) or name.upper()
    parts = [(inner, duckdb_type(of)) for inner, of in nested_parts(name)]
    if kind == "struct":
        return f"STRUCT({', '.join(f'{_name(inner)} {of}' for inner, of in parts)})"
    return f"{parts[0][1]}[]" if kind == "array" else f"MAP({parts[0][1]}, {parts[1][1]})"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


EARLIEST_LOCAL_TIME = "290309-12-21 (BC) 19:59:05.224192"
"""The one time without a zone that DuckDB cannot print: -2^63 microseconds."""
COLUMN_PRUNING = "unused_columns"
"""The one optimizer that projections need: columns that no expression names are not read."""


_ONE_AT_A_TIME = threading.RLock()
"""The connection takes one call, and threads of a driver that check queries or look at rows wait for each other."""


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """One locked-down connection per process."""
    con = duckdb.connect(":memory:", config={"threads": 1})
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET ieee_floating_point_ops = false")
    rewriters = [name for (name,) in con.sql("SELECT * FROM duckdb_optimizers()").fetchall() if name != COLUMN_PRUNING]
    con.execute(f"SET disabled_optimizers = '{','.join(rewriters)}'")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    atexit.register(connection.cache_clear)  # one that outlives the interpreter is complained about at length
    return con


@cache
def _declare(name: str) -> None:
    """Make a function of ours known to DuckDB, once."""
    made = function(name)
    if made is not None:
        parameters = [duckdb.sqltype(kind) for kind in made.parameters]
        con, result = connection(), duckdb.sqltype(made.result)
        con.create_function(name, made.compute, parameters, result, type="arrow", null_handling="special")


def _declare_functions(sql: str) -> None:
    for name in named_in(sql):
        _declare(name)


def type_of(sql: str, columns: Sequence[tuple[str, str]]) -> str:
    """The model type of an expression over `columns` (name, type); raises duckdb.Error where it does not type."""
    fields = ", ".join(f'NULL::{duckdb_type(t)} AS "{name}"' for name, t in columns) or "NULL AS _"
    with _ONE_AT_A_TIME:
        _declare_functions(sql)
        (described,) = connection().execute(f"DESCRIBE SELECT ({sql}) AS x FROM (SELECT {fields}) t").fetchall()
    name = described[1]
    return _FROM_DUCKDB.get(name) or name.lower().replace(" ", "")


def evaluate(table: pa.Table, expressions: Sequence[tuple[str, str]]) -> list[pa.ChunkedArray]:
    """The value of each (sql, type) for every row of `table`, in row order."""
    if not expressions:
        return []
    if table.num_rows == 0:
        return [pa.chunked_array([], arrow_type(t)) for _, t in expressions]
    columns = ", ".join(f"TRY(CAST(({sql}) AS {duckdb_type(t)})) AS c{i}" for i, (sql, t) in enumerate(expressions))
    result = _evaluate(_with_plain_durations(table), columns, len(expressions))
    return [column.cast(arrow_type(t)) for column, (_, t) in zip(result.columns, expressions, strict=True)]


def _evaluate(table: pa.Table, columns: str, width: int) -> pa.Table:
    """DuckDB's answer; a row on which it breaks down altogether gets NULLs, and the others what is theirs."""
    with _ONE_AT_A_TIME:
        try:
            return _select(columns, table)
        except (duckdb.InternalException, duckdb.FatalException):
            _forget_connection()
    if table.num_rows == 1:
        return pa.table([pa.nulls(1)] * width, [f"c{i}" for i in range(width)])
    half = table.num_rows // 2
    parts = [_evaluate(part, columns, width) for part in (table.slice(0, half), table.slice(half))]
    return pa.concat_tables(parts, promote_options="default")


def _select(columns: str, table: pa.Table) -> pa.Table:
    with _ONE_AT_A_TIME:
        _declare_functions(columns)
        con = connection()
        con.register("_rows", table)
        result = con.sql(f"SELECT {columns} FROM _rows").to_arrow_table()
        con.unregister("_rows")
        return result


def _forget_connection() -> None:
    """After a fatal error a connection refuses everything: the next use opens another."""
    connection.cache_clear()
    _declare.cache_clear()


def _with_plain_durations(table: pa.Table) -> pa.Table:
    """Intervals as the numbers that expressions take them for."""
    for n, field in enumerate(table.schema):
        if pa.types.is_duration(field.type):
            table = table.set_column(n, field.name, table.column(n).cast(pa.int64()))
    return table


def rows_as_json(table: pa.Table) -> pa.Array:
    """Each row as one JSON object, for the dead letters; what JSON has no number for (NaN, infinity) as text."""
    if table.num_rows == 0:
        return pa.array([], pa.string())
    plain = [f"c{n}" for n in range(table.num_columns)]  # a user's name could mean something else in SQL
    members = ", ".join(
        f"{_quoted(field.name)}, {_json_value(name, field.type)}"
        for name, field in zip(plain, table.schema, strict=True)
    )
    result = _select(f"CAST(json_object({members}) AS VARCHAR) AS j", table.rename_columns(plain))
    return result["j"].combine_chunks().cast(pa.string())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _json_value(value: str, kind: pa.DataType, depth: int = 0) -> str:
    """DuckDB's text of a value as JSON; what it has no JSON or no text for is spelled out, wherever it stands."""
    if pa.types.is_floating(kind):
        spelled = f"CASE WHEN isnan({value}) THEN 'NaN' WHEN {value} > 0 THEN 'Infinity' ELSE '-Infinity' END"
        return f"CASE WHEN isnan({value}) OR isinf({value}) THEN to_json({spelled}) ELSE to_json({value}) END"
    if _is_local_time(kind):
        earliest = f"epoch_us({value}) = (-9223372036854775808)::BIGINT"
        return f"CASE WHEN {earliest} THEN {_quoted(EARLIEST_LOCAL_TIME)} ELSE CAST({value} AS VARCHAR) END"
    if not _needs_spelling(kind):
        return value
    item = f"x{depth}"
    if pa.types.is_struct(kind):
        members = ((f.name, _json_value(f"struct_extract({value}, {_quoted(f.name)})", f.type, depth)) for f in kind)
        made = f"json_object({', '.join(f'{_quoted(name)}, {inner}' for name, inner in members)})"
    elif pa.types.is_map(kind):
        entry = f"{{'k': {item}.key, 'v': to_json({_json_value(f'{item}.value', kind.item_type, depth + 1)})}}"
        made = f"to_json(map_from_entries(list_transform(map_entries({value}), lambda {item}: {entry})))"
    else:
        inner = _json_value(item, kind.value_type, depth + 1)
        made = f"to_json(list_transform({value}, lambda {item}: to_json({inner})))"
    return f"CASE WHEN {value} IS NOT NULL THEN {made} END"


def _is_local_time(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is None


def _needs_spelling(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind) or _is_local_time(kind):
        return True
    return any(_needs_spelling(kind.field(n).type) for n in range(kind.num_fields))
