"""Snapshot expiry of an Iceberg table, by reachability and never by Iceberg's incremental clean-up.

It computes the files, checks them, commits once and deletes them. All that may fail or be refused comes before the
commit: nothing is forgotten whose files cannot be found.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from airflow_lake_provider.contracts.commit_retries import CommitRetries
from airflow_lake_provider.contracts.errors import CommitConflictError, UnknownOutcomeError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import ExpiryReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import ForeignFiles, SnapshotExpirySpec
from airflow_lake_provider.contracts.table_properties import UNFINISHED_EXPIRY
from airflow_lake_provider.iceberg.file_ownership import FileOwners
from airflow_lake_provider.iceberg.snapshot_retention import (
    FOREVER,
    Retention,
    RetentionRequest,
    expiry_sentence,
    retention_of,
)
from airflow_lake_provider.iceberg.table_obstacles import without_expiry
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_invariants import refuse_lost_refs
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import (
    conflict_message,
    is_unknown,
    root_message,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.expired_files import expired_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.file_owners import file_owners, refuse_twins
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import (
    DATA,
    DELETES,
    MANIFEST,
    MANIFEST_LIST,
    STATISTICS,
    named_by,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import as_number_list
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS, JavaError
from airflow_lake_provider.spark_jobs.progress import Progress, say

# Each costs one commit where other writers only add, and all of it where they move what the expiry was computed on.
_COMMITS, _PLANS = 20, 3


def expire(table: IcebergTable, spec: SnapshotExpirySpec, progress: Progress) -> ExpiryReport:
    """Remove left-over stage branches, expire snapshots and delete the files that no kept snapshot reaches.

    Branches, tags and their own retention are respected as Iceberg does. An expiry makes no snapshot, so what went is
    found by reading the snapshots before and after.

    :return: the outcome ``skipped`` where the table says ``gc.enabled=false``.
    :raises UnsupportedError: a file is missing, or files may not be the table's.
    :raises UnknownOutcomeError: the answer to the commit was lost; no file was deleted.
    """
    with progress.phase("plan") as facts:
        before = table.refresh().state()
        if (why := without_expiry(table.facts.properties)) is not None:
            return ExpiryReport(table=spec.table, outcome=Outcome.SKIPPED, reason=why, before=before, after=before)
        request, retention, harm = retention_of(table.facts, spec, datetime.now(UTC))
        facts.update({"snapshots": len(retention.expired), "stage branches": len(retention.stage_branches)})
    report = ExpiryReport(
        table=spec.table,
        outcome=Outcome.NOTHING_DUE,
        reason=expiry_sentence(retention, request),
        before=before,
        after=before,
        warnings=(harm,) if harm is not None else (),
        kept_by_refs=retention.kept_by_refs,
        kept_for_flink=retention.kept_for_flink,
        kept_for_sinks=retention.kept_for_sinks,
    )
    is_due = bool(retention.expired or retention.stage_branches or retention.aged_refs)
    if is_due or UNFINISHED_EXPIRY in table.properties():
        report = _expire(table, spec, request, progress, retention, report, is_due=is_due)
    return replace(report, seconds=dict(progress.seconds))


def _expire(
    table: IcebergTable,
    spec: SnapshotExpirySpec,
    request: RetentionRequest,
    progress: Progress,
    retention: Retention,
    report: ExpiryReport,
    *,
    is_due: bool,
) -> ExpiryReport:
    snapshots = table.facts.snapshots
    try:
        refusal = None
        committed = commit_expiry(table, spec, request, retention, progress, is_due=is_due)
    except CommitConflictError as error:
        committed, refusal = CommittedExpiry(), str(error)
    table.refresh()
    left, refs = table.facts.snapshots, table.facts.references
    return replace(
        report,
        outcome=Outcome.DONE if refusal is None else Outcome.CONFLICT,
        reason=report.reason if refusal is None else refusal,
        after=table.state(),
        warnings=(*report.warnings, *committed.warnings),
        snapshots_expired=tuple(id_ for id_ in snapshots if id_ not in left),
        stage_branches_removed=tuple(name for name in retention.stage_branches if name not in refs),
        **_deleted(committed.deleted),
    )


def _deleted(by_kind: dict[str, int]) -> dict[str, Any]:
    return {
        "data_files_deleted": by_kind.get(DATA, 0),
        "delete_files_deleted": by_kind.get(DELETES, 0),
        "manifests_deleted": by_kind.get(MANIFEST, 0),
        "manifest_lists_deleted": by_kind.get(MANIFEST_LIST, 0),
        "statistics_deleted": by_kind.get(STATISTICS, 0),
    }


@dataclass(frozen=True, kw_only=True)
class CommittedExpiry:
    """Files that an expiry deleted and kept.

    :param warnings: files that were kept, and what was not looked at.
    """

    deleted: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def commit_expiry(
    table: IcebergTable,
    spec: SnapshotExpirySpec,
    request: RetentionRequest,
    retention: Retention,
    progress: Progress,
    *,
    is_due: bool = True,
) -> CommittedExpiry:
    """Forget snapshots and stage branches in one commit, and delete the files that no other snapshot reaches.

    Before that, what an earlier expiry had no time to delete.

    :param retention: which stage branches go, and which snapshots stay for writers.
    :param is_due: False where only that is to be done.
    :raises UnsupportedError: a file is missing or not the table's, or the namespace has the table twice.
    :raises BrokenInvariantError: a branch or tag would go that is to stay; nothing changed.
    :raises CommitConflictError: other commits were in the way each time. As above, nothing changed then.
    :raises UnknownOutcomeError: the answer to the commit was lost; no file was deleted.
    """
    with progress.phase("check owners"):
        owners, not_checked = file_owners(table)
        refuse_twins(table, owners, spec.foreign_files)
    with progress.phase("finish an earlier expiry") as facts:
        finished, left = finish_expiry(table, owners, spec.foreign_files)
        facts.update(finished)
    # Files of the one before are left: its note stays.
    is_left = UNFINISHED_EXPIRY in table.properties()
    if not is_due:
        return CommittedExpiry(deleted=finished, warnings=(*left, *_unchecked(not_checked)))
    for _ in range(_PLANS):
        expiry = _planned(table, request, retention)
        refuse_lost_refs(table, expiry, lambda: _leaving(table, spec, retention))
        before, after = expiry.startMetadata(), expiry.currentMetadata()
        with (
            progress.phase("find files") as facts,
            expired_files(table, owners, spec.foreign_files, before, after) as files,
        ):
            files.refuse_foreign()
            facts.update(dict(files.counts))
            with progress.phase("commit"):
                committed = _commit(table, expiry, request, retention.stage_branches)
            if committed:
                with progress.phase("delete files"):
                    deleted, not_deleted = files.delete(_named_meanwhile(table, before))
                    left += not_deleted
                    left += remove_note(table) if _expired(table, expiry) and not (is_left or not_deleted) else []
                warnings = (*left, *files.warnings(), *_unchecked(not_checked))
                return CommittedExpiry(deleted=Counter(deleted) + Counter(finished), warnings=warnings)
    raise CommitConflictError(f"{table.name}: the snapshots to expire changed {_PLANS} times while they were looked at")


def _leaving(table: IcebergTable, spec: SnapshotExpirySpec, retention: Retention) -> set[str]:
    """Return the refs that go; one may have come of age since the plan."""
    _, by_now, _ = retention_of(table.facts, spec, datetime.now(UTC))
    return {*retention.stage_branches, *by_now.aged_refs}


def _unchecked(not_checked: list[str]) -> list[str]:
    if not not_checked:
        return []
    return [f"not looked at, so that files of theirs would not have been noticed: {'; '.join(not_checked)}"]


def _planned(table: IcebergTable, request: RetentionRequest, retention: Retention) -> Any:
    """Return the transaction of :func:`_by_age`, less what stays for Flink's jobs and Kafka's sinks."""
    expiry = _by_age(table, request, retention.stage_branches)
    ids = _expired(table, expiry)
    kept = set(map(int, retention.kept_for_flink | retention.kept_for_sinks))
    if ids.isdisjoint(kept):
        return expiry
    return _by_id(table, ids - kept, retention.stage_branches)


def _by_age(table: IcebergTable, request: RetentionRequest, stage_branches: tuple[str, ...]) -> Any:
    """Return an ``org.apache.iceberg.Transaction`` that expires by the rules, not committed."""
    transaction = _without_branches(table, stage_branches)
    expiry = transaction.expireSnapshots().cleanExpiredFiles(False)
    expiry.expireOlderThan(request.expire_before).retainLast(request.retain_last).commit()
    if _expired(table, transaction):
        note_unfinished(transaction)
    return transaction


def _by_id(table: IcebergTable, ids: set[int], stage_branches: tuple[str, ...]) -> Any:
    """Return a transaction that expires the same snapshots of newer metadata."""
    transaction = _without_branches(table, stage_branches)
    ages = _own_ages(transaction.currentMetadata())
    _set_ages(transaction, dict.fromkeys(ages, FOREVER))
    # The beginning of time, as otherwise the table's default age would expire others as well.
    expiry = transaction.expireSnapshots().cleanExpiredFiles(False).expireOlderThan(0)
    for snapshot in sorted(ids & _ids(table, transaction.startMetadata())):
        expiry = expiry.expireSnapshotId(snapshot)
    expiry.commit()
    _set_ages(transaction, ages)
    if _expired(table, transaction):
        note_unfinished(transaction)
    return transaction


def _own_ages(metadata: Any) -> dict[str, int]:
    """Return the ages of snapshots that branches have of their own, by which Iceberg would expire others as well."""
    refs = metadata.refs()
    ages = {str(name): refs.get(name).maxSnapshotAgeMs() for name in refs.keySet()}
    return {name: int(age) for name, age in ages.items() if age is not None}


def _set_ages(transaction: Any, ages: dict[str, int]) -> None:
    refs = transaction.currentMetadata().refs()
    # An expiry also removes branches that are past an age of their own.
    there = {name: age for name, age in ages.items() if refs.containsKey(name)}
    if there:
        manage = transaction.manageSnapshots()
        for name, age in there.items():
            manage = manage.setMaxSnapshotAgeMs(name, age)
        manage.commit()


def _without_branches(table: IcebergTable, names: tuple[str, ...]) -> Any:
    transaction = table.java.newTransaction()
    there = [name for name in names if transaction.startMetadata().refs().containsKey(name)]
    if there:
        manage = transaction.manageSnapshots()
        for name in there:
            manage = manage.removeBranch(name)
        manage.commit()
    return transaction


def _commit(table: IcebergTable, expiry: Any, request: RetentionRequest, stage_branches: tuple[str, ...]) -> bool:
    """Commit, again on newer metadata where another commit came first; False where the plan does not hold for it."""
    ids = _expired(table, expiry)
    for _ in CommitRetries.of(str(table.name), table.properties(), _COMMITS).attempts(say):
        try:
            if ids or expiry.startMetadata().refs().size() != expiry.currentMetadata().refs().size():
                table.java.operations().commit(expiry.startMetadata(), expiry.currentMetadata())
            return True
        except JavaError as error:
            refusal = _refusal(table, error)
        left = ids & _ids(table, table.refresh().java.operations().current())
        if ids and not left:
            # It was sent twice: the second was refused because the first went through.
            return True
        try:
            # A branch may have gone back, and now needs as its newest snapshots what was older than these before.
            if left - _expired(table, _by_age(table, request, stage_branches)):
                return False
            expiry = _by_id(table, ids, stage_branches)
        except SPARK_ERRORS:
            # A branch or a tag came to one of them; PySpark has a class of its own for what Iceberg says then.
            return False
        if _expired(table, expiry) - ids:
            return False
    raise CommitConflictError(f"{table.name}: other commits were in the way each time: {refusal}")


def _expired(table: IcebergTable, expiry: Any) -> set[int]:
    return _ids(table, expiry.startMetadata()) - _ids(table, expiry.currentMetadata())


def _ids(table: IcebergTable, metadata: Any) -> set[int]:
    return set(as_number_list(table.spark, metadata.snapshots(), java_functions(table.spark).snapshot_id))


def _refusal(table: IcebergTable, error: JavaError) -> str:
    if is_unknown(error):
        raise UnknownOutcomeError(
            f"{table.name}: the catalog did not answer the expiry's commit, so it may have been made; no file was "
            f"deleted. Run it again; if it was made, the next expiry deletes its files. {root_message(error)}"
        ) from error
    refusal = conflict_message(error)
    if refusal is None:
        raise error
    return refusal


def _named_meanwhile(table: IcebergTable, before: Any) -> set[str]:
    """Return what snapshots name that were committed after the metadata that the files were computed from."""
    ids_before = _ids(table, before)
    ids = _ids(table, table.refresh().java.operations().current()) - ids_before
    return named_by(table, [table.java.snapshot(id_) for id_ in ids]) if ids else set()


def note_unfinished(transaction: Any) -> None:
    """Add the note to the transaction of an expiry; an older one stays, as its metadata reaches more."""
    before = transaction.startMetadata()
    if not before.properties().containsKey(UNFINISHED_EXPIRY):
        transaction.updateProperties().set(UNFINISHED_EXPIRY, before.metadataFileLocation()).commit()


def finish_expiry(table: IcebergTable, owners: FileOwners, foreign: ForeignFiles) -> tuple[dict[str, int], list[str]]:
    """Delete the files that an earlier expiry has left, and remove its note where all could be deleted.

    :return: files deleted, by kind, and warnings; nothing without a note.
    """
    location = table.properties().get(UNFINISHED_EXPIRY)
    if location is None:
        return {}, []
    try:
        deleted, not_deleted, warnings = _delete_left(table, owners, foreign, location)
    except UnsupportedError as error:
        untold = (
            "an earlier expiry was cut off before it had deleted its files, and what is left of them cannot be told: "
            f"{error}. Iceberg's remove_orphan_files finds it"
        )
        deleted, not_deleted, warnings = {}, [], [untold]
    return deleted, [*warnings, *(not_deleted or remove_note(table))]


def remove_note(table: IcebergTable) -> list[str]:
    """Say on the table that the files are deleted, and return warnings; the next expiry looks for what that leaves."""
    try:
        table.refresh().java.updateProperties().remove(UNFINISHED_EXPIRY).commit()
    except JavaError as error:
        return [f"the files are deleted, and {UNFINISHED_EXPIRY} could not be removed: {root_message(error)}"]
    finally:
        with suppress(Exception):
            table.refresh()
    return []


def _delete_left(
    table: IcebergTable, owners: FileOwners, foreign: ForeignFiles, location: str
) -> tuple[dict[str, int], list[str], list[str]]:
    io = table.java.io()
    # A property can name any file that the driver may read.
    if f"{location.rpartition('/')[0]}/" not in table.metadata_folders():
        raise UnsupportedError(f"{table.name}: {UNFINISHED_EXPIRY} names {location}, which is no metadata of the table")
    if not io.newInputFile(location).exists():
        raise UnsupportedError(f"{table.name}: {location}, the metadata of before it, is gone")
    before, after = table.iceberg.TableMetadataParser.read(io, location), table.java.operations().current()
    if str(before.uuid()) != table.uuid:
        raise UnsupportedError(f"{table.name}: {location} is metadata of another table")
    with expired_files(table, owners, foreign, before, after, was_begun=True) as files:
        # What may be another table's is kept, and said.
        return *files.delete(), files.warnings()
