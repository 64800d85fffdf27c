"""Messages of Protobuf as rows of Arrow, each value exact or a fault: what Python workers do.

Columns are those of the message's descriptor, as https://protobuf.dev/programming-guides/proto3/ gives each type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from airflow_lake_provider.contracts.argument_validation import nearest
from airflow_lake_provider.contracts.errors import InvalidSpecError, UnsupportedError

FAULT = "_lake_fault"
_OTHER_MESSAGE = "a frame of another message than the declared one"
_NO_END = "a frame that ends before its message"
_UNKNOWN = "a field that the descriptors lack"
# A byte of zero, which begins no message, and four of the id of a schema.
_ID_BYTES = 5
_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    # Above the largest number of the signed type of as many bits.
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
}
_GOOGLES = "google.protobuf"
_TIMESTAMP = f"{_GOOGLES}.Timestamp"
_WRAPPERS = frozenset(
    f"{_GOOGLES}.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
# Any JSON is inside of them, whatever the message.
_OF_JSON = frozenset(f"{_GOOGLES}.{name}" for name in ("Struct", "Value", "ListValue"))
# From 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z, as timestamp.proto bounds it.
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_NANOS = 1_000_000_000

Read = Callable[[Any], Any]


@dataclass(frozen=True)
class _Column:
    """Type of a value, and how it is made of what Google's library returns."""

    kind: pa.DataType
    read: Read


class MessageRows:
    """Reader of the values of one message: ``names`` are its columns, ``kind`` is that of the rows, with FAULT.

    :param descriptors: ``FileDescriptorSet`` with all imports, as ``protoc`` writes it.
    :param name: full name of the message.
    :raises InvalidSpecError: they are no such set, or lack the message.
    :raises UnsupportedError: the message has no columns, or two that only capitals part.
    """

    def __init__(self, descriptors: bytes, name: str) -> None:
        kind = _message(descriptors, name)
        # Its functions are called as those of the class: a field of the same name hides the one of the object.
        self._class: type[Message] = GetMessageClass(kind)
        self._frame = _place_in_file(kind)
        if not kind.fields:
            raise UnsupportedError(f"message {name} has no fields, so that it has no columns")
        column = _record(kind)
        self._read = column.read
        self.names: list[str] = [field.name for field in column.kind]
        self.kind = pa.struct([*column.kind, pa.field(FAULT, pa.string())])

    def rows(self, values: pa.Array) -> pa.StructArray:
        """Return the columns of values, and FAULT for those that cannot be read; NULL is NULL."""
        return pa.array([self._row(value) for value in values.to_pylist()], self.kind)

    def _row(self, value: bytes | None) -> dict[str, Any] | None:
        if value is None:
            return None
        try:
            message = self._class.FromString(self._payload(value))
            if not self._class.IsInitialized(message):
                raise ValueError(f"it lacks {', '.join(self._class.FindInitializationErrors(message))}")
            size = self._class.ByteSize(message)
            self._class.DiscardUnknownFields(message)
            if self._class.ByteSize(message) != size:
                raise ValueError(_UNKNOWN)
            row: dict[str, Any] = self._read(message)
        except (DecodeError, ValueError, json_format.Error) as error:
            return {FAULT: str(error)}
        return row

    def _payload(self, value: bytes) -> bytes:
        """Return a message without what a serializer with a registry writes before it.

        https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
        """
        if value[:1] != b"\0":
            return value
        places, end = _places(value)
        if places != self._frame:
            raise ValueError(f"{_OTHER_MESSAGE}, at {places} of its file where the declared one is at {self._frame}")
        return value[end:]


@cache
def message_rows(descriptors: bytes, name: str) -> MessageRows:
    """Return the reader of a message, which a worker makes once."""
    return MessageRows(descriptors, name)


def _message(descriptors: bytes, name: str) -> Descriptor:
    pool = DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(descriptors).file
        for file in files:
            pool.Add(file)
    except (DecodeError, TypeError) as error:
        raise InvalidSpecError(
            "descriptors must be a file that protoc --include_imports --descriptor_set_out has written, got one that "
            f"cannot be read as that: {error}"
        ) from error
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        own = (pool.FindFileByName(file.name) for file in files if file.package != _GOOGLES)
        there = sorted(each for file in own for each in _names(file.message_types_by_name.values()))
        few = f"They have: {', '.join(there[:20])}" if there else "They have no message at all"
        raise InvalidSpecError(f"descriptors have no message {name!r}{nearest(name, there)}. {few}") from None


def _names(kinds: Iterable[Descriptor]) -> Iterator[str]:
    """Yield the full names of messages, and of those inside of them."""
    for kind in kinds:
        if not kind.GetOptions().map_entry:
            yield kind.full_name
            yield from _names(kind.nested_types)


def _place_in_file(kind: Descriptor) -> list[int]:
    """Return the places of the messages around a message, and its own, each in the one around it."""
    around = kind.containing_type
    beside = around.nested_types if around else list(kind.file.message_types_by_name.values())
    own = next(place for place, each in enumerate(beside) if each.full_name == kind.full_name)
    return [*(_place_in_file(around) if around else ()), own]


def _places(value: bytes) -> tuple[list[int], int]:
    """Return the places of the message that a frame names, and where the message begins."""
    count, end = _varint(value, _ID_BYTES)
    if count < 0:
        raise ValueError(_NO_END)
    places = []
    for _ in range(count):
        place, end = _varint(value, end)
        places.append(place)
    return places or [0], end


