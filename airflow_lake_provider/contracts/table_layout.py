"""Layout of a table that an operator creates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_lake_provider.contracts.argument_validation import flag, names, optional, options
from airflow_lake_provider.contracts.author_object import AuthorObject, reads
from airflow_lake_provider.contracts.code_properties import code_properties
from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.layout_terms import partition_terms, sort_terms
from airflow_lake_provider.contracts.sizes import size


def _file_format(value: object, name: str) -> str:
    if value not in ("parquet", "orc", "avro"):
        raise InvalidSpecError(f"{name} must be one of parquet, orc, avro, got {value!r}")
    return str(value)


def _partition_by(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "columns or transforms of them, such as ['days(at)']")


def _sort_by(value: object, name: str) -> tuple[str, ...]:
    return names(value, name, "columns with their order, such as ['at DESC']")


@dataclass(frozen=True, kw_only=True)
class TableLayout(AuthorObject):
    """Layout with which a missing table is created; an existing table keeps its own.

    :param partition_by: columns and transforms of them, for example ``("days(placed_at)", "bucket(16, id)")``.
    :param sort_by: columns and transforms with their order, for example ``("placed_at DESC", "id")``.
    :param file_format: ``parquet | orc | avro``; None takes the catalog's default, which is Parquet.
    :param target_file_size: ``"256MB"`` or a number of bytes; None keeps Iceberg's default of 512 MiB.
    :param bloom_filter_columns: columns that get a Parquet bloom filter.
    :param properties: further table properties; texts, numbers and booleans. ``{"format-version": "2"}`` for a table
        that PyIceberg 0.12 is to append to, as it writes no version 3; changes are read from version 3 alone.
    """

    partition_by: Sequence[str] = field(default=(), metadata=reads(_partition_by))
    sort_by: Sequence[str] = field(default=(), metadata=reads(_sort_by))
    file_format: str | None = field(default=None, metadata=reads(optional(_file_format)))
    target_file_size: int | str | None = field(default=None, metadata=reads(optional(size)))
    bloom_filter_columns: Sequence[str] = field(default=(), metadata=reads(names))
    properties: Mapping[str, Any] = field(default_factory=dict, metadata=reads(options))

    def complete(self) -> None:
        """Refuse properties that are not the author's, and terms that Iceberg has not got."""
        if self.bloom_filter_columns and self.file_format not in (None, "parquet"):
            raise InvalidSpecError(f"bloom filters are written to parquet files only, not {self.file_format}")
        ours = sorted(name for name in self.properties if name.strip().lower().startswith("lake."))
        if ours:
            raise InvalidSpecError(f"table properties {ours} belong to this package and cannot be set by hand")
        self._refuse_code()
        reserved = {"location", "provider", "owner", "external", "is_managed_location"}
        given = sorted(reserved & {name.strip().lower() for name in self.properties})
        if given:
            raise InvalidSpecError(f"table properties {given} are the catalog's own and cannot be set by hand")
        # Both become part of a statement.
        partition_terms(self.partition_by)
        sort_terms(self.sort_by)

    def _refuse_code(self) -> None:
        unsafe = code_properties(self.properties, of_python=True)
        if unsafe:
            raise InvalidSpecError(
                f"table properties {sorted(unsafe)} choose code, or where keys go, and cannot be set here; for all new "
                "tables of a catalog the connection's extra may say table-default.<property> in its spark"
            )


def table_layout(value: object, name: str = "create") -> TableLayout | None:
    """Return the layout of a missing table; None when it must not be created.

    :param value: a layout, a mapping of its fields, True for the plain layout, or False.
    :raises InvalidSpecError: it is none of these.
    """
    if isinstance(value, TableLayout):
        return value
    if isinstance(value, Mapping):
        return TableLayout.from_mapping(value, name)
    if isinstance(value, str):
        value = flag(value, name)
    if not isinstance(value, bool):
        raise InvalidSpecError(f"{name} must be True, False, a mapping or a TableLayout, got {value!r}")
    return TableLayout() if value else None


def layout_or_none(value: object, name: str = "create") -> TableLayout | None:
    """Return the layout of a missing table, as a spec has it: None where the table must not be created."""
    return None if value is None else table_layout(value, name)
