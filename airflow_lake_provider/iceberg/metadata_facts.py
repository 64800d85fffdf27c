"""Read a table's facts from its metadata in the JSON of Iceberg's spec, as Iceberg and PyIceberg write it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_lake_provider.contracts.table_facts import MAIN, Reference, Snapshot, TableFacts, TableShape
from airflow_lake_provider.iceberg.history_checks import refuse_broken_history


def facts_of(name: str, metadata: Mapping[str, Any]) -> TableFacts:
    """Return what a table's metadata says.

    :param name: of the table.
    :param metadata: of any format version.
    :raises BrokenMetadataError: the snapshots are such as no writer makes.
    """
    given = metadata.get("snapshots") or ()
    moved = [(entry["timestamp-ms"], str(entry["snapshot-id"])) for entry in metadata.get("snapshot-log") or ()]
    written = [(entry["timestamp-ms"], entry["metadata-file"]) for entry in metadata.get("metadata-log") or ()]
    refs = _references(metadata)
    refuse_broken_history(
        name,
        ((each["snapshot-id"], each.get("parent-snapshot-id"), each["timestamp-ms"]) for each in given),
        (at for at, _ in (*moved, *written)),
        {ref.name: int(ref.snapshot) for ref in refs},
    )
    snapshots = [_snapshot(each) for each in given]
    shape = _shape(metadata)
    statistics = (*(metadata.get("statistics") or ()), *(metadata.get("partition-statistics") or ()))
    return TableFacts(
        name=name,
        uuid=str(metadata.get("table-uuid", "")),
        location=metadata["location"],
        format_version=shape.format_version,
        properties=shape.properties,
        snapshots={each.id: each for each in snapshots},
        references={ref.name: ref for ref in refs},
        main_log=moved,
        metadata_log=written,
        statistics=[(str(each["snapshot-id"]), each["statistics-path"]) for each in statistics],
        read_shape=lambda: shape,
    )


def _snapshot(given: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        id=str(given["snapshot-id"]),
        parent=None if (parent := given.get("parent-snapshot-id")) is None else str(parent),
        at=given["timestamp-ms"],
        sequence_number=given.get("sequence-number") or 0,
        summary=given.get("summary") or {},
        schema_id=given.get("schema-id"),
        first_row_id=given.get("first-row-id"),
        manifest_list=given.get("manifest-list"),
    )


def _references(metadata: Mapping[str, Any]) -> list[Reference]:
    refs = dict(metadata.get("refs") or {})
    current = metadata.get("current-snapshot-id")
    if current not in (None, -1):
        # Writers of version 1 know no branches.
        refs.setdefault(MAIN, {"snapshot-id": current, "type": "branch"})
    return [
        Reference(
            name=name,
            snapshot=str(ref["snapshot-id"]),
            is_branch=ref["type"] == "branch",
            min_snapshots=ref.get("min-snapshots-to-keep"),
            max_snapshot_age=ref.get("max-snapshot-age-ms"),
            max_ref_age=ref.get("max-ref-age-ms"),
        )
        for name, ref in refs.items()
    ]


def _shape(metadata: Mapping[str, Any]) -> TableShape:
    # Version 1 has one schema and one spec, beside the lists or in their place.
    schemas = metadata.get("schemas") or [metadata["schema"]]
    specs = metadata.get("partition-specs") or [{"spec-id": 0, "fields": metadata.get("partition-spec") or []}]
    orders = {order["order-id"]: order["fields"] for order in metadata.get("sort-orders") or ()}
    return TableShape(
        format_version=int(metadata["format-version"]),
        properties=metadata.get("properties") or {},
        schemas={schema.get("schema-id", 0): schema for schema in schemas},
        schema_id=metadata.get("current-schema-id", 0),
        partition_specs={spec["spec-id"]: spec["fields"] for spec in specs},
        spec_id=metadata.get("default-spec-id", 0),
        sort_order=orders.get(metadata.get("default-sort-order-id"), ()),
    )
