"""Formats of values: what a value says comes out of it, what it does not say is refused with a reason, and neighbours
do not matter."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from muntin.formats import FORMATS
from muntin.model import UsageError

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("ts", TIME),
        ("k", pa.int64()),
        ("v", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("parts", pa.list_(pa.int64())),
        ("tags", pa.map_(pa.string(), pa.int64())),
        ("inner", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
ROW = {
    "ts": datetime(2024, 1, 1, 12, 0, 0, 5, UTC),
    "k": 7,
    "v": 1.5,
    "s": 'a"b\n',
    "b": True,
    "d": Decimal("3.10"),
    "day": date(2024, 2, 29),
    "raw": b"\x00\xff",
    "parts": [1, None, 3],
    "tags": {"a": 1},
    "inner": {"x": 5, "y": "z"},
}
EMPTY: dict[str, Any] = dict.fromkeys(SCHEMA.names)


def one(name: str, kind: pa.DataType, value: bytes, **options: str) -> Any:
    """What a column is of a single value; a reason where the value is refused."""
    schema = pa.schema([("c", kind)])
    found = FORMATS[name](options).decode(schema, [value])
    return found.faults.get(0) or found.rows["c"][0].as_py()


@pytest.mark.parametrize("name", [name for name, kind in FORMATS.items() if kind.writes])
def test_rows_come_back_from_the_values_that_they_were_written_as(name: str):
    rows = pa.Table.from_pylist([ROW, EMPTY, ROW], SCHEMA)
    values = FORMATS[name]({}).encode(rows)
    found = FORMATS[name]({}).decode(SCHEMA, values)
    assert found.faults == {} and found.places == [0, 1, 2]
    assert found.rows.to_pylist(maps_as_pydicts="strict") == [ROW, EMPTY, ROW]


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (pa.int64(), '{"c": 9223372036854775807}', 2**63 - 1),
        (pa.int64(), '{"c": 9223372036854775808}', "is not BIGINT"),
        (pa.int64(), '{"c": 1.0}', "1.0 is not BIGINT"),
        (pa.int64(), '{"c": true}', "true is not BIGINT"),
        (pa.int64(), '{"c": "1"}', '"1" is not BIGINT'),
        (pa.int64(), '{"C": 1}', None),
        (pa.int8(), '{"c": 300}', "300 is not TINYINT"),
        (pa.float64(), '{"c": 1}', 1.0),
        (pa.float64(), '{"c": "Infinity"}', float("inf")),
        (pa.float64(), '{"c": "1.5"}', "is not DOUBLE"),
        (pa.string(), '{"c": {"x": [1]}}', '{"x": [1]}'),
        (pa.string(), '{"c": "ß"}', "ß"),
        (pa.bool_(), '{"c": 1}', "1 is not BOOL"),
        (pa.decimal128(5, 2), '{"c": 0.1}', Decimal("0.10")),
        (pa.decimal128(5, 2), '{"c": "0.125"}', "is not DECIMAL"),
        (pa.date32(), '{"c": "2024-13-01"}', "is not DATE"),
        (TIME, '{"c": "2024-01-01T01:00:00+01:00"}', datetime(2024, 1, 1, tzinfo=UTC)),
        (TIME, '{"c": "2024-01-01 00:00:00"}', datetime(2024, 1, 1, tzinfo=UTC)),
        (TIME, '{"c": "2024-01-01T00:00:00.123456789Z"}', datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)),
        (TIME, '{"c": 1704067200}', "timestamp_millis"),
        (TIME, '{"c": "yesterday"}', "is not TIMESTAMP"),
        (pa.timestamp("us"), '{"c": "2024-01-01T00:00:00"}', datetime(2024, 1, 1)),
        (pa.timestamp("us"), '{"c": "2024-01-01T00:00:00Z"}', "is not TIMESTAMP"),
        (pa.binary(), '{"c": "not base64!"}', "is not base64"),
        (pa.list_(pa.int64()), '{"c": 5}', "is not LIST"),
        (pa.int64(), '{"c": 1} {"c": 2}', "not JSON: Extra data"),
        (pa.int64(), "[1]", "not a JSON object"),
        (pa.int64(), "", "not JSON"),
        (pa.int64(), "[" * 100_000, "not JSON"),
    ],
)
def test_a_value_of_json_is_of_its_columns_type_or_refused_with_the_reason(kind: pa.DataType, text: str, wanted: Any):
    found = one("json", kind, text.encode())
    if (isinstance(wanted, str) and "not" in wanted) or wanted == "timestamp_millis":
        assert wanted in str(found)
    else:
        assert found == wanted


def test_bytes_that_are_no_text_and_values_that_are_missing_are_refused():
    found = FORMATS["json"]({}).decode(pa.schema([("c", pa.int64())]), [b"\xff", None, b'{"c": 2}'])
    assert found.faults == {0: "not UTF-8", 1: "the value is NULL"}
    assert found.rows["c"].to_pylist() == [2] and found.places == [2]


SMALL = pa.schema([("ts", TIME), ("k", pa.int32()), ("v", pa.list_(pa.float64()))])
PIECES = st.sampled_from(
    [
        *('{"k": 1}', '{"k": "x", "ts": 3}', '{"ts": "2024-01-01"}', '{"ts": "2024-01-01T00:00:00Z", "v": [1, "NaN"]}'),
        *('{"v": [true]}', "{", "null", '{"k": 99999999999}', '{"v": []}', '{"v": [null]}'),
    ]
)


@given(st.lists(PIECES, max_size=8))
def test_what_a_value_means_does_not_depend_on_its_neighbours(texts: list[str]):
    values = [text.encode() for text in texts]
    together = FORMATS["json"]({}).decode(SMALL, values)
    alone = [FORMATS["json"]({}).decode(SMALL, [value]) for value in values]
    assert set(together.faults) == {n for n, found in enumerate(alone) if found.faults}
    assert all(together.faults[n] == alone[n].faults[0] for n in together.faults)
    assert str(together.rows.to_pylist()) == str([row for found in alone for row in found.rows.to_pylist()])


# -- CSV --------------------------------------------------------------------------------------------------------------


def test_cells_of_csv_are_columns_in_order_and_an_empty_one_is_null():
    schema = pa.schema([("ts", TIME), ("k", pa.int64()), ("s", pa.string()), ("b", pa.bool_()), ("v", pa.float64())])
    lines = [b'2024-01-01T00:00:00Z;1;"a;b";TRUE;1e3', b";;;;", b"x;1;a;true;1", b"1;2", b';"1;;;', b";1.5;;;"]
    found = FORMATS["csv"]({"delimiter": ";"}).decode(schema, lines)
    first = {"ts": datetime(2024, 1, 1, tzinfo=UTC), "k": 1, "s": "a;b", "b": True, "v": 1000.0}
    assert found.rows.to_pylist() == [first, dict.fromkeys(schema.names)]
    assert [found.faults[n].split(":")[0] for n in sorted(found.faults)] == ["ts", "2 cells, not 5", *found_of(found)]


def found_of(found: Any) -> list[str]:
    """An open quote, and a number that is no whole one."""
    assert "not a line of CSV" in found.faults[4] and '"1.5" is not BIGINT' in found.faults[5]
    return [found.faults[4].split(":")[0], "k"]


def test_csv_refuses_columns_that_no_cell_can_carry():
    with pytest.raises(UsageError, match="a cell of CSV cannot carry"):
        FORMATS["csv"]({}).check(SCHEMA)
    with pytest.raises(UsageError, match="one character"):
        FORMATS["csv"]({"delimiter": ""}).check(SMALL)


# -- Avro -------------------------------------------------------------------------------------------------------------


def test_avro_of_a_writers_schema_is_read_with_and_without_the_frame_of_a_registry(tmp_path: Path):
    written = {
        "type": "record",
        "name": "Bid",
        "fields": [
            {"name": "other", "type": "string"},
            {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "k", "type": "int"},
        ],
    }
    file = tmp_path / "bid.avsc"
    file.write_text(json.dumps(written))
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, written, {"other": "x", "ts": datetime(2024, 1, 1, tzinfo=UTC), "k": 3})
    schema = pa.schema([("k", pa.int64()), ("ts", TIME)])
    plain = FORMATS["avro"]({"schema": str(file)})
    plain.check(schema)
    value = buffer.getvalue()
    found = plain.decode(schema, [value, value + b"!", b"\x02", b""])
    assert found.rows.to_pylist() == [{"k": 3, "ts": datetime(2024, 1, 1, tzinfo=UTC)}]
    assert "1 bytes too many" in found.faults[1] and all("not Avro of this schema" in f for f in found.faults.values())
    framed = FORMATS["avro"]({"schema": str(file), "framing": "confluent"})
    found = framed.decode(schema, [b"\x00\x00\x00\x00\x09" + value, value])
    assert found.places == [0] and "no schema registry's frame" in found.faults[1]


def test_avro_refuses_schemas_and_framings_that_there_are_not(tmp_path: Path):
    (tmp_path / "x.avsc").write_text('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    (tmp_path / "y.avsc").write_text("{}")
    for options, message in [
        ({"schema": str(tmp_path / "none.avsc")}, "cannot read the Avro schema"),
        ({"schema": str(tmp_path / "y.avsc")}, "is not an Avro schema"),
        ({"schema": str(tmp_path / "x.avsc")}, "has no field ts"),
        ({"framing": "other"}, "no framing other"),
    ]:
        with pytest.raises(UsageError, match=message):
            FORMATS["avro"](options).check(SMALL)


def test_a_format_whose_package_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'muntin\[avro\]'"):
        FORMATS["avro"]({}).check(SMALL)


# -- Protobuf ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def described(tmp_path: Path) -> tuple[Path, Any]:
    """A descriptor file as protoc makes it, and the class of its message."""
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="bid.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Bid")
    message.enum_type.add(name="State").value.add(name="OPEN", number=0)
    message.enum_type[0].value.add(name="CLOSED", number=1)
    of = {"ts": (kind.TYPE_MESSAGE, ".google.protobuf.Timestamp"), "state": (kind.TYPE_ENUM, ".shop.Bid.State")}
    for number, name in enumerate(["ts", "k", "state", "parts"], 1):
        added = message.field.add(name=name, number=number, label=1, type=of.get(name, (kind.TYPE_INT64, ""))[0])
        if name in of:
            added.type_name = of[name][1]
    message.field[3].label = 3
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    found = descriptor_pb2.FileDescriptorSet(file=[times, file])
    (tmp_path / "bid.desc").write_bytes(found.SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    for each in found.file:
        pool.Add(each)
    return tmp_path / "bid.desc", message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Bid"))


def test_fields_of_a_protobuf_message_are_columns(described: tuple[Path, Any]):
    file, kind = described
    sent = kind(k=5, state=1, parts=[1, 2])
    sent.ts.FromJsonString("2024-01-01T00:00:00.000001Z")
    schema = pa.schema([("ts", TIME), ("k", pa.int64()), ("state", pa.string()), ("parts", pa.list_(pa.int64()))])
    values = FORMATS["protobuf"]({"descriptor": str(file), "message": "shop.Bid"})
    values.check(schema)
    found = values.decode(schema, [sent.SerializeToString(), b"", b"\xff\xff"])
    assert found.rows.to_pylist() == [
        {"ts": datetime(2024, 1, 1, 0, 0, 0, 1, UTC), "k": 5, "state": "CLOSED", "parts": [1, 2]},
        {"ts": None, "k": 0, "state": "OPEN", "parts": []},
    ]
    assert found.faults.keys() == {2} and "not Protobuf" in found.faults[2]


def test_protobuf_refuses_descriptors_messages_and_fields_that_there_are_not(described: tuple[Path, Any]):
    file, _ = described
    (file.parent / "bad.desc").write_bytes(base64.b64encode(b"nothing of the kind"))
    for descriptor, message, said in [
        ("none.desc", "shop.Bid", "cannot read"),
        ("bad.desc", "shop.Bid", "is not a Protobuf descriptor set"),
        ("bid.desc", "shop.Offer", "describes no message shop.Offer"),
        ("bid.desc", "shop.Bid", "has no field v"),
    ]:
        with pytest.raises(UsageError, match=said):
            FORMATS["protobuf"]({"descriptor": str(file.parent / descriptor), "message": message}).check(SMALL)
