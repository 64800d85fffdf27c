"""Orphan files go, and no other: each test of a loss is named after what went wrong elsewhere."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_lake_provider.contracts.errors import CommitConflictError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.orphan_files import SLASHES, STORE, file_key, hidden
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import listed_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.reachable_files import DATA, DELETES, reachable_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.unreached_files import without_escapes
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark import hostile_tables as hostile
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import remove_orphans as remove
from tests.spark.orphaned_files import ORPHANS, TEN_DAYS, files_of, folder_of, made_old, orphan, with_every_kind


def test_only_orphans_that_are_old_enough_go_and_a_dry_run_says_so_before(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apache/iceberg#14278, #4346; linkedin/iceberg#234; trinodb/trino#13691.

    Lists took a driver's memory, files that were not committed yet were deleted, and each manifest was read once for
    each snapshot.
    """
    # Each of several chunks is on the executors before the next one is read.
    monkeypatch.setattr(listed_files, "_CHUNK", 7)
    table = with_every_kind(spark, version=3)
    made_old(table)
    before = files_of(table)
    orphans = {orphan(table, name) for name in ORPHANS}
    young = orphan(table, "data/00000-1-young-0-00001.parquet", 3600)
    others = {orphan(table, name) for name in ("data/_hidden/x.parquet", "data/.x.parquet", "notes.txt")}
    # A store that knows no times says 0.
    untimed = orphan(table, "data/00000-1-untimed-0-00001.parquet")
    os.utime(untimed, (0, 0))

    # A manifest of several snapshots is read once: its files are no more than they are.
    current = table.handle.java.operations().current()
    live = reachable_files(table.handle, current, current.metadataFileLocation()).groupBy("kind").count().collect()
    assert {kind: count for kind, count in live if kind in (DATA, DELETES)} == {DATA: 3, DELETES: 1}

    planned = remove(table, mode="dry-run", tables_checked=None)

    assert planned.outcome is Outcome.PLANNED
    assert orphans <= files_of(table)
    kinds = list(ORPHANS.values())
    assert planned.orphans == {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    assert planned.orphan_bytes == 6 * len(orphans)
    assert planned.files_listed == len(before) + len(orphans) + 3
    assert any("1 files stay, as no writer of Iceberg gives such names" in each for each in planned.warnings)
    assert planned.oldest is not None
    assert abs(datetime.now(UTC) - planned.oldest - timedelta(days=10)) < timedelta(minutes=5)

    report = remove(table)

    assert (report.outcome, report.files_removed) == (Outcome.DONE, len(orphans))
    assert files_of(table) == before | {young, untimed} | others
    assert table.rows_read() == table.rows
    assert remove(table).outcome is Outcome.NOTHING_DUE


def live_file(table: MaintainedTable, name: str, spelled: str) -> Path:
    """A file of the table's folder that its metadata names by another spelling."""
    path = orphan(table, name)
    hostile.add_data_file(table, spelled.format(path=path, inner=str(path).removeprefix("/"), name=name))
    return path


SPELLINGS = {
    "data/plain.parquet": "{path}",
    "data/one.parquet": "file:{path}",
    "data/three.parquet": "file://{path}",
    "data/upper.parquet": "FILE:{path}",
    "data/slashes.parquet": "file:////{inner}",
    "data/k=a b/blank.parquet": "file:{path}",
    "data/k=a%3Ab/escaped.parquet": "file:{path}",
}


def test_no_live_file_goes_however_the_metadata_spells_it_as_iceberg_4194_lost_a_table(spark: SparkSession) -> None:
    """apache/iceberg#4194, #4346: files that metadata spells in another way were deleted."""
    table = MaintainedTable(spark)
    table.append(0, 3)
    live = {live_file(table, name, spelled) for name, spelled in SPELLINGS.items()}
    doubled = orphan(table, "data/doubled.parquet")
    hostile.add_data_file(table, f"file:{folder_of(table)}//data//doubled.parquet")
    escaped = orphan(table, "data/k=e f/again.parquet")
    hostile.add_data_file(table, f"file:{folder_of(table)}/data/k=e%20f/again.parquet")
    made_old(table)
    gone = orphan(table, "data/orphan.parquet")

    report = remove(table)

    assert {path for path in (*live, doubled, escaped) if not path.exists()} == set()
    assert (report.files_removed, gone.exists()) == (1, False)


# Another store, and the same end of a path below another mount.
UNSETTLED = {"data/00000-8-live.parquet": "s3://bucket{path}", "data/00000-9-live.parquet": "viewfs://c/mount/{name}"}


def test_a_prefix_that_may_be_the_same_is_refused_as_amoro_1981_and_iceberg_7884_mixed_them_up(
    spark: SparkSession,
) -> None:
    """apache/iceberg#4652, #7884; apache/amoro#1981: of two names of a store, files were orphans, or none was."""
    table = MaintainedTable(spark)
    table.append(0, 3)
    live = [live_file(table, name, spelled) for name, spelled in UNSETTLED.items()]
    gone = orphan(table, "data/orphan.parquet")

    with pytest.raises(UnsupportedError, match=r"2 files may be live ones.*00000-\d-live\.parquet.*ignore"):
        remove(table)

    assert all(path.exists() for path in (*live, gone))
    planned = remove(table, mode="dry-run")
    assert (planned.outcome, planned.orphans) == (Outcome.PLANNED, {"data file": 1})
    assert any("a removal would be refused: 2 files may be live ones" in each for each in planned.warnings)
    assert remove(table, prefix_mismatch_mode="ignore").files_removed == 1
    assert [path.exists() for path in (*live, gone)] == [True, True, False]


def test_a_live_file_that_the_metadata_names_by_another_way_stays(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    (folder_of(table) / "link").symlink_to(folder_of(table) / "data")
    ways = {"data/dot.parquet": "data/./dot.parquet", "data/up.parquet": "data/x/../up.parquet"}
    ways["data/linked.parquet"] = "link/linked.parquet"
    live = [live_file(table, name, f"file:{folder_of(table)}/{way}") for name, way in ways.items()]
    made_old(table)
    gone = orphan(table, "data/orphan.parquet")

    with pytest.raises(UnsupportedError, match="files may be live ones"):
        remove(table)
    # A listing follows the link, and has each file of the folder twice.
    assert remove(table, prefix_mismatch_mode="ignore").files_removed == 2
    assert ([path for path in live if not path.exists()], gone.exists()) == ([], False)


def test_statistics_stay_as_amoro_1959_deleted_them_and_so_do_links_and_hidden_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """apache/amoro#1959; trinodb/trino#19965: statistics were taken for orphans."""
    table = MaintainedTable(spark)
    table.append(0, 3)
    kept = [orphan(table, f"metadata/1-{name}.stats") for name in ("table", "partition")]
    hostile.add_statistics(table, f"file:{kept[0]}")
    hostile.add_statistics(table, f"file:{kept[1]}", partition=True)
    linked = hostile.victim(tmp_path, "elsewhere/00000-1.parquet")
    os.utime(linked, (time.time() - TEN_DAYS,) * 2)
    (folder_of(table) / "data" / "way").symlink_to(linked.parent)
    kept += [linked, orphan(table, "metadata/_lake-position-orders-1.bin"), orphan(table, "metadata/version-hint.text")]
    gone = orphan(table, "metadata/2-table.stats")

    report = remove(table)

    assert [path for path in kept if not path.exists()] == []
    assert (report.files_removed, gone.exists()) == (1, False)
    assert any("1 files stay, as a link or a path leads out" in each for each in report.warnings)


class Meddling(Progress):
    """Does something when a phase begins."""

    def __init__(self, phase: str, act: Any) -> None:
        super().__init__()
        self._phase, self._act = phase, act

    def say(self, text: str) -> None:
        if text == f"{self._phase} ...":
            self._act()


@pytest.mark.parametrize("phase", ["list files", "find orphan files", "remove files"])
def test_an_old_file_that_a_writer_commits_meanwhile_stays(spark: SparkSession, phase: str) -> None:
    """apache/iceberg#16324: orphans were looked for by a table that had been loaded long before."""
    table = MaintainedTable(spark)
    table.append(0, 3)
    committed, statistics = orphan(table, "data/late.parquet"), orphan(table, "metadata/late.stats")
    gone = orphan(table, "data/orphan.parquet")

    def commit() -> None:
        hostile.add_data_file(table, f"file:{committed}")
        hostile.add_statistics(table, f"file:{statistics}")

    report = remove(table, Meddling(phase, commit))

    assert committed.exists()
    assert statistics.exists()
    assert (report.files_removed, gone.exists()) == (1, False)


def test_nothing_goes_that_a_snapshot_added_which_came_and_was_expired_meanwhile(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    committed = orphan(table, "data/late.parquet")

    def commit_and_expire() -> None:
        hostile.add_data_file(table, f"file:{committed}")
        added = table.head()
        table.handle.java.newFastAppend().commit()
        table.handle.java.expireSnapshots().expireSnapshotId(int(added)).cleanExpiredFiles(False).commit()

    with pytest.raises(CommitConflictError, match="are expired already"):
        remove(table, Meddling("remove files", commit_and_expire))
    assert committed.exists()


def test_a_look_that_meets_an_expiry_tells_of_no_broken_table(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    table.delete([1])
    made_old(table)
    gone = orphan(table, "data/orphan.parquet")

    def expire_meanwhile() -> None:
        older = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
        table.other_session().sql(f"CALL system.expire_snapshots(table => '{table.name}', {older})").collect()

    with pytest.raises(CommitConflictError, match="another expiry has forgotten snapshots"):
        remove(table, Meddling("find orphan files", expire_meanwhile))
    assert gone.exists()
    assert remove(table).files_removed >= 1
    assert (gone.exists(), table.rows_read()) == (False, table.rows)


def test_a_table_that_moved_keeps_its_files_and_what_lies_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    made_old(table)
    before, beside = files_of(table), orphan(table, "data/at-the-old-place.parquet")
    data = tmp_path / "data path"
    spark.sql(f"ALTER TABLE {table.name} SET LOCATION 'file:{tmp_path}/moved'")
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.data.path'='file://{data}')")
    table.append(3, 3)
    gone = [orphan(table, "metadata/7-m0.avro"), data / "orphan.parquet"]
    gone[1].write_bytes(b"orphan")
    os.utime(gone[1], (time.time() - TEN_DAYS,) * 2)

    report = remove(table)

    assert (report.files_removed, [path for path in gone if path.exists()]) == (2, [])
    assert {path for path in (*before, beside) if not path.exists()} == set()
    assert table.rows_read() == table.rows


REFUSED = {
    "metadata/00099-aa.metadata.json": "has version 2 of its metadata, and beside it lies version 99",
    "_delta_log/00000.json": "log of another table format",
    ".hoodie/hoodie.properties": "log of another table format",
    "snapshot/snapshot-1": "log of another table format",
    "schema/schema-0": "log of another table format",
    "inner/metadata/00000-aa.metadata.json": "is metadata of a table, and this one has none in that folder",
    "data/v1.gz.metadata.json": "is metadata of a table, and this one has none in that folder",
}


def test_a_table_that_more_than_this_catalog_knows_is_refused_as_an_ingester_froze_a_pointer(
    spark: SparkSession,
) -> None:
    """mitodl/ol-data-platform#2336: the catalog had an old version, so that newer files looked like orphans."""
    table = MaintainedTable(spark)
    table.append(0, 3)
    table.append(3, 3)
    gone = orphan(table, "data/orphan.parquet")
    for name, message in REFUSED.items():
        newer = orphan(table, name)
        with pytest.raises(UnsupportedError, match=message):
            remove(table)
        newer.unlink()
    with pytest.raises(UnsupportedError, match=r"1 of \d+ files are orphans, .* max_share allows 5\.0%"):
        remove(table, max_share=0.05)
    assert gone.exists()
    manifest = next(path for path in files_of(table) if path.name.endswith("-m0.avro"))
    text = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(UnsupportedError, match="missing or broken"):
        remove(table)
    manifest.write_bytes(text)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('gc.enabled'='false')")
    assert remove(table).outcome is Outcome.SKIPPED
    assert gone.exists()


def test_a_table_that_another_catalog_has_too_and_left_behind_is_refused(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    table.append(0, 3)
    newest = table.handle.java.operations().current().metadataFileLocation()
    other = f"{table.name}_elsewhere"
    spark.sql(f"CALL lake_default.system.register_table('{other.removeprefix('lake_default.')}', '{newest}')")
    spark.sql(f"INSERT INTO {other} VALUES (8, 'south', 80)")
    first = files_of(table)
    spark.sql(f"INSERT INTO {other} VALUES (9, 'south', 90)")
    second = files_of(table) - first
    # Of another catalog, nobody sees the table.
    spark.sql(f"DROP TABLE {other}")
    for place in range(1, 5):
        table.append(place * 10, 3)
    made_old(table)
    before = files_of(table)
    with pytest.raises(UnsupportedError, match="neither is in this table's history"):
        remove(table, max_share=1)
    assert files_of(table) == before
    # One commit alone looks like a failed one.
    for path in second:
        path.unlink()
    assert remove(table, max_share=1).files_removed == 4
    assert table.rows_read() == table.rows


def test_partitions_whose_names_begin_with_an_underscore_are_not_hidden(spark: SparkSession) -> None:
    table = MaintainedTable(spark)
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD region AS _region")
    table.append(0, 3)
    made_old(table)
    kept, gone = orphan(table, "data/_other=1/x.parquet"), orphan(table, "data/_region=x/orphan.parquet")
    assert remove(table).files_removed == 1
    assert (kept.exists(), gone.exists()) == (True, False)
    assert table.rows_read() == table.rows


PATHS = [
    *("s3://b/t/data/x.parquet", "s3a://b//t/x", "/plain/a b", "file:/a/%20", "a%2520b/c", "hdfs://nn:8020/é/ü.avro"),
    *(
        "file:///t/_hidden/x",
        "x/_day=1/y",
        "x/_day",
        ".a",
        "a/.b=c/d",
        "k=%3A/_.x",
        "\U0001f600/😀😀.parquet",
        "s3:b/c",
    ),
]


def test_java_and_python_read_the_patterns_alike(spark: SparkSession) -> None:
    pattern = hidden(["_day", "plain", ".b"])
    rows = spark.createDataFrame(pa.table({"location": PATHS}))
    path = sf.regexp_replace(sf.regexp_replace("location", STORE, ""), SLASHES, "/")
    seen = rows.select("location", without_escapes(path), sf.col("location").rlike(pattern)).collect()
    assert [tuple(row) for row in seen] == [
        (path, file_key(path), re.search(pattern, path) is not None) for path in PATHS
    ]
    assert [path for path in PATHS if re.search(pattern, path)] == ["file:///t/_hidden/x", "x/_day", ".a", "k=%3A/_.x"]
