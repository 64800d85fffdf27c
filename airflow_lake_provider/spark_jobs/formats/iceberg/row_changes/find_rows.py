"""The rows that a predicate, or a list of keys, matches, with their positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import (
    BrokenMetadataError,
    CommitConflictError,
    InvalidSpecError,
    JobFailedError,
    UnsupportedError,
)
from airflow_lake_provider.spark_jobs.batch.change_batch import DELETED
from airflow_lake_provider.spark_jobs.failures import (
    ROLL_BACK,
    is_gone,
    root_cause,
    settings_at_fault,
    unreadable_file,
)
from airflow_lake_provider.spark_jobs.formats.commits import MatchedCommit, RowMatch
from airflow_lake_provider.spark_jobs.formats.iceberg.rows.row_positions import (
    ROW_ID,
    WINS,
    ResolvedRows,
    collect_positions,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.filter_pushdown import (
    always_true,
    bounds_are_sure,
    rows_where,
    to_expression,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.formats.iceberg.table.pushdown_literals import (
    refuse_capitals,
    refuse_other_spellings,
)
from airflow_lake_provider.spark_jobs.jvm.java_errors import SPARK_ERRORS
from airflow_lake_provider.spark_jobs.sql.identifiers import quoted
from airflow_lake_provider.spark_jobs.sql.parsed_tree import silenced
from airflow_lake_provider.spark_jobs.sql.predicate import check_expression


def matched_rows(table: IcebergTable, commit: MatchedCommit) -> ResolvedRows:
    """Find the rows that match at ``commit.base``.

    :return: for an update with all columns of the rows.
    :raises CommitConflictError: the base was expired meanwhile.
    :raises InvalidSpecError: the predicate cannot be taken.
    :raises UnsupportedError: rows to update have a VARIANT that Spark cannot read yet.
    """
    check_match(table, commit.match)
    if commit.base is None:
        return ResolvedRows()
    if commit.match.where is not None and not commit.match.allow_sql:
        refuse_capitals(table, commit.match.where)
    with withheld(table, commit.match):
        if commit.match.keys is not None:
            refuse_other_spellings(table, commit.match.keys, commit.match.keys.columns)
        table_rows = rows_now_named(table, int(commit.base))
        updates = commit.assignments is not None
        if updates:
            _refuse_new_variants(table, int(commit.base))
        lineage = [ROW_ID] if updates and table.format_version >= 3 else []
        kept = [*(table_rows.columns if updates else ()), *lineage]
        # Before a join: it hides the metadata columns.
        rows = matching(table, table_rows.select("*", "_file", "_pos", *lineage), commit.match, int(commit.base))
        rows = rows.select("_file", "_pos", *(quoted(name) for name in kept))
        if updates:
            # Lazy: the job that collects the positions also fills it.
            rows = rows.localCheckpoint(eager=False)
        changed = rows.withColumns({WINS: sf.lit(True), DELETED: sf.lit(not updates)})
        place = collect_positions(changed, keys=None)
    return ResolvedRows(rows=rows.drop("_file", "_pos") if updates else None, place=place)


def _refuse_new_variants(table: IcebergTable, base: int) -> None:
    names = table.new_variants(base)
    if names:
        raise UnsupportedError(
            f"{table.name}: rows cannot be updated, columns {names} of type VARIANT were added since the last "
            "commit, and Spark cannot read them before there is another; run a compaction with level='full' first"
        )


def matching(table: IcebergTable, rows: DataFrame, match: RowMatch, snapshot: int) -> DataFrame:
    """Return the rows that match, of those that are read from a snapshot."""
    if match.where is not None:
        return rows_where(table, rows, match.where, snapshot)
    return matching_of_files(rows, match)


def matching_of_files(rows: DataFrame, match: RowMatch) -> DataFrame:
    """Return the rows that match, of a scan of chosen files, which nothing is pushed into."""
    if match.keys is None:
        return rows.filter(sf.expr(match.where or "false"))
    # Not pruned by the keys: they would become literals of the plan, which the Spark UI and its event log keep.
    return rows.join(match.keys, on=match.keys.columns, how="left_semi")


def check_match(table: IcebergTable, match: RowMatch) -> Any:
    """Return an ``org.apache.iceberg.expressions.Expression`` that is true for all rows that match.

    :raises InvalidSpecError: ``where`` is more than a predicate, or not one expression where free SQL was allowed.
    """
    if match.where is not None and match.allow_sql:
        check_expression(table.spark, match.where, str(table.name), is_secret=match.is_secret)
    otherwise = ", or set allow_sql=True, which makes it code"
    where = None if match.allow_sql else match.where
    expression = to_expression(table, where, is_secret=match.is_secret, otherwise=otherwise)
    return expression if where is None or bounds_are_sure(table, where) else always_true(table)


@contextmanager
def withheld(table: IcebergTable, match: RowMatch) -> Iterator[None]:
    """Keep what names the rows of an erasure out of errors: those of Spark quote the predicate, or a value."""
    try:
        with silenced() if match.is_secret else nullcontext():
            yield
    except (InvalidSpecError, ParseException, AnalysisException) as error:
        if not match.is_secret:
            raise
        raise InvalidSpecError(
            f"{table.name}: where was refused, and its text is withheld: it does not parse ({type(error).__name__}), "
            "names unknown columns, or does not convert to an Iceberg expression. Compare columns with constants by =, "
            "<, >, IN, IS NULL or LIKE 'x%', joined by AND, OR and NOT, or set allow_sql=True"
        ) from None
    except SPARK_ERRORS as error:
        if not match.is_secret:
            raise
        withheld_text = "the message is withheld, it may name what is erased"
        if faults := settings_at_fault(error, table.properties):
            raise BrokenMetadataError(f"{table.name}: {'; '.join(faults)}") from None
        if (cause := root_cause(error)) is not None:
            raise cause.kind.error(f"{table.name}: {cause.kind.name}. {cause.kind.remedy}; {withheld_text}") from None
        if (message := unreadable_file(error)) is not None:
            broken = "is gone" if is_gone(message) else "cannot be read"
            raise BrokenMetadataError(
                f"{table.name}: its metadata, or a file that it names, {broken}. {ROLL_BACK}; {withheld_text}"
            ) from None
        raise JobFailedError(
            f"{table.name}: looking for the rows failed with {type(error).__name__}; {withheld_text}"
        ) from None


def rows_now_named(table: IcebergTable, base: int) -> DataFrame:
    """Return the live rows of a snapshot of main by present names.

    :raises CommitConflictError: it was expired meanwhile, or has old names and is main's head no more.
    """
    snapshot = table.refresh().java.snapshot(base)
    if snapshot is None:
        raise CommitConflictError(f"{table.name}: snapshot {base} was expired meanwhile")
    # Should the head move before this is read, the commit is refused: it is made on the base only.
    return table.rows_of_base(base)
