"""Plan a snapshot expiry from metadata alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import ExpiryReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import FOREIGN_FILES_REMEDY, ForeignFiles, SnapshotExpirySpec
from airflow_lake_provider.contracts.table_properties import UNFINISHED_EXPIRY
from airflow_lake_provider.iceberg.file_ownership import FileOwners, TableLocation, declared_paths
from airflow_lake_provider.iceberg.snapshot_retention import expiry_sentence, retention_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from airflow_lake_provider.contracts.table_facts import TableState
    from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts

_UNFINISHED = "an earlier expiry was cut off before it had deleted its files; the next one deletes them"


class _Table(Protocol):
    """Table as the plan asks it, such as :class:`.LoadedIcebergTable`."""

    @property
    def facts(self) -> IcebergFacts: ...
    @property
    def warehouse(self) -> str | None: ...
    def state(self) -> TableState: ...
    def unfit_for(self, capability: str, keys: Sequence[str] = ()) -> str | None: ...


def plan_expiry(table: _Table, spec: SnapshotExpirySpec) -> ExpiryReport:
    """Tell which snapshots and left-over stage branches an expiry would remove and which refs keep the others.

    Files are not counted: that needs the manifests of every snapshot, kept ones included.

    :return: the outcome ``skipped`` where the table says ``gc.enabled=false``: its files may belong to other tables.
    :raises UnsupportedError: a file to delete lies outside of the table's locations, or a Flink job could not commit
        any more.
    """
    facts = table.facts
    if (why := table.unfit_for("snapshot-expiry")) is not None:
        return ExpiryReport(table=spec.table, outcome=Outcome.SKIPPED, reason=why, before=table.state())
    request, retention, harm = retention_of(facts, spec, datetime.now(UTC))
    _refuse_foreign_metadata_files(facts, table.warehouse, spec, retention.expired)
    due = retention.expired or retention.stage_branches or retention.aged_refs
    is_unfinished = UNFINISHED_EXPIRY in facts.properties
    sentence = expiry_sentence(retention, request)
    return ExpiryReport(
        table=spec.table,
        outcome=Outcome.PLANNED if due or is_unfinished else Outcome.NOTHING_DUE,
        reason=f"{sentence}; the files that would go were not counted" if due else sentence,
        warnings=(*((_UNFINISHED,) if is_unfinished else ()), *((harm,) if harm is not None else ())),
        before=table.state(),
        snapshots_expired=retention.expired,
        kept_by_refs=retention.kept_by_refs,
        kept_for_flink=retention.kept_for_flink,
        kept_for_sinks=retention.kept_for_sinks,
        stage_branches_removed=retention.stage_branches,
    )


def _refuse_foreign_metadata_files(
    facts: IcebergFacts, warehouse: str | None, spec: SnapshotExpirySpec, expired: Collection[str]
) -> None:
    """Refuse manifest lists and statistics of expired snapshots that lie outside of the table's locations.

    Data files, delete files and manifests are named by files that only the driver reads, and so are other tables. A
    table whose metadata log names another place may have lain there: then the driver decides.

    :raises UnsupportedError: there is one, and the spec does not say what becomes of it.
    """
    location = TableLocation(name=spec.table, location=facts.location, declared=declared_paths(facts.properties))
    owners = FileOwners(table=location, warehouse=warehouse)
    if spec.foreign_files is not ForeignFiles.REFUSE or any(
        owners.owner_of(file) != spec.table for _, file in facts.metadata_log
    ):
        return
    foreign = [what for what, path in _metadata_files(facts, expired) if owners.owner_of(path) != spec.table]
    if foreign:
        raise UnsupportedError(
            f"{spec.table}: the expiry would delete what lies outside of the table's locations: "
            f"{'; '.join(foreign[:3])}. See who wrote these names into its metadata. {FOREIGN_FILES_REMEDY}"
        )


def _metadata_files(facts: IcebergFacts, expired: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield what to say of each file, and its location."""
    for snapshot in facts.snapshots.values():
        if snapshot.id in expired and snapshot.manifest_list:
            yield f"manifest list {snapshot.manifest_list}", snapshot.manifest_list
    for id_, path in facts.statistics:
        if id_ in expired:
            yield f"statistics file {path}", path
