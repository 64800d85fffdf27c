"""Deletions: the rows go once, nothing names them afterwards, and the report knows every file that still holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.lake_tables import LakeTable
from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import BadInputError, ForgottenRunError, InvalidSpecError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.sources import delete_keys, lake_table
from tests.spark.equality_delete import delete_by_equality
from tests.spark.forgotten_runs import forget_runs, old_run
from tests.spark.hostile_tables import write_metadata
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.row_change_flow import delete, expire_all, rows_outside

# Long enough not to be part of a snapshot id.
SECRET = 47_114_711


def test_a_retry_is_recognised_and_still_says_who_holds_the_rows(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 10)
    first = delete(table, where="id < 3")
    table.append(0, 1)
    retry = delete(table, where="id < 3")
    assert (retry.outcome, retry.run_key, retry.committed) == (Outcome.ALREADY_APPLIED, first.run_key, first.committed)
    assert (retry.rows_deleted, retry.erased_digest, retry.digest_salt) == (3, first.erased_digest, None)
    assert retry.retained_by
    assert set(rows_outside(table)) == set(range(3, 10)) | {0}


def test_a_retry_with_corrected_keys_says_that_their_rows_live_on_and_how_to_delete_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 5)
    keys = tmp_path / "keys.csv"
    keys.write_text("id\n1\n")
    source = Files(path=str(keys), format="csv", options={"header": "true"})
    first = delete(table, keys_from=source, keys=("id",))
    assert not any("not deleted" in said for said in (*first.still_to_do, *first.warnings))
    retry = delete(table, keys_from=source, keys=("id",))
    assert not any("not deleted" in said for said in (*retry.still_to_do, *retry.warnings))
    keys.write_text("id\n2\n")
    corrected = delete(table, keys_from=source, keys=("id",))
    assert corrected.outcome is Outcome.ALREADY_APPLIED
    assert corrected.still_to_do[0].startswith("rows of main match and are not deleted: clear the task")
    assert corrected.still_to_do[0] in corrected.warnings
    assert set(rows_outside(table)) == {0, 2, 3, 4}


def test_keys_that_are_committed_while_their_table_is_listed_empty_delete_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, keys = MaintainedTable(spark), MaintainedTable(spark)
    table.append(0, 5)
    listed = lake_table.pinned_snapshot

    def then_committed(*arguments: Any) -> str | None:
        snapshot = listed(*arguments)
        keys.append(1, 2)
        return snapshot

    monkeypatch.setattr(delete_keys, "pinned_snapshot", then_committed)
    source = LakeTable(keys.name, where="amount = 10")
    assert delete(table, keys_from=source, keys=("id",)).outcome is Outcome.EMPTY_BATCH
    assert rows_outside(table) == table.rows
    assert delete(table, "run 2", keys_from=source, keys=("id",)).rows_deleted == 1
    assert set(rows_outside(table)) == {0, 2, 3, 4}


def test_a_lost_commit_of_an_erasure_names_no_partition(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD id")
    table.append(SECRET, 2)
    keys = tmp_path / "keys.jsonl"
    keys.write_text(f'{{"id": {SECRET}}}\n')

    def meanwhile() -> None:
        table.merge({SECRET: 7})

    source = Files(path=str(keys), format="json", schema="id BIGINT")
    report = delete(table, progress=ProgressThatRuns("commit", meanwhile), keys_from=source, keys=("id",))

    assert (report.attempts, report.rows_deleted) == (2, 1)
    printed = capfd.readouterr()
    assert "attempt 1 of 5" in printed.out
    assert str(SECRET) not in printed.out + printed.err
    del table.rows[SECRET]
    assert rows_outside(table) == table.rows


def test_rows_are_matched_by_the_names_that_columns_have_now(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 5)
    spark.sql(f"ALTER TABLE {table.name} RENAME COLUMN amount TO price")
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMN amount BIGINT")
    assert delete(table, where="amount IS NOT NULL").outcome is Outcome.NOTHING_NEW
    report = delete(table, "run 2", where="price >= 30")
    assert report.rows_deleted == 2
    assert report.retained_by is not None
    assert [row["id"] for row in table.outside().scan().to_arrow().to_pylist()] == [0, 1, 2]


def test_a_column_is_named_in_any_case_and_who_holds_the_rows_is_told(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 5)
    report = delete(table, where="ID = 3")
    assert (report.rows_deleted, report.warnings) == (1, ())
    assert report.retained_by is not None
    assert set(report.retained_by) == {"branch main", "history"}


def test_equality_deletes_that_only_a_tag_or_the_history_reaches_are_named(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    first = table.handle.head()
    delete_by_equality(spark, table.handle.java, [SECRET])
    spark.sql(f"ALTER TABLE {table.name} CREATE TAG audit")
    spark.sql(f"CALL system.rollback_to_snapshot('{table.name}', {first})")
    tagged = delete(table, where=f"id = {SECRET}")
    assert tagged.retained_by == {}
    assert "may name them" in tagged.reason
    assert [said[:36] for said in tagged.still_to_do] == [
        "drop the tag audit, or move it to a ",
        "equality deletes that tag audit keep",
        "then expire the snapshots until now ",
    ]
    spark.sql(f"ALTER TABLE {table.name} DROP TAG audit")
    kept = delete(table, "run 2", where=f"id = {SECRET}")
    assert [said[:34] for said in kept.still_to_do] == [
        "equality deletes that history keep",
        "then expire the snapshots until no",
    ]
    expire_all(table)
    assert delete(table, "run 3", where=f"id = {SECRET}").still_to_do == ()


@pytest.mark.parametrize("deletes_by_key", [True, False])
@pytest.mark.parametrize("from_zero", [True, False])
def test_equality_deletes_that_no_summary_counts_are_named(
    spark: SparkSession, deletes_by_key: bool, from_zero: bool
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    if deletes_by_key:
        delete_by_equality(spark, table.handle.java, [SECRET])
    else:
        table.delete([1])

    def uncount(metadata: dict[str, Any]) -> None:
        # As Iceberg counts on a branch that begins with the commit.
        totals = {f"total-{kind}": "0" for kind in ("delete-files", "position-deletes", "equality-deletes")}
        for snapshot in metadata["snapshots"]:
            snapshot["summary"] = {
                "operation": snapshot["summary"]["operation"],
                **(totals if from_zero else {}),
            }

    write_metadata(table, uncount)
    to_do = delete(table, where=f"id = {SECRET}").still_to_do
    assert any("equality deletes of main hold keys as values" in each for each in to_do) is deletes_by_key


def test_what_cannot_be_done_is_refused_without_a_word_of_it(spark: SparkSession, tmp_path: Path) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    for where in (f"abs(id) = {SECRET}", f"nothing = {SECRET}", f"id = = {SECRET}", f"id IN (SELECT {SECRET})"):
        with pytest.raises(InvalidSpecError, match="withheld") as refused:
            delete(table, where=where)
        assert str(SECRET) not in str(refused.value)
    keys = tmp_path / "keys.csv"
    keys.write_text(f"id\nx{SECRET}\n\n")
    source = Files(path=str(keys), format="csv", options={"header": "true"})
    with pytest.raises(BadInputError, match="does not fit bigint in 1") as unfit:
        delete(table, keys_from=source, keys=("id",))
    assert str(SECRET) not in str(unfit.value)
    nothing = Files(path=str(tmp_path / "no-*.csv"), format="csv")
    assert delete(table, keys_from=nothing, keys=("id",)).outcome is Outcome.EMPTY_BATCH
    assert delete(table, where="abs(id) = 2", allow_sql=True, proof=False).rows_deleted == 1
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('encryption.key-id' = 'k')")
    with pytest.raises(UnsupportedError, match="encrypted"):
        delete(table, "run 2", where="id = 1")
    old = MaintainedTable(spark, version=1)
    with pytest.raises(UnsupportedError, match="format version 1"):
        delete(old, where="id = 1")


def test_a_retry_of_which_the_table_may_have_forgotten_the_first_try_deletes_no_newer_row(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    forget_runs(spark, table.name)
    with pytest.raises(ForgottenRunError, match="clear the task again, or start a new DAG run"):
        delete(table, old_run(2), where="id = 1")
    assert rows_outside(table) == table.rows
    assert delete(table, old_run(1), where="id = 1").rows_deleted == 1
    # A row of that key that came since is another.
    table.append(1, 1)
    assert delete(table, old_run(2), where="id = 1").outcome is Outcome.ALREADY_APPLIED
    assert rows_outside(table) == table.rows


@pytest.mark.parametrize("path", ["keys.csv", "*.csv"])
def test_a_retry_whose_keys_are_archived_says_that_their_rows_are_deleted(
    spark: SparkSession, tmp_path: Path, path: str
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 5)
    keys = tmp_path / "keys.csv"
    keys.write_text("id\n1\n")
    source = Files(path=f"{tmp_path}/{path}", format="csv", options={"header": "true"})
    first = delete(table, keys_from=source, keys=("id",))
    keys.unlink()
    retry = delete(table, keys_from=source, keys=("id",))
    assert (retry.outcome, retry.rows_deleted, retry.committed) == (Outcome.ALREADY_APPLIED, 1, first.committed)
    assert any("cannot be read again" in said for said in retry.warnings)
    if path == "keys.csv":
        with pytest.raises(BadInputError, match="does not exist"):
            delete(table, "run 2", keys_from=source, keys=("id",))
    else:
        assert delete(table, "run 2", keys_from=source, keys=("id",)).outcome is Outcome.EMPTY_BATCH
