"""Keep the dead letters of a batch in their table, once, before the others of its records are committed."""

from __future__ import annotations

from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from airflow_lake_provider.contracts.author.table_layout import TableLayout
from airflow_lake_provider.contracts.errors import BadInputError
from airflow_lake_provider.spark_jobs.batch.change_batch import release_frames, released_on_failure
from airflow_lake_provider.spark_jobs.batch.dead_letters import LETTER_ID, DeadLetters
from airflow_lake_provider.spark_jobs.formats.base import FormatTable
from airflow_lake_provider.spark_jobs.formats.commits import AppendCommit
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.spark_jobs.retry_conflicts import retry_conflicts

_ATTEMPTS = 20


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
        rows, kept = aside, table.current_rows(base)
        if kept is not None:
            # Files that have letters of other targets, or other input, alone go unread. An id is of its file.
            kept = kept.filter((sf.col("target") == letters.target) & sf.col("file").isin(files))
            rows = rows.join(kept.select(LETTER_ID), LETTER_ID, "left_anti")
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

    with progress.phase("dead letters") as facts, released_on_failure() as cached:
        facts["rows"] = letters.count
        # Each attempt would find them among all records again.
        cached.append(aside := letters.rows.persist())
        files = [row["file"] for row in aside.select("file").distinct().collect()]
        # All loads of a lake may keep their letters in one table.
        retry_conflicts(attempt, max(max_attempts, _ATTEMPTS), progress)
        release_frames(aside)