def _varint(value: bytes, start: int) -> tuple[int, int]:
    """Return a signed number of a frame, and the place behind it."""
    number = 0
    for place in range(start, min(start + 5, len(value))):
        number |= (value[place] & 0x7F) << 7 * (place - start)
        if value[place] < 0x80:
            return number >> 1 ^ -(number & 1), place + 1
    raise ValueError(_NO_END)


def _record(kind: Descriptor) -> _Column:
    """Return a message as a row."""
    names = [field.name for field in kind.fields]
    if twins := {a for a in names if sum(a.lower() == b.lower() for b in names) > 1}:
        raise UnsupportedError(f"message {kind.full_name} has {sorted(twins)}, which Spark takes for one column")
    columns = {field.name: _field(field) for field in kind.fields}
    readers = [(field.name, field.has_presence, columns[field.name].read) for field in kind.fields]
    may_be_extended = kind.is_extendable

    def read(message: Any) -> dict[str, Any]:
        of = type(message)
        if may_be_extended and any(at.is_extension for at, _ in of.ListFields(message)):
            raise ValueError(_UNKNOWN)
        return {
            name: of_field(getattr(message, name)) if not has_presence or of.HasField(message, name) else None
            for name, has_presence, of_field in readers
        }

    return _Column(pa.struct([(name, column.kind) for name, column in columns.items()]), read)


def _field(field: FieldDescriptor) -> _Column:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        return _map(*(_value(entry.fields_by_name[name]) for name in ("key", "value")))
    one = _value(field)
    if not field.is_repeated:
        return one
    return _Column(pa.list_(one.kind), lambda values: [one.read(value) for value in values])


def _map(key: _Column, value: _Column) -> _Column:
    def read(entries: Any) -> list[tuple[Any, Any]]:
        # The order of the bytes says nothing, and equal maps are to be equal rows.
        return [(key.read(name), value.read(entries[name])) for name in sorted(entries)]

    return _Column(pa.map_(key.kind, value.kind), read)


def _value(field: FieldDescriptor) -> _Column:
    if field.message_type is not None:
        return _inner(field.message_type)
    if field.enum_type is not None:
        return _names_of(field.enum_type, field.name)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _Column(pa.string(), _text)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _Column(pa.binary(), _same)
    return _Column(_NUMBERS[field.cpp_type], _same)


def _inner(kind: Descriptor) -> _Column:
    """Return a message inside another one."""
    name = kind.full_name
    if name == _TIMESTAMP:
        return _Column(pa.timestamp("us", "UTC"), _micros)
    if name in _WRAPPERS:
        wrapped = _value(kind.fields_by_name["value"])
        return _Column(wrapped.kind, lambda message: wrapped.read(message.value))
    if name in _OF_JSON or _is_recursive(kind):
        return _Column(pa.string(), _json)
    if not kind.fields:
        # No table has a column without fields. That it was set is all that there is.
        return _Column(pa.bool_(), lambda _: True)
    return _record(kind)


@cache
def _names_of(kind: EnumDescriptor, field: str) -> _Column:
    name_of = {number: value.name for number, value in kind.values_by_number.items()}

    def read(number: int) -> str:
        if number not in name_of:
            raise ValueError(f"{field} is {number}, which {kind.full_name} has no name for")
        return name_of[number]

    return _Column(pa.string(), read)


@cache
def _is_recursive(kind: Descriptor) -> bool:
    """Tell whether a message may have itself inside, however deep."""
    seen: set[str] = set()
    left = [kind]
    while left:
        for inside in (field.message_type for field in left.pop().fields if field.message_type is not None):
            if inside.full_name == kind.full_name:
                return True
            if inside.full_name not in seen:
                seen.add(inside.full_name)
                left.append(inside)
    return False


def _same(value: Any) -> Any:
    return value


def _text(value: str | bytes) -> str:
    # What proto2 does not look at, Google's library hands on as bytes.
    if isinstance(value, bytes):
        raise ValueError("a text that is no UTF-8")
    return value


def _micros(time: Any) -> int:
    if not (_FIRST_SECOND <= time.seconds <= _LAST_SECOND and 0 <= time.nanos < _NANOS):
        raise ValueError(f"a time of {time.seconds} seconds and {time.nanos} nanoseconds, which is none")
    if time.nanos % 1_000:
        raise ValueError("a time with nanoseconds, which TIMESTAMP does not hold")
    return int(time.seconds) * 1_000_000 + time.nanos // 1_000


def _json(message: Any) -> str:
    _refuse_nameless(message)
    pool = type(message).DESCRIPTOR.file.pool
    try:
        # Sorted, for the same reason as maps.
        return json_format.MessageToJson(
            message,
            preserving_proto_field_name=True,
            indent=None,
            sort_keys=True,
            ensure_ascii=False,
            descriptor_pool=pool,
        )
    # An Any of a message that the descriptors lack.
    except TypeError as error:
        raise ValueError(str(error)) from error


def _refuse_nameless(message: Any) -> None:
    """Refuse numbers of enums without a name, of which JSON makes numbers."""
    for field, part in _parts(message):
        if field.enum_type is not None:
            _names_of(field.enum_type, field.name).read(part)
        elif field.message_type is not None:
            _refuse_nameless(part)


def _parts(message: Any) -> Iterator[tuple[FieldDescriptor, Any]]:
    """Yield the values of a message, those of lists and maps one by one."""
    for field, value in type(message).ListFields(message):
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            yield from ((entry.fields_by_name["value"], value[name]) for name in value)
        elif field.is_repeated:
            yield from ((field, each) for each in value)
        else:
            yield field, value
