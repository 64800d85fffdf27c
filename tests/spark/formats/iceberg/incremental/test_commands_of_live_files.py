"""The commands that the plan of an incremental read sends to the JVM do not grow with data files, nor with deletes."""

from __future__ import annotations

from pyspark.sql import SparkSession

from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.row_versions import (
    ChangedFiles,
    changed_files,
    live_files,
)
from tests.spark.equality_delete import delete_by_equality
from tests.spark.formats.iceberg.incremental.changes_history import ChangesHistory, deletes, upserts
from tests.spark.jvm_commands import commands

FILES, DELETES = 12, 10


def _planned(history: ChangesHistory, start: str, end: str) -> tuple[ChangedFiles, int]:
    """Return the files that differ, and how many commands it took to tell them and what they have lost."""
    table = history.handle()
    # What is made once for a driver.
    live_files(table, int(start))
    with commands(history.spark) as sent:
        changed = changed_files(live_files(table, int(start)), live_files(table, int(end)))
        for first, last in changed.with_other_deletes:
            assert first.is_parquet
            assert last.deleted_rows - first.deleted_rows in (0, 1)
            assert first.rows > 0
    return changed, len(sent)


def test_a_plan_costs_as_many_commands_for_many_files_with_equality_deletes_as_for_one(spark: SparkSession) -> None:
    history = ChangesHistory(spark)
    start = history.insert({500: "a"})
    _, few = _planned(history, start, history.insert({501: "a"}))
    history.run(f"INSERT INTO {{t}} SELECT /*+ REPARTITION({FILES}) */ id, 'a' FROM range({FILES * 10})")
    for key in range(DELETES):
        delete_by_equality(spark, history.handle().java, [key])
    start = str(history.handle().head())
    files = live_files(history.handle(), int(start))
    assert [file.deleted_rows for file in files] == [DELETES] * (FILES + 2)
    assert len({file.deletes for file in files}) == 1
    end = history.insert({502: "b"})
    changed, many = _planned(history, start, end)
    assert (len(changed.before), len(changed.after), many) == (0, 1, few)
    # One more delete is on each file that is older.
    delete_by_equality(spark, history.handle().java, [50])
    last = str(history.handle().head())
    changed, many = _planned(history, end, last)
    assert (len(changed.with_other_deletes), len(changed.added), many) == (FILES + 3, 0, few)
    assert history.changes(start, last) == upserts((502, "b")) + deletes((50, "a"))
