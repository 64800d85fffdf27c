"""Units of Avro's numbers in a topic whose schema has changed them.

Avro resolves a long of the writer to a long of the reader as it is, whatever logical types both have. Registries take
such a schema for compatible. Milliseconds would be read as microseconds, and a decimal with another scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.spark_jobs.sources.kafka.framed_avro import (
    Schema,
    full_name,
    last_name,
    meant,
    named_types,
    nearest,
)

# Spark reads each of a family as one type, so that columns stay what they are in the units of any writer.
_FAMILIES = (
    {"timestamp-millis", "timestamp-micros"},
    {"local-timestamp-millis", "local-timestamp-micros"},
)


def with_units_of(writer: Schema, reader: Schema, number: int) -> Schema:
    """Return a reader's schema with the units in which a writer has written its times.

    Both are as :func:`record_schema` returns them.

    :param number: of the writer's schema, for the message.
    :raises UnsupportedError: the schemas have a field in units of which Spark makes other types.
    """
    in_units: Schema = _Units(named_types(writer), named_types(reader), number).of(writer, reader, "")
    return in_units


@dataclass(frozen=True)
class _Units:
    """Walk of two types at once.

    :param types: of the writer, by full name.
    :param wanted: types of the reader, by full name.
    """

    types: Mapping[str, Any]
    wanted: Mapping[str, Any]
    number: int

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
        units = [_unit_of(each) for each in (writer, reader)]
        if None in units or units[0] == units[1]:
            return reader
        if any(set(units) <= family for family in _FAMILIES):
            return {**reader, "logicalType": units[0]}
        raise UnsupportedError(
            f"schema {self.number} has {path!r} as {units[0]}, and the latest one as {units[1]}, so that its values "
            "would be read in another unit; register a version that has the new unit in a field of another name"
        )

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
