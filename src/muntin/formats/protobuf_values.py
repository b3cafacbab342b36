"""Protobuf: each value is one message of a type that a descriptor file describes.

`protoc --include_imports --descriptor_set_out=bids.desc bids.proto` makes such a file. A field that has presence and is
not set is NULL; others have the default of their type, as Protobuf says. Enumerations are their names, timestamps are
times.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from muntin.formats.columns import Misfit
from muntin.formats.format import Format, Parse, Record
from muntin.model import UsageError

TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufValues(Format):
    name = "protobuf"
    options: ClassVar[dict[str, str]] = {
        "descriptor": "a file that protoc has made with --include_imports --descriptor_set_out",
        "message": "the full name of the message",
    }
    required = ("descriptor", "message")

    def check(self, schema: pa.Schema) -> None:
        super().check(schema)
        known = self._message.DESCRIPTOR.fields_by_name
        for name in schema.names:
            if name not in known:
                raise UsageError(
                    f"the message {self.given['message']} has no field {name}",
                    hint=f"its fields are {', '.join(sorted(known))}",
                )

    @cached_property
    def _message(self) -> Any:
        """The class of the messages."""
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError

        file, name = self.given["descriptor"], self.given["message"]
        try:
            described = descriptor_pb2.FileDescriptorSet.FromString(Path(file).read_bytes())
            pool = descriptor_pool.DescriptorPool()
            for one in described.file:
                pool.Add(one)
            return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        except OSError as error:
            raise UsageError(f"cannot read the Protobuf descriptor {file}: {error.strerror}") from error
        except KeyError:
            names = [f"{one.package}.{m.name}".lstrip(".") for one in described.file for m in one.message_type]
            raise UsageError(f"{file} describes no message {name}", hint=f"it describes {', '.join(names)}") from None
        except (DecodeError, TypeError) as error:
            raise UsageError(f"{file} is not a Protobuf descriptor set: {error}") from error

    def parser(self, schema: pa.Schema) -> Parse:
        from google.protobuf.message import DecodeError

        message, names = self._message, schema.names

        def parse(value: bytes) -> Record:
            try:
                found = message.FromString(value)
            except DecodeError as error:
                raise Misfit(f"not Protobuf: {error}") from None
            return {name: _field(found, name) for name in names}

        return parse


def _field(message: Any, name: str) -> Any:
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    if descriptor.has_presence and not message.HasField(name):
        return None
    value, inner = getattr(message, name), descriptor.message_type
    if inner is not None and inner.GetOptions().map_entry:
        of = inner.fields_by_name["value"]
        return {key: _value(of, item) for key, item in value.items()}
    return [_value(descriptor, item) for item in value] if descriptor.is_repeated else _value(descriptor, value)


def _value(descriptor: Any, value: Any) -> Any:
    if descriptor.enum_type is not None:
        named = descriptor.enum_type.values_by_number.get(value)
        return named.name if named is not None else str(value)
    if descriptor.message_type is None:
        return value
    if descriptor.message_type.full_name == TIMESTAMP:
        return value.ToJsonString()
    return {field.name: _field(value, field.name) for field in descriptor.message_type.fields}
