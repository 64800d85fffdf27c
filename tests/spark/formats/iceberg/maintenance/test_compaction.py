from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import (
    CompactionLevel,
    CompactionRunner,
    CompactionStrategy,
)
from airflow_lake_provider.contracts.curve_order import CURVE_ORDER, CurveOrder
from airflow_lake_provider.contracts.errors import (
    BrokenMetadataError,
    InvalidSpecError,
    MissingTableError,
    UnsupportedError,
)
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.contracts.specs.maintenance import CompactionSpec
from airflow_lake_provider.contracts.table_properties import ACTION
from airflow_lake_provider.spark_jobs.actions.maintain_table import compact_table
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.tables.iceberg.compaction_plan import plan_compaction
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import compact, with_six_files_and_deletes

# Iceberg's own runner loses to every writer that deletes rows of its files.
LOST: dict[str, Any] = {"level": CompactionLevel.MAJOR, "runner": CompactionRunner.SPARK, "max_attempts": 1}


def six_files_with_deletes(spark: SparkSession, *, partitioned: bool = False) -> MaintainedTable:
    return with_six_files_and_deletes(MaintainedTable(spark, partitioned=partitioned))


def test_row_ids_and_last_changes_survive_a_compaction(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark)
    before = table.lineage()

    compact(table, level=CompactionLevel.FULL, strategy=CompactionStrategy.SORT, sort_by=("amount DESC",))

    assert len({row_id for row_id, _ in before.values()}) == len(before)
    assert table.lineage() == before


def test_the_report_is_what_the_metadata_says(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark)

    report = compact(table, level=CompactionLevel.MAJOR)

    outside = table.outside()
    assert report.before is not None
    assert report.after is not None
    assert report.after.snapshot == str(outside.metadata.current_snapshot_id)
    assert report.after.rows == report.before.rows == len(table.rows)
    assert report.after.data_files == len(table.live_files())
    assert report.after.delete_files == len(table.live_files(content=1)) == 0
    assert report.before.delete_files == report.delete_files_removed
    assert report.before.data_files - report.files_rewritten + report.files_added == report.after.data_files
    ours = [s for s in outside.metadata.snapshots if s.summary is not None and s.summary[ACTION] == "compaction"]
    assert report.committed == tuple(str(s.snapshot_id) for s in ours)
    assert report.failed_groups == 0
    assert report.attempts == 1


def test_a_healthy_table_is_left_alone_without_a_spark_job(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 100)
    spark.sparkContext.setJobGroup("healthy", "healthy")

    report = compact(table)

    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("healthy")
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert report.outcome is Outcome.NOTHING_DUE
    assert report.before == report.after
    assert report.committed == ()
    assert list(jobs) == []
    assert plan_compaction(LoadedIcebergTable(table.outside()), table.compaction()).outcome is Outcome.NOTHING_DUE


def test_a_table_without_snapshots_has_nothing_due(spark: SparkSession) -> None:
    table = MaintainedTable(spark)

    assert compact(table).outcome is Outcome.NOTHING_DUE


def test_a_second_compaction_finds_nothing_due(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark, partitioned=True)
    compact(table, level=CompactionLevel.MAJOR)

    again = compact(table, level=CompactionLevel.MAJOR)

    assert again.outcome is Outcome.NOTHING_DUE
    assert again.committed == ()


def test_minor_leaves_a_file_with_few_deletes_that_major_rewrites(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 1000)
    table.delete([5])

    minor = compact(table, level=CompactionLevel.MINOR)
    major = compact(table, level=CompactionLevel.MAJOR)

    assert minor.outcome is Outcome.NOTHING_DUE
    assert major.outcome is Outcome.DONE
    assert table.rows_in_data_files() == table.rows


def test_minor_rewrites_a_file_past_the_delete_ratio(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 1000)
    table.delete(list(range(150)))

    report = compact(table, level=CompactionLevel.MINOR)

    assert report.outcome is Outcome.DONE
    assert table.live_files(content=1) == []
    assert table.rows_in_data_files() == table.rows


def test_where_restricts_the_compaction_to_the_files_that_may_match(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark, partitioned=True)
    arguments: dict[str, Any] = {"level": CompactionLevel.MAJOR, "where": "region = 'north'", "min_input_files": 2}
    planned = plan_compaction(LoadedIcebergTable(table.outside()), table.compaction(**arguments))

    report = compact(table, **arguments)

    assert report.outcome is Outcome.DONE
    assert report.files_rewritten == planned.files_rewritten == 4
    assert report.delete_files_removed == planned.delete_files_removed
    assert table.rows_read() == table.rows
    south = [path for path in table.live_files() if "region=south" in path]
    assert len(south) == 4


