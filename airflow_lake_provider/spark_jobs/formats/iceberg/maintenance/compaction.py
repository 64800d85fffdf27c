"""Compaction of an Iceberg table, which loses each conflict: commits of writers are never undone.

The level ``minor`` rewrites wrongly sized files and files past the delete ratio, ``major`` also every file with a
delete file (``delete_file_threshold``), ``full`` everything. ``auto`` is ``major`` when the head's summary shows a debt
of deletes, and ``minor`` otherwise. The rules are in ``iceberg/compaction_rules.py``, shared with the dry run.
"""

from __future__ import annotations

import random
import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.curve_order import CURVE_ORDER, CurveOrder, curve_of
from airflow_lake_provider.contracts.errors import (
    BrokenMetadataError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.iceberg.compaction_rules import (
    EQUALITY_DELETES,
    POSITION_DELETES,
    TARGET_SIZE,
    UNTIDIED,
    RewriteRules,
    choose_level,
    in_one_commit,
    is_of_part,
    is_untidied,
    refuse_endangered_part,
    refuse_verification_without_keys,
    resolves_equality_deletes,
    rules_for,
    table_size,
    target_size_owner,
)
from airflow_lake_provider.iceberg.owner_settings import unusable_settings
from airflow_lake_provider.iceberg.table_obstacles import unread_columns
from airflow_lake_provider.spark_jobs.failures import is_of_a_broken_file
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_invariants import (
    commits_since,
    refuse_broken_invariants,
    refuse_changed_rows,
    sum_of,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.dropped_sources import (
    endangered_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.commit_errors import root_message
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_groups import ArrowRewrite
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.convert_equality_deletes import (
    ConvertedDeletes,
    convert_equality_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.delete_files import (
    dangling_deletes,
    position_deletes_are_due,
    remove_dangling_deletes,
    remove_outdated_deletes,
    rewrite_position_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.rewrite_data_files import (
    DataFileRewrite,
    PlannedGroups,
    RewriteAttempt,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.rewrite_manifests import (
    manifest_sizes,
    manifest_specs_due,
    rewrite_manifests,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.delete_totals import (
    deletes_of_head,
    head_has_equality_deletes,
    listed_deletes,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import to_expression
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError
from airflow_lake_provider.spark_jobs.progress import Progress

_LONGEST_WAIT_SECONDS = 30.0


@dataclass
class _Tally:
    """Work that is done so far; ``untidied`` where an earlier compaction left what a rewrite leaves."""

    untidied: bool = False
    attempts: int = 0
    groups: int = 0
    by_arrow: int = 0
    bytes: int = 0
    last: RewriteAttempt = field(default_factory=RewriteAttempt)
    warnings: list[str] = field(default_factory=list)


def compact(table: IcebergTable, spec: CompactionSpec, progress: Progress) -> CompactionReport:
    """Rewrite what is due and report what the table's metadata says was done.

    A conflict with a writer is tried again from the new head up to ``max_attempts`` times. Then it is an outcome of its
    own, not an error. Groups committed until then stay. Rows, row ids and their sequence numbers never change.

    :raises InvalidSpecError: ``where`` or ``sort_by`` cannot be used on this table.
    :raises UnsupportedError: files of a part are due, and only the whole table can be rewritten without a loss. Or
        Spark reads no column under a name that the table has.
    :raises UnknownOutcomeError: the answer to a commit was lost; no file was removed.
    :raises JobFailedError: Spark could not rewrite any group.
    :raises BrokenMetadataError: nor can it later, by a file or a setting of the table.
    :raises BrokenInvariantError: a commit of it has changed rows.
    """
    with progress.phase("plan") as facts:
        before = table.refresh().state()
        refuse_verification_without_keys(spec, table.facts)
        equality_deletes = deletes_of_head(table, EQUALITY_DELETES)
        level, why = choose_level(spec, before, equality_deletes)
        run_key, endangered = spec.run.run_key(spec.digest_text(), ()), endangered_deletes(table)
        if endangered is not None and not is_of_part(spec):
            spec, level, why = in_one_commit(spec, endangered)
        target = table_size(spec.table, table.properties(), TARGET_SIZE)
        rewrite = _data_file_rewrite(table, spec, rules_for(spec, level, target), run_key, equality_deletes)
        converted = _converted(rewrite, level, progress)
        planned = rewrite.plan()
        untidied = not planned.groups and _is_cut_off(table, spec, rewrite.run_key)
        tidying_due = untidied or (not planned.groups and _deletes_are_due(table, spec, level))
        facts.update({"level": level.value, "groups": planned.groups, "files": planned.files, "bytes": planned.bytes})
    report = CompactionReport(
        table=spec.table,
        outcome=Outcome.NOTHING_DUE,
        reason=f"level {level.value} ({why}): no file is due{target_size_owner(spec, target)}",
        run_key=rewrite.run_key,
        before=before,
        after=before,
        level=level.value,
        equality_deletes_converted=converted.files,
        equality_deletes_left=dict(converted.left),
    )
    if not planned.groups and not tidying_due and not converted.files:
        return replace(report, seconds=dict(progress.seconds))
    refuse_endangered_part(spec, endangered)
    tally = _rewrite(rewrite, planned, progress, untidied=untidied)
    if tally.groups or tidying_due:
        _upkeep(rewrite, tally, progress)
    report = replace(report, reason=f"level {level.value} ({why}){converted.sentence}")
    done = _reported(rewrite, report, planned, tally, progress)
    warnings = (*done.warnings, *_note_curve(rewrite, tally))
    return replace(done, reason=f"{done.reason}{target_size_owner(spec, target)}", warnings=warnings)


def _data_file_rewrite(
    table: IcebergTable, spec: CompactionSpec, rules: RewriteRules, run_key: str, equality_deletes: int | None
) -> DataFileRewrite:
    by_arrow = spec.runner is not CompactionRunner.SPARK
    return DataFileRewrite(
        table=table,
        spec=spec,
        rules=rules,
        expression=to_expression(table, spec.where),
        run_key=run_key,
        arrow=ArrowRewrite(table, spec) if by_arrow else None,
        meets_equality_deletes=head_has_equality_deletes(table) if equality_deletes is None else bool(equality_deletes),
    )


def _converted(rewrite: DataFileRewrite, level: CompactionLevel, progress: Progress) -> ConvertedDeletes:
    spec = rewrite.spec
    if not (rewrite.meets_equality_deletes and resolves_equality_deletes(spec, level)):
        return ConvertedDeletes()
    return convert_equality_deletes(rewrite.table, spec.max_attempts, rewrite.summary, progress)


def _is_cut_off(table: IcebergTable, spec: CompactionSpec, run_key: str) -> bool:
    """Tell whether an earlier compaction ended before it had tidied the metadata."""
    return is_untidied(table.facts, spec, run_key, lambda snapshot: manifest_sizes(table, int(snapshot)))


def _deletes_are_due(table: IcebergTable, spec: CompactionSpec, level: CompactionLevel) -> bool:
    if level is CompactionLevel.FULL:
        return False
    return position_deletes_are_due(table, spec) or (not is_of_part(spec) and bool(dangling_deletes(table)))


def _rewrite(rewrite: DataFileRewrite, planned: PlannedGroups, progress: Progress, *, untidied: bool) -> _Tally:
    tally = _Tally(untidied=untidied)
    one_by_one = False
    while planned.groups:
        tally.attempts += 1
        head = rewrite.table.head()
        with progress.phase("rewrite") as facts:
            is_first = tally.attempts == 1 < rewrite.spec.max_attempts
            attempt = rewrite.attempt(planned, one_by_one=one_by_one, may_be_undone=is_first)
            facts.update({"groups": attempt.done, "lost": attempt.lost, "failed": attempt.failed})
        tally.groups += attempt.done
        tally.by_arrow += attempt.by_arrow
        tally.bytes += attempt.bytes
        rewrite.table.refresh()
        if attempt.lost:
            # What is still due at the new head is the truth about a lost group: a commit whose answer was lost may
            # have been made, and a writer may have rewritten or removed its files.
            planned = rewrite.plan()
            attempt = replace(attempt, lost=min(attempt.lost, planned.groups))
        tally.last = attempt
        if not attempt.lost or tally.attempts >= rewrite.spec.max_attempts:
            break
        one_by_one = not attempt.refused and not commits_since(rewrite.table, str(head), rewrite.run_key)[1]
        _wait(tally.attempts, attempt.lost, progress, is_by_itself=one_by_one)
    return tally


def _wait(attempts: int, lost: int, progress: Progress, *, is_by_itself: bool) -> None:
    seconds = min(_LONGEST_WAIT_SECONDS, 0.5 * 2**attempts) * random.uniform(0.5, 1.0)
    why, how = "a writer committed first", "from the new head"
    if is_by_itself:
        why, how = "no writer was in the way, commits of this compaction were lost", "one by one"
    progress.say(f"{why}: trying {lost:,} file groups again in {seconds:.1f} s, {how}")
    time.sleep(seconds)


def _upkeep(rewrite: DataFileRewrite, tally: _Tally, progress: Progress) -> None:
    table, spec, summary = rewrite.table, rewrite.spec, rewrite.summary
    with progress.phase("tidy metadata"):
        refusals = []
        if (tally.groups or tally.untidied) and listed_deletes(table, table.head()) != 0:
            refusals.append(remove_outdated_deletes(table, summary))
        if not is_of_part(spec):
            refusals.append(remove_dangling_deletes(table, summary))
        if _position_deletes_wanted(table, spec, tally):
            refusals.append(rewrite_position_deletes(table, spec, summary, everything=_everything(table, tally)))
        if spec.rewrite_manifests:
            refusals.append(rewrite_manifests(table, summary, manifest_specs_due(table)))
    tally.warnings += [f"a writer was in the way of tidying metadata: {refusal}" for refusal in refusals if refusal]


def _note_curve(rewrite: DataFileRewrite, tally: _Tally) -> list[str]:
    """Say on the table that its rows lie along the curve, and return warnings: plans sort no rows that are in order.

    What a run left alone counts as in order, too, or it would be due again at once. A run of less than half says
    nothing of the table.
    """
    spec = rewrite.spec
    if not (spec.strategy.is_by_curve and rewrite.rules.rewrite_all and tally.groups):
        return []
    table = rewrite.table.refresh()
    ours, _ = commits_since(table, None, rewrite.run_key)
    rows = table.state().rows
    if 2 * sum_of(ours, "added-records") < rows:
        return []
    order = CurveOrder(by=curve_of(spec.strategy, spec.sort_by), rows=rows, snapshot=str(table.head()))
    try:
        table.java.updateProperties().set(CURVE_ORDER, order.as_property()).commit()
    except JavaError as error:
        return [f"the table could not be told its order, so that the next plan sorts it again: {root_message(error)}"]
    return []


def _position_deletes_wanted(table: IcebergTable, spec: CompactionSpec, tally: _Tally) -> bool:
    if is_of_part(spec) or deletes_of_head(table, POSITION_DELETES) == 0:
        return False
    return _everything(table, tally) or position_deletes_are_due(table, spec)


def _everything(table: IcebergTable, tally: _Tally) -> bool:
    """Tell whether all position deletes are read: version 2 cannot tell otherwise which lie on rewritten files."""
    return table.format_version >= 3 or bool(tally.groups) or tally.untidied


def _refuse_unread_columns(table: IcebergTable) -> None:
    if unread := unread_columns(table.facts.shape.names):
        raise UnsupportedError(
            f"{table.name}: Spark cannot rewrite its files, as it reads no column {', '.join(unread)}, a name that "
            "Iceberg reserves for its own columns; rename it with ALTER TABLE ... RENAME COLUMN"
        )


def _failed(table: IcebergTable, message: str) -> LakeProviderError:
    """Return the error of a rewrite that came to nothing: no retry helps where a file or a setting is broken."""
    if unusable := unusable_settings(table.properties()):
        return BrokenMetadataError(f"{table.name}: {'; '.join(unusable.values())}. Until then, {message}")
    kind = BrokenMetadataError if is_of_a_broken_file(message) else JobFailedError
    return kind(f"{table.name}: {message}")


def _reported(
    rewrite: DataFileRewrite, report: CompactionReport, planned: PlannedGroups, tally: _Tally, progress: Progress
) -> CompactionReport:
    before = report.before.snapshot if report.before else None
    ours, foreign = commits_since(rewrite.table, before, rewrite.run_key)
    refuse_broken_invariants(rewrite.table, {id_ for id_, _ in ours})
    with progress.phase("verify") if rewrite.spec.verify and ours else nullcontext():
        refuse_changed_rows(rewrite.table, rewrite.spec, [id_ for id_, _ in ours])
    last = tally.last
    if last.failed and not last.lost and not tally.groups:
        _refuse_unread_columns(rewrite.table)
        raise _failed(rewrite.table, f"no file group could be rewritten: {'; '.join(last.messages)}")
    conflict = bool(last.lost and (last.refused or foreign))
    if last.lost and not conflict and not ours:
        raise _failed(
            rewrite.table,
            f"{last.lost} file groups were written and none was committed, though no writer was in the way; "
            f"{_why(last)}. Rows are the same; run it again.",
        )
    if last.lost and not conflict:
        tally.warnings.append(f"{last.lost} groups were written but not committed; {_why(last)}")
    return replace(
        report,
        outcome=Outcome.CONFLICT if conflict else Outcome.DONE if ours else Outcome.NOTHING_DUE,
        reason=f"{report.reason}: {_sentence(planned, tally, foreign if conflict else [], bool(ours))}"
        f"{_moved(rewrite)}",
        after=rewrite.table.state(),
        committed=tuple(id_ for id_, _ in ours),
        warnings=tuple(tally.warnings),
        seconds=dict(progress.seconds),
        files_rewritten=sum_of(ours, "deleted-data-files"),
        files_added=sum_of(ours, "added-data-files"),
        bytes_rewritten=tally.bytes,
        delete_files_removed=sum_of(ours, "removed-delete-files") - sum_of(ours, "added-delete-files"),
        groups_rewritten=tally.groups,
        groups_by_arrow=tally.by_arrow,
        left_to_spark=dict(rewrite.arrow.reasons) if rewrite.arrow is not None else {},
        failed_groups=last.failed + last.lost,
        failures=last.messages,
        attempts=max(1, tally.attempts),
    )


def _why(lost: RewriteAttempt) -> str:
    """Iceberg's commit service tells its log alone."""
    return "; ".join(lost.messages) or "Spark's own log says why, which the task's log has or names"


def _moved(rewrite: DataFileRewrite) -> str:
    moved = rewrite.arrow.moved if rewrite.arrow is not None else 0
    return f"; {moved:,} rows that writers deleted meanwhile are deleted in the new files" if moved else ""


def _sentence(planned: PlannedGroups, tally: _Tally, foreign: list[str], has_committed: bool) -> str:
    last = tally.last
    if tally.untidied:
        return UNTIDIED if has_committed else "no file is due"
    text = f"{tally.groups:,} of {max(planned.groups, tally.groups + last.lost):,} due file groups were rewritten"
    if foreign or last.refused:
        text += f"; {last.lost:,} were given up after {tally.attempts} attempts because writers committed in between"
        text += f" (snapshots {', '.join(foreign)})" if foreign else ""
    if last.failed:
        text += f"; Spark failed on {last.failed:,}"
    return text
