"""Changes between snapshots that cannot be told are refused with what to do."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import (
    InvalidSpecError,
    MissingTableError,
    RangeUnavailableError,
    UnsupportedError,
)
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.formats.iceberg.incremental.changes_history import ChangesHistory, deletes, upserts


@pytest.fixture
def history(spark: SparkSession) -> ChangesHistory:
    return ChangesHistory(spark)


def test_a_start_that_was_expired_is_refused_with_the_way_out(history: ChangesHistory) -> None:
    start = history.insert({1: "a"})
    history.insert({2: "b"})
    history.expire_all_but()
    with pytest.raises(RangeUnavailableError, match=rf"from_snapshot {start} .* full_refresh=True.*on_gap='full'"):
        history.changes(start)


def test_a_start_before_the_upgrade_to_v3_is_refused_and_one_after_it_works(spark: SparkSession) -> None:
    history = ChangesHistory(spark, version=2)
    start = history.insert({1: "a", 2: "b", 3: "c"})
    with pytest.raises(UnsupportedError, match="the table has version 2"):
        history.changes(start)
    history.run("DELETE FROM {t} WHERE id = 3")
    history.run("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    with pytest.raises(RangeUnavailableError, match="before the table had format version 3"):
        history.changes(start)
    after = history.insert({4: "d"})
    history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
    history.run("DELETE FROM {t} WHERE id = 1")
    assert history.changes(after) == upserts((2, "B")) + deletes((1, "a"))


def test_a_column_that_stands_beside_others_in_the_read_is_refused_and_one_alike_is_read(spark: SparkSession) -> None:
    history = ChangesHistory(spark)
    spark.sql(f"ALTER TABLE {history.name} ADD COLUMNS (_lake_key_0 STRING, _LAKE_ROW_ID INT, _lake_loaded_at INT)")
    start = history.run("INSERT INTO {t} VALUES (1, 'a', 'x', 1, 1), (2, 'b', 'y', 2, 2)")
    history.run("DELETE FROM {t} WHERE id = 2")
    with pytest.raises(UnsupportedError, match="has a column _lake_key_0, _LAKE_ROW_ID; rename it"):
        history.changes(start)
    spark.sql(f"ALTER TABLE {history.name} DROP COLUMNS (_lake_key_0, _LAKE_ROW_ID)")
    history.run("INSERT INTO {t} VALUES (3, 'c', 3)")
    assert history.changes(start) == deletes((2, "b", 2)) + upserts((3, "c", 3))


def test_what_cannot_be_answered_is_refused_by_name(history: ChangesHistory) -> None:
    head = history.insert({1: "a"})
    with pytest.raises(UnsupportedError, match="changelog"):
        history.changes(head, mode="changelog")
    with pytest.raises(InvalidSpecError, match="mode must be one of"):
        history.changes(head, mode="deletes")
    with pytest.raises(InvalidSpecError, match="from_snapshot must be a snapshot id as text"):
        history.changes("yesterday")
    with pytest.raises(MissingTableError):
        read_changes(history.spark, "changes.nowhere", None, None)