@pytest.mark.parametrize(
    "where",
    [
        "reflect('java.lang.System', 'getenv', 'PATH') = 'x'",
        "id IN (SELECT id FROM {table} WHERE amount > 1)",
        "nothing = 1",
        "amount =",
        "id % 2 = 0",
    ],
    ids=["reflection", "subquery", "unknown-column", "syntax", "arithmetic"],
)
def test_a_where_that_is_no_iceberg_expression_is_refused(spark: SparkSession, where: str) -> None:
    table = six_files_with_deletes(spark)
    head = table.handle.head()

    with pytest.raises(InvalidSpecError, match="where="):
        compact(table, where=where.format(table=table.name))

    assert table.handle.refresh().head() == head


def test_a_writer_in_between_makes_the_compaction_try_again(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark)
    other = table.other_session()
    progress = ProgressThatRuns("rewrite", lambda: table.delete([50, 250], other))

    report = compact(table, progress, level=CompactionLevel.MAJOR, runner=CompactionRunner.SPARK)

    assert report.outcome is Outcome.DONE
    assert report.attempts == 2
    assert report.failed_groups == 0
    assert table.rows_read() == table.rows
    assert table.live_files(content=1) == []


@pytest.mark.parametrize("partial_progress", [True, False], ids=["partial-progress", "one-commit"])
def test_a_conflict_that_lasts_is_an_outcome_and_the_writer_wins(spark: SparkSession, partial_progress: bool) -> None:
    table = six_files_with_deletes(spark)
    other = table.other_session()
    progress = ProgressThatRuns("rewrite", lambda: table.delete([50, 250], other))
    files = sorted(table.live_files())

    report = compact(table, progress, **LOST, partial_progress=partial_progress)

    assert report.outcome is Outcome.CONFLICT
    assert report.failed_groups == 1
    assert report.groups_rewritten == report.files_rewritten == 0
    assert table.rows_read() == table.rows
    assert sorted(table.live_files()) == files


def test_a_compaction_that_a_writer_refused_leaves_none_of_its_own_files_behind(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark, partitioned=True)
    other = table.other_session()

    report = compact(table, ProgressThatRuns("rewrite", lambda: table.delete([50, 150], other)), **LOST)

    assert (report.outcome, report.groups_rewritten, report.failed_groups) == (Outcome.CONFLICT, 0, 2)
    named = {Path(path.removeprefix("file:")) for path in table.outside().inspect.all_files()["file_path"].to_pylist()}
    assert table.files_on_disk() <= named


def test_groups_without_a_conflict_stay_done_when_another_group_is_given_up(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark, partitioned=True)
    other = table.other_session()
    progress = ProgressThatRuns("rewrite", lambda: table.delete([150], other))  # north only

    report = compact(table, progress, **LOST, max_commits=10)

    assert report.outcome is Outcome.CONFLICT
    assert (report.groups_rewritten, report.failed_groups) == (1, 1)
    assert len(report.committed) >= 1
    assert "given up" in report.reason
    assert table.rows_read() == table.rows
    assert len([path for path in table.live_files() if "region=south" in path]) == 1


def test_an_append_in_between_is_no_conflict(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark)
    other = MaintainedTable.other_session(table)

    def append() -> None:
        other.sql(f"INSERT INTO {table.name} VALUES (9999, 'north', 1)")
        table.rows[9999] = ("north", 1)

    report = compact(table, ProgressThatRuns("rewrite", append), level=CompactionLevel.MAJOR)

    assert report.outcome is Outcome.DONE
    assert report.attempts == 1
    assert table.rows_read() == table.rows


def test_a_group_that_spark_cannot_read_is_counted_with_its_reason(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark, partitioned=True)
    broken = next(path for path in table.live_files() if "region=north" in path)
    Path(broken.removeprefix("file:")).rename(Path(broken.removeprefix("file:")).with_suffix(".aside"))

    report = compact(table, level=CompactionLevel.MAJOR)

    assert report.outcome is Outcome.DONE
    assert (report.groups_rewritten, report.failed_groups) == (1, 1)
    assert len(report.failures) == 1
    assert "file group" in report.failures[0]
    assert "Exception" in report.failures[0]


def test_a_compaction_in_which_no_group_could_be_read_fails_with_the_reason(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark)
    broken = Path(table.live_files()[0].removeprefix("file:"))
    broken.rename(broken.with_suffix(".aside"))

    with pytest.raises(BrokenMetadataError, match="no file group could be rewritten"):
        compact(table, level=CompactionLevel.MAJOR)


