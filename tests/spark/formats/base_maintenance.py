"""Compaction and expiry: fewer files and snapshots, the same rows."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionStrategy
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.spark_jobs.actions.maintain_table import compute_statistics
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.faulty_catalog import FaultyCatalog
from tests.spark.formats.suite import FormatSuite, NewTable, needs
from tests.spark.maintenance_flow import (
    LONG_AGO,
    compact,
    expire,
    expiry,
    remove_orphans,
    rewrite_manifests,
    snapshots,
    statistics,
    with_four_regions,
    with_six_files_and_deletes,
    with_three_appends,
)
from tests.spark.upsert_flow import NewFlow, row

WAYS = [
    pytest.param({}, id="binpack"),
    pytest.param(
        {"strategy": CompactionStrategy.SORT, "sort_by": ("amount",)}, id="sort", marks=needs("compaction-sort")
    ),
    pytest.param(
        {"strategy": CompactionStrategy.ZORDER, "sort_by": ("id", "amount")},
        id="zorder",
        marks=needs("compaction-zorder"),
    ),
    # A format may have it for Spark 4.1 alone, and refuses it by name elsewhere.
    *(
        [
            pytest.param(
                {"strategy": CompactionStrategy.HILBERT, "sort_by": ("id", "amount")},
                id="hilbert",
                marks=needs("compaction-hilbert"),
            )
        ]
        if pyspark.__version__ >= "4.1"
        else []
    ),
]


class MaintenanceSuite(FormatSuite):
    @needs("compaction")
    @pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "unpartitioned"])
    def test_a_major_compaction_applies_deletes_and_changes_no_row(
        self, new_table: NewTable, partitioned: bool
    ) -> None:
        table = with_six_files_and_deletes(new_table(partitioned=partitioned))
        before = table.rows_read()
        assert before == table.rows
        asked = table.compaction(level=CompactionLevel.MAJOR, min_input_files=2)
        planned = table.on_worker().plan_compaction(asked)

        report = compact(table, level=CompactionLevel.MAJOR, min_input_files=2)

        assert report.outcome is Outcome.DONE
        assert table.rows_read() == before
        assert table.live_files(content=1) == []
        # Without delete files the Parquet files alone are the table, which another engine confirms.
        assert table.rows_in_data_files() == before
        assert len(table.live_files()) == (2 if partitioned else 1)
        assert planned.outcome is Outcome.PLANNED
        for told in (
            "level",
            "files_rewritten",
            "bytes_rewritten",
            "delete_files_removed",
            "groups_rewritten",
            "before",
        ):
            assert getattr(report, told) == getattr(planned, told), told

    @needs("compaction")
    @pytest.mark.parametrize("way", WAYS)
    def test_only_the_groups_of_a_lost_commit_are_rewritten_again(
        self, spark: SparkSession, new_table: NewTable, capsys: pytest.CaptureFixture[str], way: dict[str, Any]
    ) -> None:
        table = with_four_regions(new_table(partitioned=True))
        with FaultyCatalog.of(spark).refusing(2, once=True):
            # What would fill one file is one commit.
            given = {"level": CompactionLevel.FULL, "max_commits": 10, "target_file_size": 3000, **way}
            report = compact(table, rewrite_manifests=False, **given)
        assert (report.outcome, report.attempts) == (Outcome.DONE, 2)
        assert (report.groups_rewritten, report.files_rewritten, report.files_added) == (4, 8, 4)
        assert report.failed_groups == 0
        assert table.rows_read() == table.rows
        said = capsys.readouterr().out
        assert "no writer was in the way" in said
        assert "a writer committed first" not in said

    @needs("deletion-vectors")
    def test_one_vector_per_data_file_is_left_however_often_it_changes(self, new_flow: NewFlow) -> None:
        flow = new_flow(strategy="positions")
        flow.arrive("1.jsonl", *(row(number, "a") for number in range(20)))
        flow.apply("run 1")
        for batch in range(2, 5):
            flow.arrive(f"{batch}.jsonl", row(batch, "b"))
            flow.apply(f"run {batch}")
        deletes = flow.on_worker().live_files(None).deletes
        by_file = [found.target for found in deletes]
        assert len(by_file) == len(set(by_file))
        assert sum(found.records for found in deletes) == 3

    @needs("health")
    def test_health_counts_what_a_scan_finds_and_a_compaction_mends_it(self, new_table: NewTable) -> None:
        table = with_six_files_and_deletes(new_table(partitioned=True))
        found = health_of(table.on_worker(), datetime.now(UTC))
        files, deletes = table.live_files(), table.live_files(content=1)
        assert found.files is not None
        assert found.deletes is not None
        assert (found.files.data_files, found.deletes.delete_files) == (len(files), len(deletes))
        # Each of the two partitions would have one file.
        assert found.files.mergeable_files == len(files) - 2
        assert found.deletes.deleted_rows == 8
        assert {part.name for part in found.findings} == {"small-files"}

        compact(table, level=CompactionLevel.MAJOR, min_input_files=2)

        mended = health_of(table.on_worker(), datetime.now(UTC))
        assert (mended.score, mended.findings) == (100, ())
        assert mended.last_maintenance["compaction"].snapshot == mended.snapshot

    @needs("file-lists")
    def test_lists_of_files_are_merged_sorted_once_and_change_no_row(self, new_table: NewTable) -> None:
        table = with_four_regions(new_table(partitioned=True))
        before, files = table.rows_read(), table.live_files()

        merged = rewrite_manifests(table)
        written_again = rewrite_manifests(table, sort=True)

        assert (merged.outcome, written_again.outcome) == (Outcome.DONE, Outcome.NOTHING_DUE)
        assert merged.before is not None
        assert merged.after is not None
        assert merged.before.manifests > merged.after.manifests == 1
        assert (table.rows_read(), sorted(table.live_files())) == (before, sorted(files))

    @needs("statistics")
    def test_distinct_values_are_counted_once_for_each_head(self, new_table: NewTable) -> None:
        table = with_four_regions(new_table(partitioned=True))
        asked = statistics(table, columns=["region"])
        missing = table.on_worker().plan_statistics(asked)

        report = compute_statistics(table.spark, asked, Progress())

        assert missing.outcome is Outcome.PLANNED
        assert (report.outcome, report.of_snapshot, report.distinct_counts) == (
            Outcome.DONE,
            table.head(),
            {"region": 4},
        )
        assert table.on_worker().statistics_at() is not None
        for again in (table.on_worker().plan_statistics(asked), compute_statistics(table.spark, asked, Progress())):
            assert again.outcome is Outcome.NOTHING_DUE
        table.append(900, 1, "else")
        assert table.on_worker().plan_statistics(asked).outcome is Outcome.PLANNED

    @needs("remove-orphans")
    def test_old_files_that_nothing_names_go_and_the_rows_stay(self, new_table: NewTable) -> None:
        table = with_three_appends(new_table())
        files, long_ago = table.files_on_disk(), LONG_AGO.timestamp()
        for path in files:
            os.utime(path, (long_ago, long_ago))
        unnamed = min(files).with_stem("unnamed")
        unnamed.write_bytes(b"of nobody")
        os.utime(unnamed, (long_ago, long_ago))

        planned, report = remove_orphans(table, mode="dry-run"), remove_orphans(table)

        assert (planned.outcome, planned.examples) == (Outcome.PLANNED, (f"file:{unnamed}",))
        assert (planned.orphan_bytes, report.files_removed) == (len(b"of nobody"), 1)
        assert table.files_on_disk() == files
        assert table.rows_read() == table.rows

    @needs("snapshot-expiry")
    def test_old_snapshots_and_the_files_only_they_reach_go_and_the_rows_stay(self, new_table: NewTable) -> None:
        table = with_three_appends(new_table())
        table.delete([1, 11])
        compact(table, level=CompactionLevel.FULL, rewrite_manifests=False)
        old = snapshots(table)
        files = {Path(path.removeprefix("file:")) for path in (*table.live_files(), *table.live_files(content=1))}
        planned = table.on_worker().plan_expiry(expiry(table))

        report = expire(table)

        assert planned.outcome is Outcome.PLANNED
        assert report.outcome is Outcome.DONE
        assert report.snapshots_expired == planned.snapshots_expired == tuple(old[:-1])
        assert report.kept_by_refs == planned.kept_by_refs == {old[-1]: "main"}
        assert snapshots(table) == old[-1:]
        assert report.before == planned.before
        assert report.after is not None
        assert report.after.snapshots == 1
        assert report.data_files_deleted == 3
        assert report.delete_files_deleted > 0
        assert report.manifest_lists_deleted == len(old) - 1
        assert table.files_on_disk() == files
        assert table.rows_read() == table.rows
