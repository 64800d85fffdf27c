"""Keep the dead letters of a batch in their table, once, before the others of its records are committed."""

from __future__ import annotations

from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.dead_letters import LETTER_ID, DeadLetters
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import AppendCommit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts


def keep_dead_letters(
    table: FormatTable, name: str, letters: DeadLetters, run_key: str, max_attempts: int, progress: Progress
) -> None:
    """Add those that the table has not: a second try, and a second driver, have letters of the same ids.

    :param name: of the table, for messages.
    :raises BadInputError: it is another table.
    :raises CommitConflictError: other writers won every attempt.
    """

    def attempt(number: int) -> None:  # noqa: ARG001  # each is alike
        columns = StructType([StructField(field.name, field.dataType) for field in letters.rows.schema])
        present = table.schema() if table.is_created() else None
        if present is None:
            table.create(columns, (LETTER_ID,), TableLayout())
        elif lacking := sorted({*columns.names} - {*present.names}):
            raise BadInputError(f"{name} is no table of dead letters, it lacks {lacking}; give dead_letter another one")
        base = table.applied_state("").base
        rows, kept = letters.rows, table.current_rows(base)
        if kept is not None:
            # Files that have letters of other targets alone go unread.
            kept = kept.filter(sf.col("target") == letters.target).select(LETTER_ID)
            rows = rows.join(kept, LETTER_ID, "left_anti")
        # Of what it reads, nothing may change before it commits: two drivers would add the same letters.
        commit = AppendCommit(
            action="dead-letters",
            run_key=run_key,
            base=base,
            rows=rows,
            reads_table=True,
            counts=lambda added: {} if added else None,
        )
        table.append(commit, Progress())

    with progress.phase("dead letters") as facts:
        facts["rows"] = letters.count
        retry_conflicts(attempt, max_attempts, progress)
