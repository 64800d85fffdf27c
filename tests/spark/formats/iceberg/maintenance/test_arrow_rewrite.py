"""File groups that Arrow rewrites are what Spark's own rewrite makes of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionLevel, CompactionRunner
from airflow_lake_provider.contracts.errors import LakeProviderError, UnsupportedError
from airflow_lake_provider.contracts.reports.job import CompactionReport, Outcome
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.s3_access import table_files
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import chosen_groups
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import rewrite_groups
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.commit_groups import GroupCommit
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import rewrite_split
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.equality_delete import delete_by_equality
from tests.spark.formats.iceberg.maintenance.twin_tables import Twins
from tests.spark.maintained_table import MaintainedTable, ProgressThatRuns
from tests.spark.maintenance_flow import compact, with_six_files_and_deletes

COLUMNS = "id BIGINT NOT NULL, name STRING, price DOUBLE, day DATE, amount DECIMAL(12, 2), tags ARRAY<STRING>"
ROWS = (
    "SELECT id, IF(id % 7 = 0, NULL, concat('n', id % 50)) name, IF(id % 11 = 0, double('NaN'), id / 3) price,"
    " date_add(date'2026-01-01', int(id % 30)) day, cast(id AS DECIMAL(12, 2)) amount,"
    " IF(id % 5 = 0, array(), array('a', NULL, concat('t', id))) tags FROM range({first}, {end})"
)


def twins(spark: SparkSession, version: int, partition: str = "") -> Twins:
    both = Twins(spark, COLUMNS, version=version, partition=partition)
    for first in range(0, 600, 100):
        both.append(spark.sql(ROWS.format(first=first, end=first + 100)))
    return both


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partition", ["", "PARTITIONED BY (bucket(2, id), day)"], ids=["whole", "partitioned"])
def test_rows_and_metadata_are_those_of_sparks_rewrite(spark: SparkSession, version: int, partition: str) -> None:
    both = twins(spark, version, partition)
    both.run("DELETE FROM {} WHERE id % 10 = 3")
    both.run("UPDATE {} SET name = 'changed' WHERE id % 20 = 4")

    report = both.compact()

    assert (report.outcome, report.left_to_spark) == (Outcome.DONE, {})
    assert report.groups_by_arrow == report.groups_rewritten > 0
    ours, theirs = both.names
    assert both.rows(ours) == both.rows(theirs)
    assert both.data_files(ours) == both.data_files(theirs)


def test_large_files_are_cut_where_spark_cuts_them(spark: SparkSession) -> None:
    """A part of a file begins in the middle of its positions: row ids and deletes are those of the file."""
    small = {"write.parquet.row-group-size-bytes": "20000", "write.parquet.row-group-check-max-record-count": "500"}
    both = Twins(spark, "id BIGINT, mark BIGINT", version=3, properties=small)
    both.append(spark.sql("SELECT id, xxhash64(id) mark FROM range(0, 80000, 1, 2)"), files=2)
    both.run("DELETE FROM {} WHERE id % 977 = 3")

    report = both.compact(target_file_size=100_000)

    ours, theirs = both.names
    assert (report.files_rewritten, report.groups_by_arrow, report.groups_rewritten) == (2, 1, 1)
    assert len(both.live_files(ours)) > 4
    assert both.data_files(ours) == both.data_files(theirs)
    assert both.rows(ours) == both.rows(theirs)


def test_a_table_that_arrow_has_rewritten_is_rewritten_again(spark: SparkSession) -> None:
    both = twins(spark, 3)
    for number in (1, 2):
        both.run(f"UPDATE {{}} SET name = 'changed {number}' WHERE id % 20 = {number}")
        both.run(f"DELETE FROM {{}} WHERE id % 10 = {number + 5}")
        assert both.compact().groups_by_arrow == 1
        ours, theirs = both.names
        assert both.rows(ours) == both.rows(theirs)
        assert both.data_files(ours) == both.data_files(theirs)
        both.append(spark.sql(ROWS.format(first=number * 1000, end=number * 1000 + 50)))


def test_columns_beyond_those_that_have_metrics_have_none(spark: SparkSession) -> None:
    columns = [f"c{place}" for place in range(120)]
    both = Twins(spark, ", ".join(f"{name} DOUBLE" for name in columns), version=2)
    for first in (0, 10):
        values = ", ".join(f"double(id + {place}) AS {name}" for place, name in enumerate(columns))
        both.append(spark.sql(f"SELECT {values} FROM range({first}, {first + 10})"))

    assert both.compact().groups_by_arrow == 1

    ours, theirs = both.names
    assert both.data_files(ours) == both.data_files(theirs)
    assert len(both.data_files(ours)[0]["lower-bounds"]) == 100


def by_arrow(table: MaintainedTable, progress: Progress | None = None, **arguments: Any) -> CompactionReport:
    return compact(table, progress, **{"level": CompactionLevel.FULL, "runner": CompactionRunner.ARROW, **arguments})


def assert_no_file_is_left(table: MaintainedTable) -> None:
    """Every file in the table's folder is one that a snapshot names."""
    files = table.outside().inspect.all_files()["file_path"].to_pylist()
    assert table.files_on_disk() <= {Path(path.removeprefix("file:")) for path in files}


