"""Partitions as manifests have them: their types, their names, and the ranges that a manifest says."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, PrimitiveType

# What a text or a number of a damaged manifest, or a column that the schema lacks now, ends in.
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, LookupError)


def partition_types(metadata: TableMetadata) -> Mapping[int, Sequence[IcebergType]]:
    """Return the types of the partition fields of each spec, by the current schema."""
    schema = metadata.schema()
    return {
        spec.spec_id: [field.field_type for field in spec.partition_type(schema).fields]
        for spec in metadata.partition_specs
    }


def partition_ranges(manifest: ManifestFile, types: Sequence[IcebergType]) -> tuple[tuple[Any, Any] | None, ...]:
    """Return the lowest and the highest value of each partition field of a manifest; None where it does not say."""
    summaries = manifest.partitions or []
    return tuple(
        _range(summary.lower_bound, summary.upper_bound, kind) for summary, kind in zip(summaries, types, strict=False)
    )


def _range(low: bytes | None, high: bytes | None, kind: IcebergType) -> tuple[Any, Any] | None:
    if low is None or high is None or not isinstance(kind, PrimitiveType):
        return None
    try:
        return from_bytes(kind, low), from_bytes(kind, high)
    except _UNREADABLE:
        return None


def partition_path(metadata: TableMetadata, spec_id: int, values: Hashable) -> str:
    """Return a partition as Iceberg's paths have it, ``day=2026-11-26``; its plain values where a column is gone.

    :param values: one for each field of the spec.
    """
    given = values if isinstance(values, tuple) else (values,)
    spec = metadata.specs().get(spec_id)
    if spec is None or not spec.fields:
        return ""
    try:
        return spec.partition_to_path(Record(*given), metadata.schema())
    except _UNREADABLE:
        pairs = zip((field.name for field in spec.fields), given, strict=False)
        return "/".join(f"{name}={value}" for name, value in pairs)
