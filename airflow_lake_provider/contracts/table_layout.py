"""Layout of a table that is created, and the limits on schema evolution."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.contracts.layout_terms import partition_terms, sort_terms


class SchemaEvolution(str, Enum):
    """What a batch may change in the table's schema."""

    EVOLVE = "evolve"
    FREEZE = "freeze"


class MissingColumns(str, Enum):
    """What a column of the table that the batch lacks becomes in the rows of the batch."""

    FAIL = "fail"
    NULL = "null"
    KEEP = "keep"


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """How a missing table is created; an existing table keeps its own layout.

    :param partition_by: columns and transforms of them, for example ``("days(placed_at)", "bucket(16, id)")``.
    :param sort_by: columns and transforms with their order, for example ``("placed_at DESC", "id")``.
    :param file_format: ``parquet | orc | avro``.
    :param target_file_bytes: ``write.target-file-size-bytes``; None keeps Iceberg's default of 512 MiB.
    :param bloom_filter_columns: columns that get a Parquet bloom filter.
    :param properties: further table properties.
    """

    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    file_format: str = "parquet"
    target_file_bytes: int | None = None
    bloom_filter_columns: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file_format not in ("parquet", "orc", "avro"):
            raise InvalidSpecError(f"file format {self.file_format!r} is not one of parquet, orc, avro")
        if self.bloom_filter_columns and self.file_format != "parquet":
            raise InvalidSpecError(f"bloom filters are written to parquet files only, not {self.file_format}")
        ours = sorted(name for name in self.properties if name.startswith("lake."))
        if ours:
            raise InvalidSpecError(f"table properties {ours} belong to this package and cannot be set by hand")
        given = sorted({"location", "provider", "owner"} & {name.lower() for name in self.properties})
        if given:
            raise InvalidSpecError(f"table properties {given} are the catalog's own and cannot be set by hand")
        # Both become part of a statement.
        partition_terms(self.partition_by)
        sort_terms(self.sort_by)
