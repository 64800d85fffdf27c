"""The runner ``auto`` is Arrow where executors have what its Python workers need."""

from __future__ import annotations

import importlib
import sys
import zipimport
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.author.maintenance_policy import CompactionRunner
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files import executors
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.executors import (
    container_obstacle,
    worker_obstacle,
)
from airflow_lake_provider.spark_jobs.formats.iceberg.arrow_files.open_files import TableFiles
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow import rewrite_groups
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.arrow.rewrite_split import rewrite_splits
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.rewrite_data_files import newest_job
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact, with_six_files_and_deletes


@pytest.mark.parametrize("most_in_driver", [0, rewrite_groups.MOST_BYTES_IN_DRIVER], ids=["workers", "driver"])
def test_arrow_rewrites_where_no_runner_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most_in_driver: int
) -> None:
    monkeypatch.setattr(rewrite_groups, "MOST_BYTES_IN_DRIVER", most_in_driver)
    table = with_six_files_and_deletes(MaintainedTable(spark))
    report = compact(table)
    assert (report.outcome, report.left_to_spark) == (Outcome.DONE, {})
    assert report.groups_by_arrow == report.groups_rewritten > 0
    assert table.rows_read() == table.rows == table.rows_in_data_files()


def test_small_files_of_one_machine_need_neither_a_python_worker_nor_a_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = with_six_files_and_deletes(MaintainedTable(spark))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "nowhere"))
    last_job = newest_job(spark)
    report = compact(table)
    assert newest_job(spark) == last_job
    assert report.groups_by_arrow == report.groups_rewritten > 0
    assert table.rows_read() == table.rows == table.rows_in_data_files()


@pytest.mark.parametrize("runner", [CompactionRunner.AUTO, CompactionRunner.ARROW])
def test_a_machine_without_memory_leaves_files_to_spark_unless_arrow_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, runner: CompactionRunner
) -> None:
    monkeypatch.setattr(executors, "MEMORY_OF_A_TASK", 1 << 30)
    table = with_six_files_and_deletes(MaintainedTable(spark))
    report = compact(table, runner=runner)
    assert report.outcome is Outcome.DONE
    if runner is CompactionRunner.ARROW:
        assert report.groups_by_arrow == report.groups_rewritten
    else:
        assert report.groups_by_arrow == 0
        assert [reason.partition(" than ")[0] for reason in report.left_to_spark] == ["a machine has less memory left"]
    assert table.rows_read() == table.rows


TOO_SMALL = "executors have {:,} MiB beside the heap, and Python workers of {} tasks may need {:,}"


@pytest.mark.parametrize(
    ("settings", "obstacle"),
    [
        ({}, TOO_SMALL.format(384, 1, 700)),
        ({"spark.executor.memory": "8g"}, None),
        ({"spark.executor.memory": "8g", "spark.executor.cores": "4"}, TOO_SMALL.format(819, 4, 2800)),
        ({"spark.executor.memory": "8g", "spark.executor.cores": "4", "spark.task.cpus": "4"}, None),
        ({"spark.executor.memoryOverhead": "3g", "spark.executor.cores": "4"}, None),
        ({"spark.executor.memoryOverhead": "699"}, TOO_SMALL.format(699, 1, 700)),
        ({"spark.executor.memory": "2g", "spark.executor.memoryOverheadFactor": "0.4"}, None),
        ({"spark.executor.memory": "2g", "spark.kubernetes.memoryOverheadFactor": "0.4"}, None),
        ({"spark.executor.minMemoryOverhead": "700m"}, None),
        ({"spark.executor.pyspark.memory": "4g"}, "spark.executor.pyspark.memory bounds the address space"),
    ],
)
def test_containers_need_memory_beside_the_heap(
    spark: SparkSession, settings: dict[str, str], obstacle: str | None
) -> None:
    conf = jvm_of(spark).org.apache.spark.SparkConf(False)
    for name, value in settings.items():
        conf.set(name, value)
    refused = container_obstacle(conf)
    assert refused is None if obstacle is None else str(refused).startswith(obstacle), refused


def ask_workers_of(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, python: Path) -> str | None:
    """Ask the Python of an executor what is in the way, as the first compaction of a driver does."""
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    refusal: str | None = worker_obstacle.__wrapped__(spark)  # type: ignore[attr-defined]  # what it keeps for a driver
    return refusal


def test_executors_without_pyarrow_are_an_obstacle(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError(\"No module named 'pyarrow'\")\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert ask_workers_of(spark, monkeypatch, python) == (
        "Python workers do not load what they need: ModuleNotFoundError: No module named 'pyarrow'"
    )


def test_executors_without_python_are_an_obstacle(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusal = ask_workers_of(spark, monkeypatch, tmp_path / "nowhere")
    assert str(refusal).startswith("Python workers do not start: IOException")


def test_a_worker_that_has_rewritten_files_reads_no_directory_of_an_archive_again(spark: SparkSession) -> None:
    """Spark invalidates the caches of all importers before each task; ``pyspark.zip`` has some 4,000 entries."""

    def read_again(_: object) -> list[str]:
        # Which of the workers a later task gets is chance.
        assert list(rewrite_splits((), TableFiles())) == []
        read: list[str] = []
        real = vars(zipimport)["_read_directory"]

        def counted(archive: str) -> Any:
            read.append(archive)
            return real(archive)

        vars(zipimport)["_read_directory"] = counted
        importlib.invalidate_caches()
        vars(zipimport)["_read_directory"] = real
        return read

    assert spark.sparkContext.parallelize([0], 1).flatMap(read_again).collect() == []
