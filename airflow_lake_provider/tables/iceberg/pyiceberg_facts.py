"""Facts of a table's metadata as PyIceberg has parsed it."""

from __future__ import annotations

from pyiceberg.table import snapshots as pyiceberg_snapshots
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType

from airflow_lake_provider.contracts.table_facts import Reference, TableShape
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts, IcebergSnapshot, shared_commits, with_originals


def facts_of(name: str, metadata: TableMetadata) -> IcebergFacts:
    """Return what PyIceberg has read of a table's metadata.

    :param name: of the table.
    """
    written = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    shared = shared_commits(
        ((each.snapshot_id, each.parent_snapshot_id, each.timestamp_ms) for each in metadata.snapshots),
        (*(at for at, _ in written), metadata.last_updated_ms),
    )
    snapshots = [_snapshot(each, shares_commit=each.snapshot_id in shared) for each in metadata.snapshots]
    return IcebergFacts(
        name=name,
        uuid=str(metadata.table_uuid),
        location=metadata.location,
        format_version=metadata.format_version,
        properties=metadata.properties,
        snapshots=with_originals(snapshots),
        references={
            name: Reference(
                name=name,
                snapshot=str(ref.snapshot_id),
                is_branch=ref.snapshot_ref_type is SnapshotRefType.BRANCH,
                min_snapshots=ref.min_snapshots_to_keep,
                max_snapshot_age=ref.max_snapshot_age_ms,
                max_ref_age=ref.max_ref_age_ms,
            )
            for name, ref in metadata.refs.items()
        },
        main_log=[(entry.timestamp_ms, str(entry.snapshot_id)) for entry in metadata.snapshot_log],
        metadata_log=written,
        statistics=[
            (str(each.snapshot_id), each.statistics_path)
            for each in (*metadata.statistics, *metadata.partition_statistics)
        ],
        read_shape=lambda: _shape(metadata),
    )


def _snapshot(given: pyiceberg_snapshots.Snapshot, *, shares_commit: bool) -> IcebergSnapshot:
    summary = given.summary
    return IcebergSnapshot(
        id=str(given.snapshot_id),
        parent=None if given.parent_snapshot_id is None else str(given.parent_snapshot_id),
        at=given.timestamp_ms,
        sequence_number=given.sequence_number or 0,
        summary={"operation": summary.operation.value, **summary.additional_properties} if summary else {},
        schema_id=given.schema_id,
        first_row_id=given.first_row_id,
        manifest_list=given.manifest_list,
        shares_commit=shares_commit,
    )


def _shape(metadata: TableMetadata) -> TableShape:
    orders = {order.order_id: order for order in metadata.sort_orders}
    return TableShape(
        format_version=metadata.format_version,
        properties=metadata.properties,
        schemas={each.schema_id: each.model_dump(mode="json") for each in metadata.schemas},
        schema_id=metadata.current_schema_id,
        partition_specs={
            spec.spec_id: [field.model_dump(mode="json") for field in spec.fields] for spec in metadata.partition_specs
        },
        spec_id=metadata.default_spec_id,
        sort_order=[field.model_dump(mode="json") for field in orders[metadata.default_sort_order_id].fields],
    )
