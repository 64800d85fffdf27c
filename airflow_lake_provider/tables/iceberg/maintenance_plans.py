"""Plan from metadata alone: rewrites of manifests, expiries of snapshots and of rows, statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from pyiceberg.expressions import BooleanExpression, LessThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.types import NestedField

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import (
    ExpiryReport,
    Outcome,
    RewriteManifestsReport,
    RowExpiryReport,
    StatisticsReport,
)
from airflow_lake_provider.contracts.row_age import AgeLimit, age_limit, age_sentence, most_rows
from airflow_lake_provider.contracts.specs.maintenance import (
    FOREIGN_FILES_REMEDY,
    ForeignFiles,
    RewriteManifestsSpec,
    RowExpirySpec,
    SnapshotExpirySpec,
    StatisticsSpec,
)
from airflow_lake_provider.contracts.table_facts import Snapshot, TableFacts, TableState
from airflow_lake_provider.contracts.table_properties import EXPIRED_BEFORE, UNFINISHED_EXPIRY
from airflow_lake_provider.iceberg.file_ownership import FileOwners, TableLocation, declared_paths
from airflow_lake_provider.iceberg.manifest_rules import fewest_manifests, manifests_sentence, specs_due
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts
from airflow_lake_provider.iceberg.snapshot_retention import expiry_sentence, retention_of
from airflow_lake_provider.iceberg.statistics_rules import HAS_ALL, columns_to_count

if TYPE_CHECKING:
    from airflow_lake_provider.tables.iceberg.file_groups import FileRecord
    from airflow_lake_provider.tables.iceberg.live_files import LiveFiles

_UNFINISHED = "an earlier expiry was cut off before it had deleted its files; the next one deletes them"


class _Table(Protocol):
    """Table as plans ask it, such as :class:`.LoadedIcebergTable`."""

    @property
    def facts(self) -> IcebergFacts: ...
    @property
    def warehouse(self) -> str | None: ...
    def state(self) -> TableState: ...
    def column(self, name: str) -> NestedField | None: ...
    def live_files(self, where: str | BooleanExpression | None, column: NestedField | None = None) -> LiveFiles: ...
    def unfit_for(self, capability: str, keys: Sequence[str] = ()) -> str | None: ...


def plan_manifests(
    facts: TableFacts, before: TableState, sizes: Mapping[int, Sequence[Sequence[int]]], spec: RewriteManifestsSpec
) -> RewriteManifestsReport:
    """Tell which manifests a rewrite would merge; the list of them is read, and none of them.

    :param before: counts of main's head.
    :param sizes: bytes of its manifests by partition spec, those of data and of deletes apart.
    :raises BrokenMetadataError: their target size of the table is no number.
    """
    due = specs_due(facts, sizes, sort=spec.sort)
    merged = [each for id_ in due for each in sizes[id_]]
    return RewriteManifestsReport(
        table=spec.table,
        outcome=Outcome.PLANNED if due else Outcome.NOTHING_DUE,
        reason=manifests_sentence(sizes, due),
        before=before,
        manifests_rewritten=sum(map(len, merged)),
        manifests_added=sum(fewest_manifests(facts, each) for each in merged),
    )


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
    foreign = [what for what, path in _metadata_files(facts, frozenset(expired)) if owners.owner_of(path) != spec.table]
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


def plan_row_expiry(table: _Table, spec: RowExpirySpec) -> RowExpiryReport:
    """Tell which files have rows that are too old, by their bounds; manifests are read, and no data file.

    Rows are counted at most: of a file with younger ones, nobody knows how many are old.

    :raises InvalidSpecError: the column is missing, or has no time.
    """
    before, shape = table.state(), table.facts.shape
    columns = {name: shape.columns[name] for name in shape.names}
    asked_at = spec.asked_at or datetime.now(UTC)
    limit = age_limit(spec, columns, asked_at, table.facts.ancestors())
    report = RowExpiryReport(
        table=spec.table, outcome=Outcome.NOTHING_NEW, reason=age_sentence(spec, limit), before=before
    )
    if limit is None or before.snapshot is None:
        return report
    old = table.live_files(
        LessThan(term=Reference(spec.column), value=literal(limit.literal)), table.column(spec.column)
    ).data
    old = _without_expired(old, table.facts.ancestors(), limit)
    whole = [file for file in old if _is_whole(file, limit)]
    return RowExpiryReport(
        table=spec.table,
        outcome=Outcome.PLANNED if old else Outcome.NOTHING_NEW,
        reason=f"{report.reason}; {_row_sentence(spec, before, old, whole)}",
        before=before,
        expired_before=limit.literal,
        rows_deleted=_live_rows(old),
        files_removed=len(whole),
        files_changed=len(old) - len(whole),
    )


def _is_whole(file: FileRecord, limit: AgeLimit) -> bool:
    """Tell whether bounds say that all rows are too old."""
    return file.bounds is not None and file.nulls == 0 and bool(file.bounds[1] < limit.number)


def _without_expired(files: Sequence[FileRecord], history: Iterable[Snapshot], limit: AgeLimit) -> list[FileRecord]:
    """Leave out the files that were there when rows of this very age went: bounds go on naming deleted rows."""
    newer: set[str] = set()
    for snapshot in history:
        if snapshot.summary.get(EXPIRED_BEFORE) == limit.text:
            return [file for file in files if file.snapshot is None or file.snapshot in newer]
        newer.add(snapshot.id)
    return list(files)


def _live_rows(files: Iterable[FileRecord]) -> int:
    """Count rows as the run does: without those that deletes of their file alone delete by position."""
    return sum(max(0, file.records - file.deleted_records) for file in files)


def _row_sentence(spec: RowExpirySpec, before: TableState, old: list[FileRecord], whole: list[FileRecord]) -> str:
    if not old:
        return "no file has such a row"
    least, most = _live_rows(whole), _live_rows(old)
    # Of deletes that several files share, nobody knows which rows they are on.
    total = max(before.rows, most)
    limit = most_rows(spec.max_share, before.rows + before.deleted_rows)
    is_refused = limit is not None and most > limit
    refused = f"; more than max_share={spec.max_share:g} would be refused" if is_refused else ""
    shares = " to ".join(f"{count / max(1, total):.0%}" for count in (least, most))
    return f"{least:,} to {most:,} of {total:,} rows would go, {shares}{refused}"


def plan_statistics(
    facts: IcebergFacts,
    before: TableState,
    spec: StatisticsSpec,
    counted: Collection[int],
    of_partitions: Collection[str],
) -> StatisticsReport:
    """Tell which statistics main's head lacks.

    :param before: counts of that head.
    :param counted: field ids of the columns whose distinct values it has.
    :param of_partitions: ids of the snapshots that have those of partitions.
    """
    lacking = ["the table"] if columns_to_count(facts, spec.of_columns, counted).by_id else []
    if before.snapshot is not None and facts.shape.was_partitioned and before.snapshot not in of_partitions:
        lacking.append("its partitions")
    return StatisticsReport(
        table=spec.table,
        outcome=Outcome.PLANNED if lacking else Outcome.NOTHING_DUE,
        reason=f"main's head lacks statistics of {' and '.join(lacking)}" if lacking else HAS_ALL,
        before=before,
        of_snapshot=before.snapshot,
    )


def statistics_at(facts: IcebergFacts) -> datetime | None:
    """Return the moment of main's newest snapshot that has statistics; None where none has.

    Those of another branch, or of what a rollback took off main, help no reader of main.
    """
    ids = {id_ for id_, _ in facts.statistics}
    return next((each.committed_at for each in facts.ancestors() if each.id in ids), None) if ids else None
