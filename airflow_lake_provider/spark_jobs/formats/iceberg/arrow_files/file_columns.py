"""Read the columns of a Parquet file by Iceberg's field ids, as the table's schema has them now.

What is not surely read alike is refused with an ``UnsupportedError``: types, names and changes of a schema alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from airflow_lake_provider.contracts.errors import UnsupportedError

FIELD_ID = b"PARQUET:field_id"
# ``MetadataColumns`` of Iceberg.
ROW_ID, LAST_CHANGE = 2147483540, 2147483539
# Iceberg writes others in another spelling.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_PROMOTED = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


def arrow_schema(schema: Mapping[str, Any], *, has_row_lineage: bool) -> pa.Schema:
    """Return the Arrow schema of new files.

    :param schema: Iceberg's, as its JSON has it.
    :param has_row_lineage: the columns of row ids and last changes come last.
    :raises UnsupportedError: naming a field that is not surely written as Iceberg writes it.
    """
    fields = [_field(each) for each in schema["fields"]]
    if has_row_lineage:
        lineage = {"_row_id": ROW_ID, "_last_updated_sequence_number": LAST_CHANGE}
        fields += [_with_id(pa.field(name, pa.int64()), id_) for name, id_ in lineage.items()]
    return pa.schema(fields)


def id_of(arrow: pa.Field) -> int | None:
    """Return the field id of a column; None where the file has none."""
    text = (arrow.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def _field(of_schema: Mapping[str, Any]) -> pa.Field:
    name = str(of_schema["name"])
    if not _NAME.fullmatch(name):
        raise UnsupportedError(f"Iceberg spells the column {name!r} in another way in files")
    if "initial-default" in of_schema:
        raise UnsupportedError(f"column {name} has a default for older files")
    return _with_id(pa.field(name, _type(of_schema["type"], name), not of_schema["required"]), of_schema["id"])


def _with_id(arrow: pa.Field, id_: int) -> pa.Field:
    return arrow.with_metadata({FIELD_ID: str(id_).encode()})


def _type(kind: str | Mapping[str, Any], name: str) -> pa.DataType:
    if isinstance(kind, str):
        return _primitive(kind, name)
    if kind["type"] == "struct":
        return pa.struct([_field(each) for each in kind["fields"]])
    if kind["type"] == "list":
        element = pa.field("element", _type(kind["element"], name), not kind["element-required"])
        return pa.list_(_with_id(element, kind["element-id"]))
    if kind["type"] == "map":
        key = _with_id(pa.field("key", _type(kind["key"], name), nullable=False), kind["key-id"])
        value = pa.field("value", _type(kind["value"], name), not kind["value-required"])
        return pa.map_(key, _with_id(value, kind["value-id"]))
    raise UnsupportedError(f"column {name} is of type {kind['type']}")


def _primitive(kind: str, name: str) -> pa.DataType:
    if kind in _TYPES:
        return _TYPES[kind]
    if number := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(number[1]), int(number[2]))
    raise UnsupportedError(f"column {name} is of type {kind}")


@dataclass(frozen=True, kw_only=True)
class FileColumns:
    """Columns of a file that go into new ones.

    :param in_file: schema of the file.
    :param table: :func:`arrow_schema`.
    :param partition_sources: field ids that partitions are made of; files of an import may lack them.
    :raises UnsupportedError: a column is not surely read as Iceberg reads it.
    """

    in_file: pa.Schema
    table: pa.Schema
    partition_sources: frozenset[int] = frozenset()
    of_file: dict[int, pa.Field] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for column in self.in_file:
            id_ = id_of(column)
            if id_ is None or id_ in self.of_file or "." in column.name:
                raise UnsupportedError(f"a file has the column {column.name!r} without a field id of its own")
            self.of_file[id_] = column
        for wanted in self.table:
            self._refuse_unlike(wanted, id_of(wanted) or 0)
        if not self.names:
            raise UnsupportedError("a file has none of the table's columns")

    def _refuse_unlike(self, wanted: pa.Field, id_: int) -> None:
        stored = self.of_file.get(id_)
        if stored is None:
            if not wanted.nullable or id_ in self.partition_sources:
                raise UnsupportedError(f"a file lacks the column {wanted.name}")
        elif stored.nullable and not wanted.nullable:
            raise UnsupportedError(f"a file has column {wanted.name} with nulls")
        elif not (_is_alike(stored.type, wanted.type) or _is_promoted(stored.type, wanted.type)):
            raise UnsupportedError(f"a file has column {wanted.name} as {stored.type}, the table as {wanted.type}")

    @property
    def names(self) -> list[str]:
        """Names of the columns to read, as the file has them."""
        ids = [id_of(column) for column in self.table]
        return [self.of_file[id_].name for id_ in ids if id_ in self.of_file]

    def arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of a batch in the order of the table; those that the file lacks are null."""
        return [self._array(batch, column) for column in self.table]

    def _array(self, batch: pa.RecordBatch, wanted: pa.Field) -> pa.Array:
        stored = self.of_file.get(id_of(wanted) or 0)
        if stored is None:
            return pa.nulls(batch.num_rows, wanted.type)
        values = batch.column(stored.name)
        return values if values.type == wanted.type else values.cast(wanted.type)


def _is_promoted(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_decimal128(stored) and pa.types.is_decimal128(wanted):
        return bool(stored.scale == wanted.scale and stored.precision <= wanted.precision)
    return (stored, wanted) in _PROMOTED


def _is_alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether types are equal; the fields of nested ones by name and id. Of a file they may lack nulls."""
    if stored.id != wanted.id or stored.num_fields != wanted.num_fields:
        return False
    if not stored.num_fields:
        return bool(stored.equals(wanted))
    if pa.types.is_map(stored):
        pairs = [(stored.key_field, wanted.key_field), (stored.item_field, wanted.item_field)]
    else:
        pairs = [(stored.field(place), wanted.field(place)) for place in range(stored.num_fields)]
    return all(_is_same_field(left, right, is_named=pa.types.is_struct(stored)) for left, right in pairs)


def _is_same_field(stored: pa.Field, wanted: pa.Field, *, is_named: bool) -> bool:
    return (
        id_of(stored) == id_of(wanted) is not None
        and (wanted.nullable or not stored.nullable)
        and (stored.name == wanted.name or not is_named)
        and _is_alike(stored.type, wanted.type)
    )
