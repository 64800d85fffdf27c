"""Candidate files of a batch: the data files that may hold one of its keys, planned once for all that asks for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.spark_jobs.formats.base import KeyedCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.java_functions import java_functions
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.scan_tasks import planned_tasks
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.upserts.key_pruning import key_pruning
from airflow_lake_provider.spark_jobs.jvm.java_collections import as_number_list
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted_name


@dataclass(frozen=True, kw_only=True)
class CandidateFiles:
    """Those of one snapshot.

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

    def of(self, held: DataFrame) -> DataFrame:
        """Return the rows of the table that satisfy the conditions."""
        held = held.alias(self.alias)
        for predicate in self.predicates:
            held = held.filter(sf.expr(predicate))
        return held

    def whole_tasks(self, table: IcebergTable) -> Any:
        """Return tasks of the same files that read every row, as a Java list."""
        return planned_tasks(table, int(self.snapshot), " AND ".join(self.predicates), whole=True)


def plan_candidates(table: IcebergTable, commit: KeyedCommit) -> CandidateFiles | None:
    """Plan the files of ``commit.base``; None for a table without rows."""
    if commit.base is None:
        return None
    alias = table.name.table
    predicates, pruning = key_pruning(table, commit, quoted_name(alias))
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


def candidates_of(table: IcebergTable, commit: KeyedCommit) -> CandidateFiles | None:
    """Return those that the commit brings, where they are of its base; else plan them."""
    known = commit.candidates
    if isinstance(known, CandidateFiles) and known.snapshot == commit.base:
        return known
    return plan_candidates(table, commit)
