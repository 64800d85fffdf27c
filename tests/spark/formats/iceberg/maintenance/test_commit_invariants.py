"""Commits that change what maintenance must leave as it is, made by Iceberg's own API, are told from its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, Verification
from airflow_lake_provider.contracts.errors import BrokenInvariantError, InvalidSpecError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.snapshot_retention import request_for
from airflow_lake_provider.spark_jobs.formats.iceberg.commits.commit_invariants import (
    refuse_broken_change,
    refuse_broken_invariants,
    refuse_changed_rows,
    refuse_lost_refs,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import (
    orphan_files,
    quarantined_files,
    snapshot_expiry,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import rewrite_manifests as manifests
from airflow_lake_provider.spark_jobs.formats.iceberg.table.iceberg_table import IcebergTable
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems
from airflow_lake_provider.tables.iceberg.compaction_plan import plan_compaction
from tests.spark import hostile_tables
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import (
    compact,
    expire,
    expiry,
    remove_orphans,
    rewrite_manifests,
    with_six_files_and_deletes,
    with_three_appends,
)
from tests.spark.orphaned_files import made_old, orphan


def test_a_rewrite_that_leaves_out_a_file_is_refused_and_names_the_snapshot_to_go_back_to(spark: SparkSession) -> None:
    table = with_three_appends(MaintainedTable(spark))
    handle, before = table.handle.refresh(), table.head()
    (file, *_) = JavaItems(spark, handle.java.currentSnapshot().addedDataFiles(handle.java.io()))
    handle.java.newRewrite().deleteFile(file).commit()

    with pytest.raises(BrokenInvariantError, match=r"10 rows fewer .* roll back to it") as refused:
        refuse_broken_invariants(handle.refresh(), {table.head()})
    assert f"snapshot {before}" in str(refused.value)


def test_a_merge_of_manifests_that_loses_rows_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    table = with_three_appends(MaintainedTable(spark))

    def losing(handle: IcebergTable, summary: dict[str, str], _: Any) -> None:
        (file, *_) = JavaItems(spark, handle.java.currentSnapshot().addedDataFiles(handle.java.io()))
        update = handle.java.newRewrite().deleteFile(file)
        for name, value in summary.items():
            update.set(name, value)
        update.commit()

    # Of the module alone: who imports the whole action meanwhile would keep this one.
    monkeypatch.setattr(manifests, "_merge_here", losing)
    with pytest.raises(BrokenInvariantError, match=r"of this rewrite may have changed rows: .*10 rows fewer"):
        rewrite_manifests(table)


def test_the_tag_of_an_audit_is_not_lost_by_an_expiry(spark: SparkSession) -> None:
    table = with_three_appends(MaintainedTable(spark))
    table.create_tag("audit", table.head())
    handle, spec = table.handle.refresh(), expiry(table)
    now = datetime.now(UTC) + timedelta(minutes=1)
    planned = snapshot_expiry._by_age(handle, request_for(spec, handle.properties(), now), ())
    refuse_lost_refs(handle, planned, lambda: ())

    planned.manageSnapshots().removeTag("audit").commit()
    refuse_lost_refs(handle, planned, lambda: {"audit"})
    with pytest.raises(BrokenInvariantError, match="would remove or move audit, which are to stay"):
        refuse_lost_refs(handle, planned, lambda: ())
    assert expire(table).outcome is Outcome.DONE
    assert compact(table).outcome is Outcome.NOTHING_DUE


def partitioned_with_keys(spark: SparkSession) -> MaintainedTable:
    table = MaintainedTable(spark, partitioned=True)
    change = table.handle.refresh().java.updateSchema().allowIncompatibleChanges()
    change.requireColumn("id").setIdentifierFields(["id"]).commit()
    return with_six_files_and_deletes(table)


def test_rows_and_keys_are_compared_on_request_and_a_writer_in_between_does_not_matter(spark: SparkSession) -> None:
    table = partitioned_with_keys(spark)
    other = table.other_session()
    progress = ProgressThatRuns("rewrite", lambda: table.delete([150], other))

    report = compact(table, progress, level=CompactionLevel.MAJOR, verify=Verification.KEYS)

    assert report.outcome is Outcome.DONE
    assert "verify" in report.seconds
    assert table.rows_read() == table.rows


def test_a_key_that_took_the_place_of_another_is_told_by_the_checksum_alone(spark: SparkSession) -> None:
    table = partitioned_with_keys(spark)
    before = table.head()
    table.spark.sql(f"UPDATE {table.name} SET id = 7777 WHERE id = 7")
    handle, after = table.handle.refresh(), table.head()

    refuse_changed_rows(handle, table.compaction(verify=Verification.ROWS), [after])
    with pytest.raises(BrokenInvariantError, match=rf"rows of snapshot {after} .* Roll back to {before}") as refused:
        refuse_changed_rows(handle, table.compaction(verify=Verification.KEYS), [after])
    assert "south}: +0 rows" in str(refused.value)
    assert "north" not in str(refused.value)
    table.delete([8])
    with pytest.raises(BrokenInvariantError, match=r"south\}: -1 rows"):
        refuse_changed_rows(table.handle.refresh(), table.compaction(verify=Verification.ROWS), [table.head()])


def test_keys_of_a_table_without_identifier_fields_are_refused_before_anything_is_written(
    spark: SparkSession,
) -> None:
    table = with_three_appends(MaintainedTable(spark))
    head = table.head()
    with pytest.raises(InvalidSpecError, match="verify='keys' needs identifier fields"):
        compact(table, level=CompactionLevel.FULL, verify=Verification.KEYS)
    with pytest.raises(InvalidSpecError, match="or use verify='rows'"):
        plan_compaction(table.on_worker(), table.compaction(verify=Verification.KEYS))
    assert table.head() == head


def test_a_change_that_took_other_rows_than_those_that_matched_is_refused(spark: SparkSession) -> None:
    table = with_three_appends(MaintainedTable(spark))
    before = table.head()
    table.delete([1, 2])
    refuse_broken_change(table.handle, table.head(), 2)
    for matched in (1, 3):
        with pytest.raises(BrokenInvariantError, match=rf"{matched} rows matched, and 2 went.*snapshot {before}"):
            refuse_broken_change(table.handle, table.head(), matched)


@pytest.mark.parametrize(
    ("mode", "way_back", "size"),
    [("delete", "roll back", 1000), ("delete", "roll back", 1), ("quarantine", "run mode='restore'", 1)],
)
def test_a_commit_that_names_an_orphan_while_it_goes_is_told_with_the_way_back(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, mode: str, way_back: str, size: int
) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    made_old(table)
    named, unnamed = orphan(table, "data/named.parquet"), orphan(table, "data/unnamed.parquet")
    # The look before a batch has just been over.
    before_it_goes: tuple[Any, str] = (quarantined_files.QuarantinedFiles, "put")
    if mode == "delete":
        before_it_goes = orphan_files, "delete_files"
    remove = getattr(*before_it_goes)

    def naming(*given: Any) -> Any:
        if str(named) in str(given) and named.exists():
            hostile_tables.add_data_file(table, f"file:{named}")
        return remove(*given)

    monkeypatch.setattr(*before_it_goes, naming)
    # Of two batches, the look before the second one must not take the first one's file for one that stays.
    monkeypatch.setattr(orphan_files, "_BATCHES", dict.fromkeys(orphan_files._BATCHES, size))
    with pytest.raises(BrokenInvariantError, match=rf"has named 1 files .*named\.parquet.* {way_back}") as refused:
        remove_orphans(table, mode=mode, max_share=1)
    assert unnamed.name not in str(refused.value).replace(named.name, "")
