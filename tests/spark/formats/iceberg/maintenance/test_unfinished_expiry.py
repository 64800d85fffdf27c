"""Cut an expiry off after its commit, and let the next one finish it or say what is left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from pathlib import Path

import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.reports.job import ExpiryReport, Outcome
from airflow_lake_provider.contracts.specs.maintenance import SnapshotExpirySpec
from airflow_lake_provider.maintenance.health import health_of
from airflow_lake_provider.spark_jobs.actions.maintain_table import expire_snapshots
from airflow_lake_provider.spark_jobs.progress import Progress
from airflow_lake_provider.tables.iceberg.loaded_table import LoadedIcebergTable
from airflow_lake_provider.tables.iceberg.maintenance_plans import plan_expiry
from tests.spark.maintained_table import CATALOG, RUN, MaintainedTable, names_of_files
from tests.spark.upsert_flow import InterruptedProgress, Killed, kill

NOTE = "lake.expiry-unfinished"
MOMENTS = ["plan", "check owners", "find files", "commit", "delete files"]


def spec(table: MaintainedTable) -> SnapshotExpirySpec:
    later = datetime.now(UTC) + timedelta(minutes=1)
    return SnapshotExpirySpec(
        catalog=CATALOG, table=table.name, run=RUN, expire_before=later, expire_stage_branches_before=later
    )


def expire(table: MaintainedTable, progress: Progress | None = None) -> ExpiryReport:
    return expire_snapshots(table.spark, spec(table), progress or Progress())


def killed(table: MaintainedTable, at: str = "delete files") -> None:
    with pytest.raises(Killed):
        expire(table, InterruptedProgress(at=at, then=kill))


def rewritten(spark: SparkSession, *, with_deletes: bool = False) -> MaintainedTable:
    """Make a table whose first snapshots alone reach two data files, and position deletes on them."""
    table = MaintainedTable(spark, version=2)
    table.append(0, 5)
    table.append(5, 5)
    if with_deletes:
        table.delete([1, 6])
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT 50L, 'north', 500L")
    table.rows = {50: ("north", 500)}
    return table


def folder(table: MaintainedTable) -> Path:
    return Path(table.outside().location().removeprefix("file:").replace("///", "/"))


def left_over(table: MaintainedTable) -> set[str]:
    """Return the names of data files, manifests and manifest lists on disk that no snapshot names, by PyIceberg."""
    on_disk = {path.name for path in folder(table).rglob("*") if path.suffix in (".parquet", ".avro")}
    return on_disk - names_of_files(table.outside())


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_an_expiry_had_no_time_for_is_done_by_the_next_one(spark: SparkSession, moment: str) -> None:
    """apache/iceberg#4673: a driver that died in its clean-up left a table that nobody could read."""
    table = rewritten(spark)
    killed(table, moment)
    planned = plan_expiry(LoadedIcebergTable(table.outside()), spec(table))
    assert planned.outcome is Outcome.PLANNED
    assert bool(planned.warnings) is (moment == "delete files")
    seen = health_of(LoadedIcebergTable(table.outside()), datetime.now(UTC)).snapshots
    assert seen is not None
    assert seen.is_unfinished is (moment == "delete files")
    report = expire(table)
    assert (report.outcome, report.data_files_deleted) == (Outcome.DONE, 2)
    assert left_over(table) == set()
    assert NOTE not in table.outside().properties
    assert expire(table).outcome is Outcome.NOTHING_DUE
    assert table.rows_read() == table.rows


def test_an_expiry_finishes_the_one_before_and_does_its_own(spark: SparkSession) -> None:
    table = rewritten(spark)
    killed(table)
    table.append(100, 5)
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT 60L, 'north', 600L")
    table.rows = {60: ("north", 600)}
    report = expire(table)
    assert (report.outcome, report.data_files_deleted, left_over(table)) == (Outcome.DONE, 4, set())
    assert table.rows_read() == table.rows


def without(*patterns: str) -> Callable[[MaintainedTable], None]:
    """Remove left-over files, as a driver that was killed later had: of all patterns but the last all, of it one."""

    def remove(table: MaintainedTable) -> None:
        for pattern in patterns:
            gone = [name for name in sorted(left_over(table)) if fnmatch(name, pattern)]
            for name in gone[:1] if pattern == patterns[-1] else gone:
                next(folder(table).rglob(name)).unlink()

    return remove