def test_a_group_with_equality_deletes_is_left_to_spark(spark: SparkSession) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, version=2))
    delete_by_equality(spark, table.handle.java, [20])
    table.rows.pop(20)

    report = by_arrow(table)

    assert (report.outcome, report.groups_by_arrow) == (Outcome.DONE, 0)
    assert report.left_to_spark == {"equality deletes lie on files": 1}
    assert table.rows_read() == table.rows == table.rows_in_data_files()


def test_files_of_an_older_partition_spec_are_left_to_spark(spark: SparkSession) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))
    spark.sql(f"ALTER TABLE {table.name} ADD PARTITION FIELD region")
    lineage = table.lineage()

    report = by_arrow(table)

    assert (report.outcome, report.groups_by_arrow) == (Outcome.DONE, 0)
    assert report.left_to_spark == {"files are of an older partition spec": 1}
    assert table.lineage() == lineage


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"write.parquet.bloom-filter-enabled.column.id": "true"}, "bloom-filter-enabled.column.id' is for the Java"),
        ({"write.parquet.compression-codec": "lz4"}, "compression-codec' is lz4"),
        ({"write.parquet.page-version": "v2"}, "page-version' is v2"),
        ({"parquet.enable.dictionary": "false"}, "'parquet.enable.dictionary' is for the Java writer"),
        ({"write.format.default": "orc"}, "new files are orc"),
    ],
    ids=["bloom filter", "codec", "page version", "parquet property", "format"],
)
def test_a_property_that_arrow_does_not_follow_leaves_the_table_to_spark(
    spark: SparkSession, properties: dict[str, str], reason: str
) -> None:
    table = MaintainedTable(spark)
    for first in (0, 100):
        table.append(first, 100)
    listed = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({listed})")

    report = by_arrow(table)

    assert (report.outcome, report.groups_rewritten, report.groups_by_arrow) == (Outcome.DONE, 1, 0)
    assert reason in next(iter(report.left_to_spark))
    assert table.rows_read() == table.rows


def test_imported_files_without_field_ids_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = MaintainedTable(spark)
    table.append(0, 100)
    imported = pa.table({"id": range(100, 200), "region": ["north"] * 100, "amount": range(1000, 2000, 10)})
    pq.write_table(imported, tmp_path / "imported.parquet")
    spark.sql(f"CALL system.add_files('{table.name}', '`parquet`.`{tmp_path}`')")
    table.rows.update({id_: ("north", id_ * 10) for id_ in range(100, 200)})

    report = by_arrow(table)

    assert (report.outcome, report.groups_by_arrow) == (Outcome.DONE, 0)
    assert "without a field id" in next(iter(report.left_to_spark))
    assert table.rows_read() == table.rows
    assert_no_file_is_left(table)


def test_files_that_another_class_opens_are_left_to_spark(spark: SparkSession) -> None:
    table = MaintainedTable(spark, properties={"write.data.path": "s3://lake/orders"})
    with pytest.raises(UnsupportedError, match="files of s3: are opened by HadoopFileIO"):
        table_files(table.handle)


def test_values_too_long_for_the_footer_have_no_bounds_that_a_reader_could_trust(spark: SparkSession) -> None:
    """Of several row groups, Iceberg would take the bounds of those that have some for the bounds of the file."""
    table = MaintainedTable(spark, properties={"write.parquet.row-group-size-bytes": "500"})
    table.append(0, 3000, region="m")
    table.append(3000, 1, region="z" * 6000)

    report = by_arrow(table)

    assert report.groups_by_arrow == 1
    (file,) = [Path(path.removeprefix("file:")) for path in table.live_files()]
    assert pq.read_metadata(file).num_row_groups > 1
    assert spark.sql(f"SELECT id FROM {table.name} WHERE region > 'y'").collect()[0].id == 3000


