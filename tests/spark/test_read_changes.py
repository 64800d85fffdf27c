"""Changes between two snapshots of v3 merge-on-read tables equal changes written down by hand."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_lake_provider.contracts.errors import (
    InvalidSpecError,
    UnsupportedError,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental import net_changes, row_versions
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.deleted_keys import (
    DeletedKeys,
    deletes_without_live_key,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.incremental.row_versions import changed_files, live_files
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.internal_classes import missing_internals
from airflow_lake_provider.spark_jobs.read_changes import read_changes
from tests.spark.equality_delete import delete_by_equality
from tests.spark.formats.iceberg.incremental.changes_history import CATALOG, ChangesHistory, deletes, upserts

NOTHING = upserts()


@pytest.fixture
def history(spark: SparkSession) -> ChangesHistory:
    return ChangesHistory(spark)


def test_a_merge_with_all_branches_comes_out_by_its_effect(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b", 3: "c"})
    history.run(
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (2L, 'B'), (3L, NULL), (9L, 'i') AS s(id, v)) s ON t.id = s.id "
        "WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert history.changes(start) == upserts((2, "B"), (9, "i")) + deletes((3, "c"))


def test_a_row_that_was_updated_before_the_range_and_deleted_in_it_is_a_delete(history: ChangesHistory) -> None:
    history.insert({1: "a", 2: "b", 3: "c"})
    # Its old place is deleted at the start of the range, and has the same row id.
    start = history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
    history.run("DELETE FROM {t} WHERE id = 2")
    history.run("UPDATE {t} SET v = 'C' WHERE id = 3")
    assert history.changes(start) == upserts((3, "C")) + deletes((2, "B"))


def test_rows_that_stay_are_not_taken_for_gone_where_a_reader_cannot_tell(
    history: ChangesHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='avro')")
    start = history.insert(dict.fromkeys(range(20), "a"))
    history.run("DELETE FROM {t} WHERE id = 3")
    counted = []

    def counting(table: Any, schema: Any, gone: DataFrame, *more: Any) -> DeletedKeys | None:
        counted.append(gone.count())
        return deletes_without_live_key(table, schema, gone, *more)

    monkeypatch.setattr(net_changes, "deletes_without_live_key", counting)
    assert history.changes(start) == deletes((3, "a"))
    assert counted == [1]


@pytest.mark.parametrize(
    ("statements", "changes", "reads"),
    [
        (["DELETE FROM {t} WHERE id = 3"], deletes((3, "c")), 0),
        # As many rows came as went, and one of them is an update.
        (
            ["UPDATE {t} SET v = 'B' WHERE id = 2", "INSERT INTO {t} VALUES (8, 'h')", "DELETE FROM {t} WHERE id = 3"],
            upserts((2, "B"), (8, "h")) + deletes((3, "c")),
            0,
        ),
        # No row went; one has another key.
        (["UPDATE {t} SET id = 7 WHERE id = 1"], upserts((7, "a")) + deletes((1, "a")), 1),
        (["UPDATE {t} SET v = 'B' WHERE id = 2"], upserts((2, "B")), 0),
    ],
    ids=["deletes", "deletes among others", "a changed key", "an update"],
)
def test_deleted_rows_are_read_once_more_for_their_values_only_where_none_surely_went(
    history: ChangesHistory,
    monkeypatch: pytest.MonkeyPatch,
    statements: list[str],
    changes: Counter[tuple[Any, ...]],
    reads: int,
) -> None:
    start = history.insert({1: "a", 2: "b", 3: "c"})
    for statement in statements:
        history.run(statement)
    again = []

    def counting(*arguments: Any) -> DataFrame:
        again.append(arguments)
        return with_values(*arguments)

    with_values = net_changes._with_values
    monkeypatch.setattr(net_changes, "_with_values", counting)
    assert history.changes(start) == changes
    assert len(again) == reads


@pytest.mark.parametrize("whose", ["table", "session"])
def test_deleted_rows_of_files_that_no_vectorised_reader_takes_are_read_as_their_owner_says(
    history: ChangesHistory, whose: str
) -> None:
    """Iceberg refuses booleans in runs of bits, as Parquet's second page version has them."""
    history.run("ALTER TABLE {t} ADD COLUMN paid BOOLEAN")
    history.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.parquet.page-version'='v2')")
    rows = ", ".join(f"({number}L, 'a', {number % 3 == 0})" for number in range(20))
    start = history.run(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    if whose == "table":
        history.run("ALTER TABLE {t} SET TBLPROPERTIES ('read.parquet.vectorization.enabled'='False')")
    else:
        history.spark.conf.set("spark.sql.iceberg.vectorization.enabled", "false")
    try:
        history.run("DELETE FROM {t} WHERE id = 3")
        assert history.changes(start) == deletes((3, "a", True))
        middle = str(history.handle().head())
        history.run("DELETE FROM {t} WHERE id = 4")
        assert history.changes(middle) == deletes((4, "a", False))
    finally:
        history.spark.conf.unset("spark.sql.iceberg.vectorization.enabled")


def test_copy_on_write_carries_rows_over_without_reporting_them(history: ChangesHistory) -> None:
    history.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.update.mode'='copy-on-write')")
    start = history.insert({1: "a", 2: "b", 3: "c"})
    history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
    assert history.changes(start) == upserts((2, "B"))


def test_a_row_deleted_and_inserted_again_is_one_upsert(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b"})
    history.run("DELETE FROM {t} WHERE id = 1")
    history.insert({1: "again"})
    assert history.changes(start) == upserts((1, "again"))


def test_a_row_born_and_deleted_inside_the_range_does_not_appear(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b"})
    history.insert({3: "c", 4: "d"})
    history.run("DELETE FROM {t} WHERE id = 3")
    assert history.changes(start) == upserts((4, "d"))


def test_a_changed_key_is_a_delete_of_the_old_and_an_upsert_of_the_new(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b"})
    history.run("UPDATE {t} SET id = 7 WHERE id = 1")
    assert history.changes(start) == upserts((7, "a")) + deletes((1, "a"))


def test_compaction_alone_changes_nothing(history: ChangesHistory) -> None:
    history.insert({1: "a", 2: "b", 3: "c"})
    history.insert({4: "d"})
    start = history.run("DELETE FROM {t} WHERE id = 2")
    end = history.compact()
    assert start != end
    assert history.changes(start, end) == NOTHING


def test_changes_before_and_after_a_compaction_in_the_range_come_out_alone(history: ChangesHistory) -> None:
    history.insert({1: "a", 2: "b", 3: "c"})
    start = history.insert({4: "d", 5: "e", 6: "f"})
    history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
    history.run("DELETE FROM {t} WHERE id = 4")
    history.compact()
    history.run("UPDATE {t} SET v = 'E' WHERE id = 5")
    history.run("DELETE FROM {t} WHERE id = 6")
    assert history.changes(start) == upserts((2, "B"), (5, "E")) + deletes((4, "d"), (6, "f"))


def test_files_that_both_ends_have_with_the_same_deletes_are_not_read(history: ChangesHistory) -> None:
    history.insert({1: "a", 2: "b"})
    history.insert({3: "c", 4: "d"})
    start = history.run("DELETE FROM {t} WHERE id = 1")
    end = history.run("UPDATE {t} SET v = 'D' WHERE id = 4")
    table = history.handle()
    changed = changed_files(live_files(table, int(start)), live_files(table, int(end)))
    assert [len(files) for files in (changed.before, changed.after, changed.added)] == [1, 2, 1]
    assert history.changes(start, end) == upserts((4, "D"))


def test_expired_snapshots_between_the_ends_are_not_missed(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b", 3: "c"})
    history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
    history.run("DELETE FROM {t} WHERE id = 3")
    end = history.insert({4: "d"})
    history.expire_all_but(start)
    assert history.changes(start, end) == upserts((2, "B"), (4, "d")) + deletes((3, "c"))


def test_after_a_rollback_and_other_commits_both_branches_are_told_apart(history: ChangesHistory) -> None:
    base = history.insert({1: "a", 2: "b", 3: "c"})
    history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
    consumed = history.insert({4: "d"})
    history.run(f"CALL {CATALOG}.system.rollback_to_snapshot('{{t}}', {base})")
    history.run("UPDATE {t} SET v = 'C' WHERE id = 3")
    assert history.changes(consumed) == upserts((2, "b"), (3, "C")) + deletes((4, "d"))


def test_after_a_rollback_to_an_ancestor_the_range_runs_backwards(history: ChangesHistory) -> None:
    base = history.insert({1: "a", 2: "b", 3: "c"})
    consumed = history.run("DELETE FROM {t} WHERE id = 2")
    history.run(f"CALL {CATALOG}.system.rollback_to_snapshot('{{t}}', {base})")
    assert history.changes(consumed) == upserts((2, "b"))


def test_rows_before_an_added_column_are_read_with_the_new_schema(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b", 3: "c"})
    history.run("ALTER TABLE {t} ADD COLUMN n INT")
    history.run("ALTER TABLE {t} RENAME COLUMN v TO w")
    history.run("UPDATE {t} SET n = 5 WHERE id = 2")
    history.run("DELETE FROM {t} WHERE id = 3")
    assert history.changes(start) == upserts((2, "b", 5)) + deletes((3, "c", None))


def test_an_end_before_a_schema_change_has_the_schema_of_its_time(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b"})
    end = history.run("DELETE FROM {t} WHERE id = 2")
    history.run("ALTER TABLE {t} DROP COLUMN v")
    assert history.handle().java.schema().findField("v") is None
    assert history.changes(start, end) == deletes((2, "b"))


def test_a_partitioned_table_reports_rows_that_move_between_partitions(spark: SparkSession) -> None:
    history = ChangesHistory(spark, partitioned_by="v")
    start = history.insert({1: "a", 2: "a", 3: "b", 4: "b"})
    history.run("UPDATE {t} SET v = 'b' WHERE id = 1")
    history.run("DELETE FROM {t} WHERE v = 'b' AND id > 2")
    assert history.changes(start) == upserts((1, "b")) + deletes((3, "b"), (4, "b"))


def test_a_dropped_partition_is_deletes(spark: SparkSession) -> None:
    history = ChangesHistory(spark, partitioned_by="v")
    start = history.insert({1: "a", 2: "a", 3: "b"})
    history.run("DELETE FROM {t} WHERE v = 'a'")
    assert history.changes(start) == deletes((1, "a"), (2, "a"))


def test_a_key_that_another_live_row_still_has_is_not_deleted(spark: SparkSession) -> None:
    history = ChangesHistory(spark, identifier=False)
    history.insert({1: "old", 2: "b"})
    start = history.insert({1: "new", 3: "c"})
    history.run("DELETE FROM {t} WHERE v IN ('old', 'c')")
    assert history.changes(start, keys=["id"]) == deletes((3, "c"))
    history.run("DELETE FROM {t} WHERE id = 1")
    assert history.changes(start, keys=["id"]) == deletes((1, "new"), (3, "c"))


def test_the_least_numbers_that_live_on_in_a_truncated_partition_are_not_deleted(spark: SparkSession) -> None:
    history = ChangesHistory(spark, partitioned_by="truncate(50, id)", identifier=False)
    numbers = (-(2**63), 0)
    history.insert(dict.fromkeys(numbers, "old"))
    start = history.insert(dict.fromkeys((*numbers, 7), "new"))
    history.run("DELETE FROM {t} WHERE v = 'old' OR id = 7")
    assert history.changes(start, keys=["id"]) == deletes((7, "new"))


def test_null_keys_are_matched_like_any_other_key(spark: SparkSession) -> None:
    history = ChangesHistory(spark, identifier=False)
    history.run("INSERT INTO {t} VALUES (1, NULL), (2, NULL), (3, 'c')")
    start = str(history.handle().head())
    history.run("DELETE FROM {t} WHERE id IN (1, 3)")
    assert history.changes(start, keys=["v"]) == deletes((3, "c"))


def test_rows_of_a_key_of_several_columns_are_told_apart_by_all_of_them(spark: SparkSession) -> None:
    history = ChangesHistory(spark, identifier=False)
    start = history.run("INSERT INTO {t} VALUES (1, 'a'), (1, 'b'), (2, 'a')")
    history.run("DELETE FROM {t} WHERE id = 1 AND v = 'a'")
    assert history.changes(start, keys=["id", "v"]) == deletes((1, "a"))


def test_without_a_start_everything_live_is_an_upsert(history: ChangesHistory) -> None:
    history.insert({1: "a", 2: "b"})
    end = history.run("DELETE FROM {t} WHERE id = 1")
    history.insert({3: "c"})
    assert history.changes(None, end) == upserts((2, "b"))
    assert history.changes(None) == upserts((2, "b"), (3, "c"))


def test_an_empty_range_and_an_empty_table_have_no_changes_but_a_schema(history: ChangesHistory) -> None:
    empty = read_changes(history.spark, history.name, None, None)
    assert (empty.columns, empty.count()) == (["id", "v", "_change_type"], 0)
    head = history.insert({1: "a"})
    same = read_changes(history.spark, history.name, head, head)
    assert (same.columns, same.count()) == (["id", "v", "_change_type"], 0)


def test_mode_upserts_leaves_deletes_out_and_needs_no_keys(spark: SparkSession) -> None:
    history = ChangesHistory(spark, identifier=False)
    start = history.insert({1: "a", 2: "b"})
    history.run("DELETE FROM {t} WHERE id = 1")
    history.insert({3: "c"})
    assert history.changes(start, mode="upserts") == upserts((3, "c"))
    with pytest.raises(InvalidSpecError, match="deletes need keys"):
        history.changes(start)


def test_columns_are_narrowed_to_the_keys_and_those_asked_for(history: ChangesHistory) -> None:
    history.run("ALTER TABLE {t} ADD COLUMN n INT")
    start = history.run("INSERT INTO {t} VALUES (1, 'a', 10), (2, 'b', 20)")
    history.run("DELETE FROM {t} WHERE id = 2")
    assert history.changes(start, columns=["n"]) == deletes((2, 20))
    with pytest.raises(InvalidSpecError, match="no top-level column"):
        history.changes(start, columns=["m"])


def test_where_reports_the_changes_of_the_rows_that_satisfy_it(history: ChangesHistory) -> None:
    start = history.insert({1: "in", 2: "in", 3: "out", 4: "out", 5: "in"})
    history.run("UPDATE {t} SET v = CASE id WHEN 1 THEN 'out' WHEN 3 THEN 'in' ELSE v END WHERE id IN (1, 3)")
    history.run("DELETE FROM {t} WHERE id IN (2, 4)")
    assert history.changes(start, where="v = 'in'") == upserts((3, "in")) + deletes((1, "in"), (2, "in"))


def test_equality_deletes_are_applied_at_both_ends(history: ChangesHistory) -> None:
    start = history.insert({1: "a", 2: "b", 3: "c"})
    delete_by_equality(history.spark, history.handle().java, keys=[1, 2])
    history.insert({2: "B"})
    assert history.changes(start) == upserts((2, "B")) + deletes((1, "a"))


def test_without_the_internal_classes_the_answer_is_the_same_and_a_warning_names_them(
    history: ChangesHistory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = history.insert({1: "a", 2: "b", 3: "c"})
    history.run("UPDATE {t} SET v = 'B' WHERE id = 2")
    history.compact()
    history.run("DELETE FROM {t} WHERE id = 3")
    expected = history.changes(start)
    absent = "org.apache.iceberg.spark.NoSuchCache"
    monkeypatch.setattr(f"{row_versions.__name__}.missing_internals", lambda spark: missing_internals(spark, [absent]))
    with caplog.at_level(logging.WARNING):
        assert history.changes(start) == expected == upserts((2, "B")) + deletes((3, "c"))
    assert absent in caplog.text
    history.run("ALTER TABLE {t} ADD COLUMN n INT")
    history.run("INSERT INTO {t} VALUES (9, 'i', 1)")
    with pytest.raises(UnsupportedError, match="schema changed"):
        history.changes(start)


def test_without_the_internal_classes_a_text_of_an_orc_file_is_found(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = ChangesHistory(spark)
    history.run("ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default' = 'orc')")
    start = history.insert({1: "x"})
    # The last one is above U+D7FF and below the second in UTF-16 only.
    history.insert({2: "A", 3: "\U0001f600", 4: "\uff21"})
    monkeypatch.setattr(f"{row_versions.__name__}.missing_internals", lambda spark: ["org.apache.iceberg.Absent"])
    assert history.changes(start, where="v = '\uff21'") == upserts((4, "\uff21"))
