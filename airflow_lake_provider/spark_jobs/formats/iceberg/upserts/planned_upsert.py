"""Plan of an upsert: its rows as they fit the table, its keys, the files that may hold them, and the merge of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from airflow_lake_provider.spark_jobs.batch.change_batch import MARKERS, RESET
from airflow_lake_provider.spark_jobs.batch.row_merge import Merged, Name, RowMerge
from airflow_lake_provider.spark_jobs.formats.commits import AppliedCommit, KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.snapshot_commit import refuse_other_names
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.fit_rows import (
    checked_texts,
    checked_values,
    fit_rows,
    write_defaults,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import planned_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import BatchKeys, key_pruning
from airflow_lake_provider.spark_jobs.jvm.java_collections import as_number_list
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name
from airflow_lake_provider.spark_jobs.sql.nested_types import with_kept_fields


@dataclass(frozen=True, kw_only=True)
class CandidateFiles:
    """The data files of one snapshot that may hold a key of a batch.

    :param predicates: SQL conditions that a row with one of the keys satisfies; columns are of :attr:`alias`.
    :param pruning: how the files were chosen, a sentence.
    :param tasks: Java list of ``org.apache.iceberg.FileScanTask``, each with the deletes on it. Row groups in which no
        row satisfies the conditions are left out.
    :param rows_by_file: number of rows of each, deleted or not.
    """

    snapshot: str
    alias: str
    predicates: tuple[str, ...]
    pruning: str
    tasks: Any = field(repr=False)
    rows_by_file: tuple[int, ...] = field(repr=False)

    @cached_property
    def rows(self) -> int:
        """Rows that have to be looked at."""
        return sum(self.rows_by_file)

    def of(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the table that satisfy the conditions."""
        rows = rows.alias(self.alias)
        for predicate in self.predicates:
            rows = rows.filter(sf.expr(predicate))
        return rows

    def whole_tasks(self, table: IcebergTable) -> Any:
        """Return tasks of the same files that read every row, as a Java list."""
        return planned_tasks(table, int(self.snapshot), " AND ".join(self.predicates), whole=True)


@dataclass(frozen=True, kw_only=True)
class PlannedUpsert(KeyedCommit):
    """A commit whose rows fit the table, and what is known of its keys.

    :param batch_keys: of ``rows``.
    :param partial_structs: type of each struct that lacks fields of the table's, as the batch has it, by its column in
        lower case.
    :param candidates: of the base that the strategy was chosen on; None where nothing was planned.
    """

    batch_keys: BatchKeys
    partial_structs: Mapping[str, StructType]
    candidates: CandidateFiles | None = field(default=None, compare=False)

    @classmethod
    def of(cls, table: IcebergTable, commit: KeyedCommit, batch_keys: BatchKeys) -> PlannedUpsert:
        """Make the rows fit the table; no job is run."""
        fitted = fit_rows(table, commit)
        rows = checked_texts(table, checked_values(table, fitted.rows, ()), commit.keys)
        given = {field.name: getattr(commit, field.name) for field in fields(commit)}
        return cls(
            **{**given, "rows": rows, "made_for": table.shape_id},
            batch_keys=replace(batch_keys, rows=rows),
            partial_structs=fitted.partial_structs,
        )

    def with_rows(self, rows: DataFrame) -> PlannedUpsert:
        """Return the upsert with the same rows, computed otherwise."""
        return replace(self, rows=rows, batch_keys=replace(self.batch_keys, rows=rows))

    def planned_candidates(self, table: IcebergTable) -> CandidateFiles | None:
        """Return the candidates at the base, planned anew where the base has moved; None for a table without rows."""
        kept = self.candidates
        return kept if kept is not None and kept.snapshot == self.base else plan_candidates(table, self)


@dataclass(frozen=True, kw_only=True)
class AppliedUpsert(AppliedCommit):
    """Result of an upsert.

    :param strategy: by which it was applied.
    :param strategy_reason: why so, and how reading the table was pruned.
    :param equality_delete_files: of the table after it; None where nobody counted.
    """

    strategy: str
    strategy_reason: str
    equality_delete_files: int | None = None

    @property
    def details(self) -> dict[str, Any]:
        """Fields of an upsert's report about its strategy."""
        return {name: getattr(self, name) for name in ("strategy", "strategy_reason", "equality_delete_files")}


def plan_candidates(table: IcebergTable, commit: PlannedUpsert) -> CandidateFiles | None:
    """Plan the files of ``commit.base``; None for a table without rows."""
    if commit.base is None:
        return None
    alias = table.name.table
    predicates, pruning = key_pruning(table, commit.batch_keys, quoted_name(alias))
    tasks = planned_tasks(table, int(commit.base), " AND ".join(predicates))
    rows = as_number_list(table.spark, tasks, java_functions(table.spark).rows_of_task)
    return CandidateFiles(
        snapshot=commit.base,
        alias=alias,
        predicates=tuple(predicates),
        pruning=pruning,
        tasks=tasks,
        rows_by_file=tuple(rows),
    )


# What the columns of the table's row are called beside those of the batch.
OLD = "_lake_old_"


def _of_table(name: str) -> str:
    # In lower case, as Spark compares names.
    return quoted_name(OLD + name.lower())


def _aliased(alias: str) -> Name:
    return lambda name: f"{alias}.{quoted_name(name)}"


def row_merge(table: IcebergTable, commit: PlannedUpsert, aliases: tuple[str, str] | None = None) -> RowMerge:
    """Return the expressions of a commit.

    :param aliases: of the table and of the batch in a statement; None for rows that have the columns of both.
    :raises CommitConflictError: the table's columns are others than when the rows were made to fit it.
    """
    # Else a column that was renamed meanwhile would be taken for one that the batch lacks.
    refuse_other_names(table, commit)
    schema = table.schema()
    old, new = (_of_table, quoted_name) if aliases is None else map(_aliased, aliases)
    return RowMerge(
        merge_engine=commit.merge_engine,
        keys=commit.keys,
        order_by=commit.order_by,
        missing=commit.missing_columns,
        given=[name for name in commit.rows.columns if name not in MARKERS],
        table=schema.names,
        defaults=write_defaults(schema),
        completed=_completions(schema, commit),
        old=old,
        new=new,
        resets=RESET in commit.rows.columns,
    )


def _completions(schema: StructType, commit: PlannedUpsert) -> dict[str, Merged]:
    wanted = {field.name.lower(): field.dataType for field in schema}
    return {
        name: partial(with_kept_fields, given=given, wanted=wanted[name])
        for name, given in commit.partial_structs.items()
    }