def noted(value: Callable[[MaintainedTable], str]) -> Callable[[MaintainedTable], None]:
    def note(table: MaintainedTable) -> None:
        table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{NOTE}' = '{value(table)}')")

    return note


def without_manifests_of_data(table: MaintainedTable) -> None:
    """Remove what a driver had that was killed between manifests of data and those of deletes."""
    before = StaticTable.from_metadata(table.outside().properties[NOTE])
    named = {each for snapshot in before.metadata.snapshots for each in snapshot.manifests(before.io)}
    of_deletes = {each.manifest_path.rpartition("/")[2] for each in named if each.content is ManifestContent.DELETES}
    assert of_deletes
    for name in left_over(table) - of_deletes:
        if not name.startswith("snap-"):
            next(folder(table).rglob(name)).unlink()


def without_metadata(table: MaintainedTable) -> None:
    Path(table.outside().properties[NOTE].removeprefix("file:").replace("///", "/")).unlink()


TELLING: dict[str, tuple[Callable[[MaintainedTable], None], str | None]] = {
    "a data file was deleted already": (without("*.parquet"), None),
    "a manifest was deleted already": (without("*.parquet", "*-m?.avro"), "gone already"),
    "manifests of data were deleted already": (without_manifests_of_data, "gone already"),
    "all manifests were deleted already": (without("*.parquet", "*-m?.avro", "nothing"), "gone already"),
    "a manifest list was deleted already": (without("*.parquet", "*-m?.avro", "snap-*.avro"), "gone already"),
    "all manifest lists were deleted already": (without("*.parquet", "*.avro", "nothing"), "gone already"),
    "somebody has deleted a manifest": (without("*-m?.avro"), "remove_orphan_files"),
    "somebody has deleted a manifest list": (without("snap-*.avro"), "remove_orphan_files"),
    "the metadata of before is gone": (without_metadata, "is gone"),
    "the note names a foreign file": (noted(lambda _: "/etc/hostname"), "no metadata of the table"),
    "the note names nothing": (noted(lambda _: "x"), "no metadata of the table"),
    "the note leads out of the folder": (
        noted(lambda table: f"{table.outside().location()}/metadata/../../x.metadata.json"),
        "no metadata of the table",
    ),
}


@pytest.mark.parametrize("what", TELLING)
def test_what_cannot_be_finished_is_said_once_and_never_passed_over(spark: SparkSession, what: str) -> None:
    change, said = TELLING[what]
    table = rewritten(spark, with_deletes=change is without_manifests_of_data)
    killed(table)
    change(table)
    report = expire(table)
    assert report.outcome is Outcome.DONE
    assert (said or "") in " ".join(report.warnings)
    if "already" in what:
        assert left_over(table) == set()
    assert expire(table).outcome is Outcome.NOTHING_DUE
    assert table.rows_read() == table.rows


def test_a_file_that_storage_does_not_delete_is_said_and_tried_again_by_the_next_expiry(spark: SparkSession) -> None:
    table = MaintainedTable(spark, version=2)
    table.append(0, 5)
    stuck = Path(table.live_files()[0].removeprefix("file:").replace("///", "/"))
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT 50L, 'north', 500L")
    table.rows = {50: ("north", 500)}

    def hold() -> None:
        stuck.unlink()
        (stuck / "held").mkdir(parents=True)

    reports = [expire(table, InterruptedProgress(at="delete files", then=hold)), expire(table)]

    for report in reports:
        assert (report.outcome, report.data_files_deleted) == (Outcome.DONE, 0)
        assert any("data files: 1 are left" in warning for warning in report.warnings)
        assert plan_expiry(LoadedIcebergTable(table.outside()), spec(table)).outcome is Outcome.PLANNED
    (stuck / "held").rmdir()
    stuck.rmdir()
    stuck.touch()
    report = expire(table)
    assert (report.outcome, report.data_files_deleted) == (Outcome.DONE, 1)
    assert (left_over(table), NOTE in table.outside().properties) == (set(), False)
    assert expire(table).outcome is Outcome.NOTHING_DUE
    assert table.rows_read() == table.rows
