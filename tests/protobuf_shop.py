"""Descriptors of messages that have a field of each kind, as ``protoc --include_imports`` writes them.

In Protobuf's language, where ``Kinds`` has one field of each scalar type, repeated ones, and maps::

    message Order {
      uint64 id = 1; Status status = 2; google.protobuf.Timestamp at = 3; repeated string tags = 4;
      map<string, uint32> prices = 5; oneof more { string note = 6; google.protobuf.Empty gone = 7; }
      optional int32 count = 8; Line first = 9; repeated Line lines = 10; map<int32, Line> by_number = 11;
      google.protobuf.Int64Value wrapped = 12; google.protobuf.Struct details = 13; Order before = 14;
      google.protobuf.Duration took = 15;
      message Line { string sku = 1; bytes raw = 2; }
    }
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import duration_pb2, empty_pb2, struct_pb2, text_format, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

IMPORTED = (duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
SCALARS = (
    "double",
    "float",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
)
_FIELD = "field {{ name: '{name}' number: {number} label: LABEL_{label} {more} }}"
_ENTRY = (
    "nested_type {{ name: '{name}' options {{ map_entry: true }} "
    "field {{ name: 'key' number: 1 label: LABEL_OPTIONAL type: {key} }} "
    "field {{ name: 'value' number: 2 label: LABEL_OPTIONAL {value} }} }}"
)


def field(name: str, number: int, more: str, label: str = "OPTIONAL") -> str:
    """Return a field of a message."""
    return _FIELD.format(name=name, number=number, label=label, more=more)


def of_message(name: str) -> str:
    """Return the type of a field that is another message."""
    return f"type: TYPE_MESSAGE type_name: '.{name}'"


def _order() -> str:
    text = "type: TYPE_STRING"
    fields = [
        field("id", 1, "type: TYPE_UINT64"),
        field("status", 2, "type: TYPE_ENUM type_name: '.shop.Status'"),
        field("at", 3, of_message("google.protobuf.Timestamp")),
        field("tags", 4, text, "REPEATED"),
        field("prices", 5, of_message("shop.Order.PricesEntry"), "REPEATED"),
        field("note", 6, f"{text} oneof_index: 0"),
        field("gone", 7, f"{of_message('google.protobuf.Empty')} oneof_index: 0"),
        field("count", 8, "type: TYPE_INT32 oneof_index: 1 proto3_optional: true"),
        field("first", 9, of_message("shop.Order.Line")),
        field("lines", 10, of_message("shop.Order.Line"), "REPEATED"),
        field("by_number", 11, of_message("shop.Order.ByNumberEntry"), "REPEATED"),
        field("wrapped", 12, of_message("google.protobuf.Int64Value")),
        field("details", 13, of_message("google.protobuf.Struct")),
        field("before", 14, of_message("shop.Order")),
        field("took", 15, of_message("google.protobuf.Duration")),
    ]
    inside = [
        f"nested_type {{ name: 'Line' {field('sku', 1, text)} {field('raw', 2, 'type: TYPE_BYTES')} }}",
        _ENTRY.format(name="PricesEntry", key="TYPE_STRING", value="type: TYPE_UINT32"),
        _ENTRY.format(name="ByNumberEntry", key="TYPE_INT32", value=of_message("shop.Order.Line")),
    ]
    return f"name: 'Order' {' '.join(fields + inside)} oneof_decl {{ name: 'more' }} oneof_decl {{ name: '_count' }}"


def _kinds() -> str:
    kinds = [(name, f"type: TYPE_{name.upper()}") for name in SCALARS]
    kinds.append(("status", "type: TYPE_ENUM type_name: '.shop.Status'"))
    one = [field(f"a_{name}", number, kind) for number, (name, kind) in enumerate(kinds, 1)]
    many = [field(f"many_{name}", number, kind, "REPEATED") for number, (name, kind) in enumerate(kinds, 21)]
    # By a text, and with each key that a map may have.
    maps = [(f"by_text_{name}", "TYPE_STRING", kind) for name, kind in kinds]
    maps += [
        (f"of_{name}", f"TYPE_{name.upper()}", "type: TYPE_STRING")
        for name in SCALARS
        if name not in ("double", "float", "bytes", "string")
    ]
    mapped = []
    for number, (name, key, kind) in enumerate(maps, 41):
        entry = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        mapped.append(field(name, number, of_message(f"shop.Kinds.{entry}"), "REPEATED"))
        mapped.append(_ENTRY.format(name=entry, key=key, value=kind))
    return f"name: 'Kinds' {' '.join(one + many + mapped)}"


def descriptor_set(*messages: str, syntax: str = "proto3", more: str = "") -> bytes:
    """Return what ``protoc`` writes of a file of package ``shop``."""
    imported = " ".join(f"dependency: '{each.DESCRIPTOR.name}'" for each in IMPORTED)
    status = "enum_type { name: 'Status' value { name: 'NEW' number: 0 } value { name: 'PAID' number: 1 } }"
    parts = " ".join(f"message_type {{ {message} }}" for message in messages)
    text = f"name: 'shop.proto' package: 'shop' syntax: '{syntax}' {imported} {status} {more} {parts}"
    made = FileDescriptorSet()
    for each in IMPORTED:
        each.DESCRIPTOR.CopyToProto(made.file.add())
    text_format.Parse(text, made.file.add())
    return bytes(made.SerializeToString())


@cache
def shop() -> bytes:
    """Return the descriptors of ``shop.Order`` and ``shop.Kinds``."""
    return descriptor_set(_order(), _kinds())


def kind_of(name: str, descriptors: bytes | None = None) -> Any:
    """Return the class of a message."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(shop() if descriptors is None else descriptors).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))
