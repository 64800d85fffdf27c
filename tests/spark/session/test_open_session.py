"""The driver's session has its settings, whatever the cluster's defaults say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import InvalidSpecError
from airflow_lake_provider.spark_jobs.jvm.gateway import submitted_settings
from airflow_lake_provider.spark_jobs.session.open_session import (
    fit_session,
    open_session,
    refuse_unreadable,
    settings_at_start,
)

CODE_CACHE = "spark.sql.codegen.cache.maxEntries"
COMPRESSED = "spark.sql.inMemoryColumnarStorage.compressed"
LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def test_a_number_that_does_not_fit_is_an_error_whatever_the_cluster_says(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    session, _ = open_session()
    assert session.conf.get("spark.sql.ansi.enabled") == "true"
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.parametrize(("asked", "found"), [(None, "false"), ("true", "true")])
def test_a_cached_batch_is_not_compressed_unless_somebody_asks_for_it(
    spark: SparkSession, asked: str | None, found: str
) -> None:
    submitted = SparkConf(loadDefaults=False)
    if asked is not None:
        submitted.set(COMPRESSED, asked)
    session = spark.newSession()
    session.conf.set(COMPRESSED, "true")
    fit_session(session, submitted)
    assert session.conf.get(COMPRESSED) == found


@pytest.mark.parametrize(("asked", "jobs"), [(None, 2), ("50", 50)])
def test_many_files_are_listed_by_as_many_tasks_as_there_are_cores_unless_somebody_asks_for_more(
    spark: SparkSession, tmp_path: Path, asked: str | None, jobs: int
) -> None:
    submitted = SparkConf(loadDefaults=False)
    if asked is not None:
        submitted.set(LISTING, asked)
    session = spark.newSession()
    if asked is not None:
        session.conf.set(LISTING, asked)
    fit_session(session, submitted)
    paths = [tmp_path / f"{number}.txt" for number in range(60)]
    for path in paths:
        path.write_text("a")
    session.sparkContext.setJobGroup(tmp_path.name, "listing")
    assert session.read.text([str(path) for path in paths]).inputFiles()
    session.sparkContext._jsc.clearJobGroup()
    tracker = session.sparkContext.statusTracker()
    (job,) = tracker.getJobIdsForGroup(tmp_path.name)
    info = tracker.getJobInfo(job)
    assert info is not None
    (stage,) = (tracker.getStageInfo(each) for each in info.stageIds)
    assert stage is not None
    assert stage.numTasks == jobs


def test_a_session_keeps_the_code_of_many_tables_unless_somebody_asks_otherwise(spark: SparkSession) -> None:
    submitted = SparkConf(loadDefaults=False)
    assert settings_at_start(submitted)[CODE_CACHE] == "1000"
    submitted.set(CODE_CACHE, "50")
    assert CODE_CACHE not in settings_at_start(submitted)


def test_a_task_without_memory_does_not_end_a_driver_that_runs_it_itself() -> None:
    for master, found in (("local[2]", "0"), ("yarn", None)):
        submitted = SparkConf(loadDefaults=False).set("spark.master", master)
        assert settings_at_start(submitted).get("spark.executor.killOnFatalError.depth") == found


@pytest.mark.usefixtures("spark")
def test_what_was_submitted_is_known_before_there_is_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    jvm = SparkContext._jvm
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda: monkeypatch.setattr(SparkContext, "_jvm", jvm))
    assert submitted_settings().contains("spark.submit.deployMode")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.shuffle.partitions", "many"),
        ("spark.sql.shuffle.partitions", "0"),
        ("spark.sql.adaptive.enabled", "yes"),
        ("spark.sql.autoBroadcastJoinThreshold", "10 cows"),
        ("spark.sql.session.timeZone", "Mars/Olympus"),
    ],
)
def test_a_setting_that_spark_cannot_read_is_refused_by_name_before_there_is_a_session(
    spark: SparkSession, name: str, value: str
) -> None:
    given = [("spark.app.name", "a"), ("spark.sql.catalog.lake.uri", "x"), ("spark.sql.warehouse.dir", "")]
    refuse_unreadable(spark.sparkContext, given)
    with pytest.raises(InvalidSpecError, match=f"cannot read: {name}: .*Correct them in conf") as refused:
        refuse_unreadable(spark.sparkContext, [*given, (name, value)])
    assert value in str(refused.value)
    assert "\n" not in str(refused.value)
