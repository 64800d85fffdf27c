"""Delete or update the rows that match, by position or by copied files, in one commit on the snapshot of the match."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.errors import (
    BrokenMetadataError,
    CommitConflictError,
    InvalidSpecError,
    JobFailedError,
    LakeProviderError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.table_properties import ROWS_MATCHED
from airflow_lake_provider.iceberg.owner_settings import COPY_ON_WRITE, DELETE_MODE, UPDATE_MODE, owner_settings
from airflow_lake_provider.iceberg.table_obstacles import without_row_changes
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.failures import root_cause, settings_at_fault
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, MatchedCommit, RowMatch
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_invariants import refuse_broken_change
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import (
    FileOverwrite,
    commit_overwrite,
    commit_row_delta,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.uncommitted_files import discarded_on_failure
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.write_deletes import write_deletes
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import FileScan
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import (
    POSITIONS,
    ROW_PROOF,
    missing_internals,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.row_changes.find_rows import (
    matched_rows,
    matching_of_files,
    withheld,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.fit_rows import checked_texts, checked_values
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import (
    ROW_ID,
    WINS,
    ResolvedRows,
    collect_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import (
    rows_of_files,
    scan_by_newest_schema,
    scan_tasks,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.write_data_files import LAST_UPDATED, write_staged
from airflow_lake_provider.spark_jobs.formats.iceberg.table.apply_schema_contract import (
    DifferenceKind,
    schema_differences,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import bounds_are_sure, converted
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.gateway import java_rows, jvm_of
from airflow_lake_provider.spark_jobs.jvm.java_collections import (
    JavaItems,
    as_number_list,
    guava,
    list_of_texts,
    texts_of,
)
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.nested_types import (
    becomes_infinite,
    fitted_value,
    is_nested,
    is_number_as_time,
    loses_fractions,
    nullable,
)
from airflow_lake_provider.spark_jobs.sql.older_pyspark import message_of
from airflow_lake_provider.spark_jobs.sql.parsed_tree import has_subquery

# Texts that Spark takes for a moment or a day near that of the query: TIMESTAMP 'now', or 'today' beside a date.
_PRESENT = re.compile(r"['\"]\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)


def refuse_unchangeable(table: IcebergTable) -> None:
    """Refuse a table whose rows cannot be changed by position.

    :raises UnsupportedError: saying why.
    """
    missing = missing_internals(table.spark, {*POSITIONS, *ROW_PROOF})
    lacking = f"this Iceberg runtime lacks {', '.join(missing)}" if missing else None
    why = lacking or without_row_changes(table.facts.shape)
    if why is not None:
        raise UnsupportedError(f"{table.name}: rows cannot be changed by position: {why}")


def change_rows(table: IcebergTable, commit: MatchedCommit, progress: Progress) -> AppliedCommit | None:
    """Commit once, as ``formats.base.FormatTable`` says; None when no row matches."""
    with progress.phase("match") as facts:
        files = files_by_match(table, commit)
        matched = rows_in_other_files(table, commit, files)
        rows = matched.updated + matched.deleted + files.rows
        facts.update(rows=rows, files=len(matched.positions) + len(files.whole))
    if rows == 0 and not files.whole:
        return None
    _refuse_too_many(table, commit, rows)
    by_copy = is_copied(table, commit)
    # Before the commit, as it may find a setting that is no number.
    clause = owner_settings(
        str(table.name),
        table.properties(),
        mode_of(commit),
        COPY_ON_WRITE if by_copy else "positions",
        asked=False,
        format_version=table.format_version,
    )
    staged: Sequence[Any] = []
    overwrite = None
    if by_copy:
        with progress.phase("stage") as facts:
            overwrite = copied_files(table, commit, matched, files.whole)
            staged = overwrite.added
            facts.update(files=len(staged))
    elif commit.assignments is not None and matched.rows is not None:
        with progress.phase("stage") as facts:
            staged = write_staged(table, updated_rows(table, matched.rows, commit.assignments))
            facts.update(files=len(staged))
    commit = replace(commit, summary={**commit.summary, ROWS_MATCHED: str(rows)})
    with progress.phase("commit") as facts:
        with discarded_on_failure(table, staged):
            snapshot = _commit_or_withhold(table, commit, matched, files, overwrite or staged)
        facts["snapshot"] = str(snapshot)
    refuse_broken_change(table, str(snapshot), matched.deleted + files.rows)
    return AppliedCommit(
        snapshot=str(snapshot),
        rows_updated=matched.updated,
        rows_deleted=matched.deleted + files.rows,
        settings_clause=clause,
        files_removed=len(files.whole),
        files_changed=len(matched.positions),
    )


def _refuse_too_many(table: IcebergTable, commit: MatchedCommit, rows: int) -> None:
    if commit.most_rows is not None and rows > commit.most_rows:
        raise UnsupportedError(
            f"{table.name}: {rows:,} rows match, and max_share lets at most {commit.most_rows:,} go. Nothing was "
            "changed. See whether their values are right; then raise max_share in the DAG for one run"
        )


def _commit_or_withhold(
    table: IcebergTable,
    commit: MatchedCommit,
    matched: ResolvedRows,
    files: FilesByMatch,
    staged: Sequence[Any] | FileOverwrite,
) -> int:
    try:
        if isinstance(staged, FileOverwrite):
            return commit_overwrite(table, commit, staged, {})
        return _commit(table, commit, matched, files, staged)
    except Exception as error:
        if not commit.match.is_secret:
            raise
        # A message may have paths of files, and those the values of partitions.
        raise _withheld(table, commit, error) from None


def _withheld(table: IcebergTable, commit: MatchedCommit, error: Exception) -> LakeProviderError:
    tried = f"{table.name}: the commit on snapshot {commit.base}"
    if isinstance(error, CommitConflictError):
        return CommitConflictError(f"{tried} was refused, another one was made. No data changed; a retry is safe.")
    if isinstance(error, LakeProviderError):
        # Ours name no path; their cause may, and is left behind.
        return type(error)(str(error))
    if faults := settings_at_fault(error, table.properties):
        return BrokenMetadataError(f"{table.name}: {'; '.join(faults)}. No data changed")
    withheld = "the message is withheld, it may name what is erased"
    if (cause := root_cause(error)) is not None:
        return cause.kind.error(f"{table.name}: {cause.kind.name}. {cause.kind.remedy}; {withheld}. No data changed")
    return JobFailedError(f"{tried} failed with {type(error).__name__}; {withheld}. A retry is safe.")


def _commit(
    table: IcebergTable, commit: MatchedCommit, matched: ResolvedRows, files: FilesByMatch, staged: Sequence[Any]
) -> int:
    if files.whole and not matched.positions:
        return commit_overwrite(table, commit, FileOverwrite(replaced=files.whole), {})
    delta = replace(write_deletes(table.refresh(), commit.base, matched.positions, staged), removed=files.whole)
    with discarded_on_failure(table, delta.deletes):
        return commit_row_delta(table, commit, delta, {})


def mode_of(commit: MatchedCommit) -> str:
    """Return the table property that says how its owner wants such a change to be made."""
    return DELETE_MODE if commit.assignments is None else UPDATE_MODE


def is_copied(table: IcebergTable, commit: MatchedCommit) -> bool:
    """Tell whether the owner wants files to be written anew, and the match can be asked a second time."""
    if table.properties().get(mode_of(commit)) != COPY_ON_WRITE:
        return False
    return _is_repeatable(table, commit.match)


def copied_files(
    table: IcebergTable, commit: MatchedCommit, matched: ResolvedRows, whole: Sequence[Any] = ()
) -> FileOverwrite:
    """Write the files that take the place of those with rows that match.

    :param whole: ``org.apache.iceberg.FileScanTask`` of files that go, and that none takes the place of.

    :raises CommitConflictError: a data file is not in the base.
    :raises InvalidSpecError: an assignment cannot be taken.
    """
    if not matched.positions:
        return FileOverwrite(replaced=whole)
    replaced = list(scan_tasks(table, int(commit.base or 0), list(matched.positions)).values())
    with closing(FileScan(table.spark, table.java, replaced, spread=False)) as scan, withheld(table, commit.match):
        names = [field.name for field in table.schema()]
        names += [ROW_ID, LAST_UPDATED] if table.format_version >= 3 else []
        rows = _others(scan.dataframe, commit.match).select(*map(quoted, names))
        if commit.assignments is not None and matched.rows is not None:
            rows = rows.unionByName(updated_rows(table, matched.rows, commit.assignments))
        return FileOverwrite(replaced=[*whole, *replaced], added=write_staged(table, rows))


def _others(rows: DataFrame, match: RowMatch) -> DataFrame:
    """Return the rows that do not match; a predicate that is NULL matches no row."""
    if match.keys is not None:
        return rows.join(match.keys, on=match.keys.columns, how="left_anti")
    return rows.filter(~sf.coalesce(sf.expr(match.where or "false"), sf.lit(False)))


def _is_repeatable(table: IcebergTable, match: RowMatch) -> bool:
    """Tell whether a predicate gives the same answer again, as none does that asks chance, the clock or other rows."""
    if match.where is None:
        return True
    if _PRESENT.search(match.where):
        return False
    if not match.allow_sql:
        return True
    rows: Any = table.spark.table(table.sql_name).filter(sf.expr(match.where))
    plan = java_rows(rows).queryExecution().analyzed()
    if plan.nodeName() != "Filter" or has_subquery(table.spark, plan.condition()):
        return False
    # Spark takes the clock for deterministic; this rule of its optimizer puts the moment of one query in place of it.
    with_moment = jvm_of(table.spark).org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime.apply(plan)
    return bool(plan.deterministic() and plan.fastEquals(with_moment))


def updated_rows(table: IcebergTable, rows: DataFrame, assignments: Mapping[str, str]) -> DataFrame:
    """Return the rows with their new values and the ids they had, in the columns that :func:`write_staged` takes.

    :raises InvalidSpecError: a column is not there, or identifies rows, or an expression does not fit it.
    :raises CommitConflictError: the table has columns that were added, or renamed, since the rows were read.
    """
    schema = table.spark.table(table.sql_name).schema
    if new := [name for name in schema.names if name not in rows.columns]:
        raise CommitConflictError(f"{table.name}: another commit has added or renamed the columns {new} meanwhile")
    given = {name.lower(): expression for name, expression in assignments.items()}
    _refuse_columns(table, schema, given)
    # The writer fills the second with the commit's own sequence number.
    lineage = [sf.col(ROW_ID), sf.lit(None).cast("bigint").alias(LAST_UPDATED)] if ROW_ID in rows.columns else []
    try:
        columns = [
            _assigned(table, rows, each, given[each.name.lower()]) if each.name.lower() in given else quoted(each.name)
            for each in schema
        ]
        updated = rows.select(*columns, *lineage)
    except AnalysisException as error:
        raise InvalidSpecError(
            f"{table.name}: assignments do not fit the columns {schema.names}: {message_of(error)}"
        ) from error
    updated = checked_values(table, updated, (), only=given.keys())
    return checked_texts(table, updated, (), only=given.keys())


def _assigned(table: IcebergTable, rows: DataFrame, field: StructField, expression: str) -> Column:
    """Return the value of an assignment; fields of a struct are matched by name, where a cast goes by their place."""
    given = rows.select(sf.expr(expression).alias("value")).schema[0].dataType
    differences = list(schema_differences(field.dataType, given, (field.name,)))
    for each in differences:
        kinds = [field.dataType for field in (each.wanted, each.present) if field is not None]
        if len(kinds) == 2 and is_number_as_time(*kinds):
            raise InvalidSpecError(
                f"{table.name}: the value assigned to {each.name} is {kinds[0].simpleString()}, and the column is "
                f"{kinds[1].simpleString()}: nothing tells what the number counts. Say it by timestamp_seconds, "
                "timestamp_millis, date_from_unix_date, or by unix_seconds, unix_millis, unix_date the other way round"
            )
        if len(kinds) == 2 and loses_fractions(*kinds):
            raise InvalidSpecError(
                f"{table.name}: the value assigned to {each.name} is {kinds[0].simpleString()}, and the column is "
                f"{kinds[1].simpleString()}: its fraction would be lost. Say what is meant by "
                "round, floor or ceil, and CAST the result to the type of the column"
            )
    if is_nested(field.dataType):
        unlike = [each.name for each in differences if each.kind in (DifferenceKind.ADDED, DifferenceKind.MISSING)]
        if unlike:
            raise InvalidSpecError(
                f"{table.name}: the value assigned to {field.name} is {given.simpleString()}, and differs from the "
                f"column's {field.dataType.simpleString()} in the fields {unlike}; give each field of the column"
            )
    fitted = fitted_value(f"({expression})", given, field.dataType, lambda _: "NULL")
    made = sf.expr(fitted).cast(nullable(field.dataType))
    if (beyond := becomes_infinite(f"({expression})", given, fitted, field.dataType)) != "false":
        error = f"the value assigned to {field.name} is beyond FLOAT or DOUBLE; assign a smaller one, or widen it"
        made = sf.when(sf.expr(beyond), sf.raise_error(sf.lit(error))).otherwise(made)
    return made.alias(field.name)


def _refuse_columns(table: IcebergTable, schema: StructType, given: Mapping[str, str]) -> None:
    unknown = sorted(given.keys() - {field.name.lower() for field in schema})
    if unknown:
        raise InvalidSpecError(
            f"{table.name}: assignments name columns that the table lacks: {unknown}; it has {schema.names}"
        )
    identifying = sorted(given.keys() & {str(name).lower() for name in table.java.schema().identifierFieldNames()})
    if identifying:
        raise InvalidSpecError(
            f"{table.name}: assignments may not change the identifier columns {identifying}: two rows could get one "
            "key. Delete the rows and insert them under their new keys"
        )


@dataclass(frozen=True, kw_only=True)
class FilesByMatch:
    """Data files of a snapshot that have rows which match.

    :param whole: ``org.apache.iceberg.FileScanTask`` of those of which every row does.
    :param rows: live ones in these; with equality deletes, or deletes that several files share, at most.
    :param partial: of the others, a Java list; None where nothing was asked.
    """

    whole: Sequence[Any] = ()
    rows: int = 0
    partial: Any | None = None


def files_by_match(table: IcebergTable, commit: MatchedCommit) -> FilesByMatch:
    """Tell the files of which every row matches, at ``commit.base``; none where bounds cannot tell.

    :raises JavaError: the predicate is no expression of Iceberg's.
    """
    where = commit.match.where
    if commit.whole_files_by is None or commit.base is None or where is None or not bounds_are_sure(table, where):
        return FilesByMatch()
    expression = converted(table, where)
    # What a predicate was simplified to proves nothing of a file.
    if str(expression.op()) == "TRUE":
        return FilesByMatch()
    column = list_of_texts(table.spark, [commit.whole_files_by])
    scan = scan_by_newest_schema(table, int(commit.base)).filter(expression).includeColumnStats(column)
    with closing(scan.planFiles()) as planned:
        tasks = guava(table.spark).collect.Lists.newArrayList(planned)
    package = guava(table.spark)
    strict = table.iceberg.expressions.StrictMetricsEvaluator(table.java.schema(), expression, False)
    field = table.java.schema().findField(commit.whole_files_by)
    is_whole = java_functions(table.spark).is_task_within(strict, int(field.fieldId()))
    collect, predicates = package.collect, package.base.Predicates
    whole = collect.Lists.newArrayList(collect.Iterables.filter(tasks, is_whole))
    partial = collect.Lists.newArrayList(collect.Iterables.filter(tasks, getattr(predicates, "not")(is_whole)))
    listed = JavaItems(table.spark, whole)
    records = sum(as_number_list(table.spark, whole, java_functions(table.spark).rows_of_task))
    deleted = sum(delete.recordCount() for task in listed for delete in file_scoped_deletes(table, task))
    return FilesByMatch(whole=listed, rows=max(0, records - deleted), partial=partial)


def file_scoped_deletes(table: IcebergTable, task: Any) -> list[Any]:
    """Return the position deletes and vectors of a task that are on its file alone."""
    is_file_scoped = table.iceberg.util.ContentFileUtil.isFileScoped
    return [delete for delete in task.deletes() if is_file_scoped(delete)]


def rows_in_other_files(table: IcebergTable, commit: MatchedCommit, files: FilesByMatch) -> ResolvedRows:
    """Find the rows that match in the files of which not every row does, where files were told apart, or in all."""
    if files.partial is None:
        return matched_rows(table, commit)
    if files.partial.isEmpty():
        return ResolvedRows()
    with rows_of_files(table, files.partial) as rows:
        if rows is not None:
            matched = matching_of_files(rows, commit.match).select("_file", "_pos")
            changed = matched.withColumns({WINS: sf.lit(True), DELETED: sf.lit(True)})
            return ResolvedRows(place=collect_positions(changed, keys=None))
    # Of ORC no chosen files can be read with positions.
    resolved = matched_rows(table, commit)
    paths = texts_of(table.spark, files.partial, java_functions(table.spark).location_of_task)
    return ResolvedRows(place=resolved.place.of_files(set(paths)))
