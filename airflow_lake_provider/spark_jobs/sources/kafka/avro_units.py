"""Units of Avro's numbers in a topic whose schema has changed them.

Avro resolves a long of the writer to a long of the reader as it is, whatever logical types both have. Registries take
such a schema for compatible. Milliseconds would be read as microseconds, and a decimal with another scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.errors import BadInputError, UnsupportedError
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import (
    Schema,
    full_name,
    last_name,
    meant,
    named_types,
    nearest,
)

# Spark reads both as one type, so that columns stay what they are in the units of any writer.
_FAMILY = frozenset({"timestamp-millis", "timestamp-micros"})
# A time without a zone counts from the same moment, in the same units.
_LOCAL = "local-"


def with_units_of(writer: Schema, reader: Schema, number: int) -> Schema:
    """Return a reader's schema with the units in which a writer has written its times.

    Both are as :func:`record_schema` returns them.

    :param number: of the writer's schema, for the message.
    :raises UnsupportedError: the schemas have a field in units of which Spark makes other types.
    """
    try:
        in_units: Schema = _Units(named_types(writer), named_types(reader), _FAMILY).of(writer, reader, "")
    except _OtherUnitError as error:
        raise UnsupportedError(
            f"schema {number} has {error.path!r} as {error.written}, and the latest one as {error.read}, so that its "
            "values would be read in another unit; register a version that has the new unit in a field of another name"
        ) from None
    return in_units


def refuse_units_of(writer: Schema, reader: Schema, file: str) -> None:
    """Refuse a file that has numbers in other units than the schema by which it is read.

    Both are as :func:`record_schema` returns them.

    :raises BadInputError: it names the first field.
    """
    try:
        _Units(named_types(writer), named_types(reader)).of(writer, reader, "")
    except _OtherUnitError as error:
        raise BadInputError(
            f"{file} has {error.path!r} as {error.written}, and the avroSchema by which it is read as {error.read}, so "
            "that its values would be read in another unit; give the field the unit of the file"
        ) from None


class _OtherUnitError(Exception):
    """A field has one unit where it is written, and another one where it is read."""

    def __init__(self, path: str, written: str, read: str) -> None:
        super().__init__(path)
        self.path, self.written, self.read = path, written, read


@dataclass(frozen=True)
class _Units:
    """Walk of two types at once.

    :param types: of the writer, by full name.
    :param wanted: types of the reader, by full name.
    :param family: units of which one may take the place of another.
    """

    types: Mapping[str, Any]
    wanted: Mapping[str, Any]
    family: frozenset[str] = frozenset()

    def of(self, writer: Any, reader: Any, path: str) -> Any:
        """Return a reader's type in the writer's units; a type that is meant by its name has those of its place."""
        writer = meant(writer, self.types)
        if isinstance(reader, list):
            return [self.of(self._of_branch(writer, reader, place), each, path) for place, each in enumerate(reader)]
        if not isinstance(reader, Mapping):
            return reader
        if isinstance(writer, list):
            writer = nearest(reader, self._branches(writer))
        written = self._namesake(reader) if writer is None else writer
        parts: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
        reader = self._in_unit(parts, reader, path)
        inside = {
            name: self.of(parts.get(name), reader[name], f"{path}.{name}")
            for name in ("items", "values")
            if name in reader
        }
        if "fields" in reader:
            inside["fields"] = [self._field(parts, field, path) for field in reader["fields"]]
        return {**reader, **inside}

    def _field(self, writer: Mapping[str, Any], field: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        there = {each["name"]: each["type"] for each in writer.get("fields", ())}
        name = next((name for name in (field["name"], *field.get("aliases", ())) if name in there), None)
        at = f"{path}.{field['name']}" if path else str(field["name"])
        return {**field, "type": self.of(None if name is None else there[name], field["type"], at)}

    def _namesake(self, reader: Mapping[str, Any]) -> Any:
        """Return the writer's type of a name: later fields, which it has, may mean the reader's by that name."""
        # One in another namespace, where both have but one.
        others = (each for name, each in self.types.items() if name not in self.wanted)
        moved = [each for each in others if last_name(each) == last_name(reader)]
        return self.types.get(full_name(reader)) or (moved[0] if len(moved) == 1 else None)

    def _in_unit(self, writer: Mapping[str, Any], reader: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        written, read = _unit_of(writer), _unit_of(reader)
        if written is None or read is None:
            return reader
        unit, wanted = written.removeprefix(_LOCAL), read.removeprefix(_LOCAL)
        if unit == wanted:
            return reader
        if {unit, wanted} <= self.family:
            return {**reader, "logicalType": read.removesuffix(wanted) + unit}
        raise _OtherUnitError(path, written, read)

    def _branches(self, writer: Any) -> list[Any]:
        return [meant(each, self.types) for each in (writer if isinstance(writer, list) else [writer])]

    def _of_branch(self, writer: Any, reader: list[Any], place: int) -> Any:
        """Return what of a writer's type Avro reads as a branch of the reader's; None for nothing."""
        wanted = [meant(each, self.wanted) for each in reader]
        return nearest(wanted[place], [w for w in self._branches(writer) if nearest(w, wanted) == wanted[place]])


def _unit_of(kind: Mapping[str, Any]) -> str | None:
    """Return the logical type of a number, with the scale of a decimal; None without one."""
    logical = kind.get("logicalType")
    if logical == "decimal":
        return f"decimal of scale {kind.get('scale', 0)}"
    return str(logical) if logical and kind["type"] in ("int", "long") else None