@pytest.mark.parametrize("partial_progress", [True, False])
def test_a_writer_who_rewrites_files_meanwhile_wins_and_no_file_of_the_lost_group_stays(
    spark: SparkSession, partial_progress: bool
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))
    procedure = f"CALL system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    progress = ProgressThatRuns("rewrite", lambda: table.other_session().sql(procedure).collect().clear())

    report = by_arrow(table, progress, partial_progress=partial_progress)

    assert (report.outcome, report.attempts) == (Outcome.DONE, 2)
    assert report.groups_by_arrow == report.groups_rewritten == 1
    assert table.rows_read() == table.rows == table.rows_in_data_files()
    assert_no_file_is_left(table)


def test_a_python_worker_that_dies_leaves_its_groups_to_spark_and_no_file(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, partitioned=True))
    lineage = table.lineage()

    def dying(splits: Any, _: Any) -> Any:
        for split in splits:
            Path(f"{split.stem.removeprefix('file:')}-0-00000.parquet").write_bytes(b"PAR1")
            os._exit(1)

    monkeypatch.setattr(rewrite_groups, "rewrite_splits", dying)
    monkeypatch.setattr(rewrite_groups, "MOST_BYTES_IN_DRIVER", 0)
    report = by_arrow(table)

    assert (report.outcome, report.groups_by_arrow) == (Outcome.DONE, 0)
    assert sum(report.left_to_spark.values()) == report.groups_rewritten > 1
    assert next(iter(report.left_to_spark)).startswith("the job failed: SparkException: Python worker exited")
    assert table.lineage() == lineage
    assert table.rows_read() == table.rows
    assert_no_file_is_left(table)


@contextmanager
def a_broken_file(table: MaintainedTable) -> Iterator[None]:
    """Let the end of a data file of the north be none of Parquet."""
    path = next(Path(path.removeprefix("file:")) for path in table.live_files() if "region=north" in path)
    content = path.read_bytes()
    path.write_bytes(content[:-4] + b"PARX")
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    yield
    path.write_bytes(content)


def test_a_group_that_fails_is_left_to_spark_and_the_others_are_not(spark: SparkSession) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark, partitioned=True))

    with a_broken_file(table):
        report = by_arrow(table, max_attempts=1)

    assert (report.failed_groups, report.groups_by_arrow, report.groups_rewritten) == (1, 1, 1)
    assert sum(report.left_to_spark.values()) == 1
    assert table.rows_read() == table.rows
    assert_no_file_is_left(table)


@pytest.mark.parametrize("is_mixed", [True, False], ids=["Spark rewrites a group", "Arrow rewrites all"])
def test_files_of_arrow_go_where_something_fails_before_their_commit(
    spark: SparkSession, is_mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's action deletes files of groups that it has begun with, and knows of no others."""
    table = with_six_files_and_deletes(MaintainedTable(spark, partitioned=True))
    head, lost, reasons = table.head(), rewrite_groups._lost, iter(["left to Spark"] if is_mixed else [])

    def failing(*_: Any) -> Any:
        return jvm_of(spark).java.util.Objects.requireNonNull(None)

    monkeypatch.setattr(rewrite_groups, "_lost", lambda *given: next(reasons, lost(*given)))
    if is_mixed:
        monkeypatch.setattr(chosen_groups._PrivateMethods, "plan_of", failing)
    else:
        monkeypatch.setattr(GroupCommit, "_replace", failing)
    with pytest.raises(LakeProviderError):
        by_arrow(table, max_attempts=1)

    assert table.head() == head
    assert table.rows_read() == table.rows
    assert_no_file_is_left(table)


def test_rows_of_the_metadata_that_no_file_has_leave_the_group_to_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))

    def losing(splits: Any, files: Any) -> Any:
        for split in splits:
            yield rewrite_split(replace(split, parts=split.parts[1:]), files)

    monkeypatch.setattr(rewrite_groups, "rewrite_splits", losing)
    report = by_arrow(table)

    assert report.left_to_spark == {"its files have not the rows that the metadata says": 1}
    assert table.rows_read() == table.rows
    assert_no_file_is_left(table)
