"""Delete rows that match, once, and say who still holds them; what was deleted is written nowhere."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_lake_provider.contracts.applied.run_key import CLEAR_OR_NEW_RUN
from airflow_lake_provider.contracts.errors import BadInputError, MissingTableError
from airflow_lake_provider.contracts.reports.job import DeleteRowsReport, Outcome
from airflow_lake_provider.contracts.specs.row_changes import DeleteRowsSpec
from airflow_lake_provider.contracts.table_properties import BASE_SNAPSHOT, ERASED_DIGEST
from airflow_lake_provider.spark_jobs.actions.already_applied import recognised_run
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.choose_format import table_of
from airflow_lake_provider.spark_jobs.formats.commits import (
    HolderKind,
    MatchedCommit,
    RetainedRows,
    RowMatch,
    SnapshotHolder,
    state_after_commit,
)
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts
from airflow_lake_provider.spark_jobs.sources.base import SourceLocation
from airflow_lake_provider.spark_jobs.sources.delete_keys import list_keys
from airflow_lake_provider.spark_jobs.sources.input_files import location_of


def delete_rows(spark: SparkSession, spec: DeleteRowsSpec, progress: Progress) -> DeleteRowsReport:
    """Delete the rows, or say why there is nothing to delete.

    :raises CommitConflictError: other writers won every attempt.
    :raises InvalidSpecError: the predicate cannot be taken.
    :raises BadInputError: the keys cannot be taken.
    :raises ForgottenRunError: it cannot be told whether this run has deleted the rows.
    """
    target = table_of(spark, spec)
    files = spec.keys_from.files if spec.keys_from is not None else None
    located = location_of(spark, files.path) if files else SourceLocation()
    report = retry_conflicts(
        lambda attempt: _attempt(spark, spec, target, attempt, progress), spec.max_attempts, progress
    )
    return replace(report, source_location=located.address, warnings=(*report.warnings, *located.warnings))


def _erasure_digest(identity: str) -> tuple[str, str]:
    """Return a digest of the erased keys, which tells nothing without its salt, and the salt."""
    salt = secrets.token_hex(16)
    return hashlib.sha256(f"{salt}\x1f{identity}".encode()).hexdigest(), salt


def _attempt(
    spark: SparkSession, spec: DeleteRowsSpec, target: FormatTable, attempt: int, progress: Progress
) -> DeleteRowsReport:
    with progress.phase("plan"):
        applied_state = target.changeable_state()
        run_key = spec.run.run_key(spec.digest_text(), ())
        # Rows that came since its first try are none that it was asked for, and its keys may be gone by now.
        done = recognised_run(spec, applied_state, run_key, "deleted the rows", way_out=CLEAR_OR_NEW_RUN)
        match, identity, lost = _match(spark, spec, target, is_done=done is not None)
        before = target.state()
    unchanged = DeleteRowsReport(
        table=spec.table, outcome=Outcome.EMPTY_BATCH, reason="there are no keys", run_key=run_key, before=before
    )
    if match is None and done is None:
        return replace(unchanged, after=before, seconds=dict(progress.seconds), attempts=attempt)
    digest, salt = _erasure_digest(identity)
    # Where no row matches, as far as is known; a retry does not look at main before its proof.
    without = None
    if done is not None:
        why = "; ".join(["digest and salt are in the report, and in the log, of the try that committed", *lost])
        digest_then = done.commit.summary.get(ERASED_DIGEST) if done.commit else None
        report = replace(unchanged, erased_digest=digest_then, **replace(done, warning=why).reported(DeleteRowsReport))
    elif match is not None:
        commit = MatchedCommit(
            action=spec.action,
            run_key=run_key,
            base=applied_state.base,
            summary={ERASED_DIGEST: digest, BASE_SNAPSHOT: str(applied_state.base)},
            match=match,
        )
        # Before the commit: a driver that is killed after it writes no report.
        progress.say(f"digest {digest}, salt {salt}")
        applied = target.change(commit, progress)
        without = applied_state.base if applied is None else applied.snapshot
        report = replace(unchanged, outcome=Outcome.NOTHING_NEW, reason="no row of main matches")
        if applied is not None:
            report = replace(
                report,
                outcome=Outcome.APPLIED,
                reason=f"deleted {applied.rows_deleted} rows{applied.settings_clause}",
                committed=(applied.snapshot,),
                rows_deleted=applied.rows_deleted,
                erased_digest=digest,
                digest_salt=salt,
            )
    if match is not None:
        report = _with_proof(spec, target, match, without, report, progress)
    after, unseen = state_after_commit(target.state)
    warnings = (*report.warnings, *unseen)
    return replace(report, after=after, warnings=warnings, seconds=dict(progress.seconds), attempts=attempt)


def _match(
    spark: SparkSession, spec: DeleteRowsSpec, target: FormatTable, *, is_done: bool
) -> tuple[RowMatch | None, str, tuple[str, ...]]:
    """Return which rows, None for no keys, the text that the digest is made of, and warnings.

    :param is_done: a try has deleted them, so that keys which are gone are no failure.
    """
    if spec.keys_from is None:
        return RowMatch(where=spec.where, allow_sql=spec.allow_sql, is_secret=True), str(spec.where), ()
    why = "there are none"
    try:
        listed = list_keys(spark, spec, spec.keys_from, target.schema() or StructType())
        if listed.keys is not None:
            return RowMatch(keys=listed.keys, is_secret=True), listed.identity, ()
    except (BadInputError, MissingTableError) as error:
        if not is_done:
            raise
        why = str(error)
    return None, "", (f"who still holds the rows is not known, as the keys cannot be read again: {why}",)


def _with_proof(
    spec: DeleteRowsSpec,
    target: FormatTable,
    match: RowMatch,
    without: str | None,
    report: DeleteRowsReport,
    progress: Progress,
) -> DeleteRowsReport:
    if not spec.proof:
        return report
    try:
        with progress.phase("proof") as facts:
            retained = target.retained(match, without)
            facts["snapshots"] = len({id_ for holder in retained.holders for id_ in holder.snapshots})
    # What is deleted stays deleted: a task that failed here would be told by its retry that it is done.
    except Exception as error:  # noqa: BLE001
        looked = f"who still holds the rows is not known, looking failed with {type(error).__name__}"
        return replace(report, warnings=(*report.warnings, f"{looked}; run it again in a new run to look again"))
    to_do = still_to_do(retained)
    reason = f"{report.reason}; {_where_retained(retained)}"
    warnings = (*report.warnings, *to_do[:1]) if retained.live else report.warnings
    return replace(
        report,
        reason=reason,
        warnings=warnings,
        retained_by={str(holder): holder.snapshots for holder in retained.holders},
        bounds_in=retained.bounds_in,
        still_to_do=tuple(to_do),
    )


def _about_main(retained: RetainedRows) -> list[str]:
    sentences, what = [], []
    if retained.live:
        sentences.append("rows of main match and are not deleted: clear the task, or delete them in a new run, first")
    if any(holder.is_main for holder in retained.holders):
        what.append("data files of main hold the rows" + ("" if retained.live else " under a delete"))
    if any(holder.is_main for holder in retained.key_holders):
        what.append(f"{retained.key_files} of main hold keys as values")
    if what:
        sentences.append(f"compact the table with level='major' and delete_file_threshold=1: {', and '.join(what)}")
    return sentences


def _where_retained(retained: RetainedRows) -> str:
    if retained.holders:
        return f"files still hold them, kept by {_listed(retained.holders)}"
    return "no data file holds them" + (", but metadata or delete files may name them" if still_to_do(retained) else "")


def still_to_do(retained: RetainedRows) -> list[str]:
    """Return, in order, what removes the rows from where they still are."""
    holders = {str(holder): holder for holder in (*retained.holders, *retained.key_holders)}
    sentences = [*_about_main(retained), *filter(None, map(_how_to_let_go, holders.values()))]
    if any(not holder.is_main for holder in retained.key_holders):
        sentences.append(
            f"{retained.key_files} that {_listed(retained.key_holders)} keep hold keys as values: they go with it"
        )
    sentences.extend(retained.before_expiry)
    if holders or retained.bounds_in:
        sentences.append(
            "then expire the snapshots until now with older_than=timedelta(seconds=1), minimum_age=timedelta(0) and "
            "retain_last=1 in the DAG's code, and run this deletion once more: its report shows what is left"
        )
    return sentences


def _how_to_let_go(holder: SnapshotHolder) -> str | None:
    """Return what frees the snapshots; None where compaction and expiry do."""
    if holder.kind is HolderKind.BRANCH and not holder.is_main:
        return f"branch {holder.name} is not changed by a deletion on main: publish it, or drop it"
    if holder.kind is HolderKind.TAG:
        return f"drop the tag {holder.name}, or move it to a snapshot after the compaction"
    if holder.kind is HolderKind.CONSUMER_TAG:
        return f"let the consumer of {holder.name} read on, which moves its tag, or drop the tag if it is gone"
    return None


def _listed(holders: Sequence[SnapshotHolder]) -> str:
    return ", ".join(map(str, holders))