def test_a_column_that_spark_does_not_read_is_named_without_a_retry_where_spark_rewrites(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    for first in (0, 1):
        table.append(first, 1)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (_deleted BOOLEAN)")
    with pytest.raises(UnsupportedError, match="it reads no column _deleted, a name that Iceberg reserves"):
        compact(table, min_input_files=2, runner=CompactionRunner.SPARK)
    report = compact(table, min_input_files=2, runner=CompactionRunner.ARROW)
    assert (report.groups_by_arrow, len(table.live_files())) == (1, 1)


def test_z_order_and_the_order_of_the_table_can_be_asked_for(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark)
    zorder = compact(table, level=CompactionLevel.FULL, strategy=CompactionStrategy.ZORDER, sort_by=("id", "amount"))
    spark.sql(f"ALTER TABLE {table.name} WRITE ORDERED BY amount")

    ordered = compact(table, level=CompactionLevel.FULL, strategy=CompactionStrategy.SORT)

    assert zorder.outcome is ordered.outcome is Outcome.DONE
    order = CurveOrder.of_property(table.outside().properties.get(CURVE_ORDER))
    # Files in order show it themselves, so that a sort leaves the note of the curve before it.
    assert order == CurveOrder(by="zorder(id, amount)", rows=len(table.rows), snapshot=zorder.committed[-1])
    assert table.rows_read() == table.rows


def test_each_row_of_a_hilbert_order_is_a_neighbour_of_the_row_before(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    for part in range(2):
        numbers = spark.range(64).where(f"id % 2 = {part}")
        numbers.selectExpr("id % 8 AS id", "'north' AS region", "id div 8 AS amount").writeTo(table.name).append()

    asked: dict[str, Any] = {"level": CompactionLevel.FULL, "strategy": CompactionStrategy.HILBERT}
    if spark.version < "4.1":
        with pytest.raises(UnsupportedError, match=r"needs Spark 4\.1"):
            compact(table, **asked, sort_by=("id", "amount"))
        return
    report = compact(table, **asked, sort_by=("id", "amount"))

    [file] = table.live_files()
    rows = pq.read_table(file.removeprefix("file:")).select(["id", "amount"]).to_pylist()
    places = [(row["id"], row["amount"]) for row in rows]
    assert report.outcome is Outcome.DONE
    assert sorted(places) == [(x, y) for x in range(8) for y in range(8)]
    # A z-order and a sort jump.
    assert {abs(x - a) + abs(y - b) for (x, y), (a, b) in pairwise(places)} == {1}


def test_a_sort_by_unknown_columns_is_refused_by_name(spark: SparkSession) -> None:
    table = six_files_with_deletes(spark)

    with pytest.raises(InvalidSpecError, match="Cannot find field 'nothing'"):
        compact(table, level=CompactionLevel.FULL, strategy=CompactionStrategy.SORT, sort_by=("nothing",))


def test_manifests_are_merged_after_a_compaction_unless_turned_off(spark: SparkSession) -> None:
    kept, merged = (six_files_with_deletes(spark, partitioned=True) for _ in range(2))
    report_kept = compact(kept, level=CompactionLevel.MAJOR, rewrite_manifests=False)
    report_merged = compact(merged, level=CompactionLevel.MAJOR)

    assert report_kept.after is not None
    assert report_merged.after is not None
    assert report_merged.after.manifests < report_kept.after.manifests


def test_position_deletes_of_version_two_become_vectors_after_an_upgrade(spark: SparkSession) -> None:
    """apache/iceberg#15006, #15654: a data file had two deletion vectors."""
    table = MaintainedTable(spark, version=2)
    table.append(0, 1000)
    table.delete([5])
    table.delete([6])
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('format-version'='3')")
    planned = plan_compaction(LoadedIcebergTable(table.outside()), table.compaction(level=CompactionLevel.MINOR))

    report = compact(table, level=CompactionLevel.MINOR)

    assert planned.outcome is Outcome.PLANNED
    assert "deletion vectors" in planned.reason
    assert report.outcome is Outcome.DONE
    assert [path.rpartition(".")[2] for path in table.live_files(content=1)] == ["puffin"]
    assert table.rows_read() == table.rows


def test_a_missing_table_is_named(spark: SparkSession) -> None:
    spec = CompactionSpec(catalog=CATALOG, table="maintained.nowhere", run=RUN)

    with pytest.raises(MissingTableError, match=r"maintained\.nowhere"):
        compact_table(spark, spec, Progress())
