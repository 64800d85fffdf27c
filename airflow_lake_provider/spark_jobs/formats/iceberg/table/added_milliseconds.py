"""Times in milliseconds, of files that were added to a table, are read by rows: Iceberg's vectors misread them."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing, suppress
from typing import Any

from pyspark.sql import SparkSession

from airflow_lake_provider.iceberg.foreign_times import TIMES, has_only_our_files_since, times_are_sure
from airflow_lake_provider.iceberg.metadata_facts import IcebergFacts
from airflow_lake_provider.spark_jobs.formats.iceberg.jvm.file_scan import table_at_snapshot
from airflow_lake_provider.spark_jobs.jvm.gateway import jvm_of, once_a_driver
from airflow_lake_provider.spark_jobs.jvm.java_errors import JavaError

# In vectors Iceberg takes milliseconds for microseconds where a dictionary has them (apache/iceberg#17135).
VECTORIZATION = "spark.sql.iceberg.vectorization.enabled"
# Option of a scan that nobody has looked at the files of.
BY_ROWS = {"vectorization-enabled": "false"}
# Milliseconds of the years 1 to 9999; taken for microseconds they are between January 1968 and January 1978.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999


def read_milliseconds_by_rows(spark: SparkSession, java: Any, facts: IcebergFacts, snapshot: str | None) -> None:
    """Let a session read by rows where a file of a snapshot may have such times.

    Bounds tell, as Iceberg has read these likewise. Only columns that are not nested are read in vectors.

    :param java: ``org.apache.iceberg.Table``.
    :param facts: of its metadata.
    :param snapshot: that is read next; None for none.
    """
    if snapshot is None or times_are_sure(facts.properties):
        return
    if str(spark.conf.get(VECTORIZATION, "true")).lower() == "false":
        return
    # A column that is new may be in files of before.
    without = _snapshots_without(spark)[facts.uuid, facts.shape.schema_id]
    if has_only_our_files_since(facts, snapshot, without):
        without.add(snapshot)
        return
    # Of a broken table whoever reads its rows is told so there.
    with suppress(JavaError):
        if _may_have_milliseconds(spark, java, facts, snapshot):
            spark.conf.set(VECTORIZATION, "false")
        else:
            without.add(snapshot)


@once_a_driver
def _snapshots_without(spark: SparkSession) -> defaultdict[tuple[str, int], set[str]]:  # noqa: ARG001  # its driver is meant
    """Return the snapshots that no task has to look at again, by table and schema."""
    return defaultdict(set)


def _may_have_milliseconds(spark: SparkSession, java: Any, facts: IcebergFacts, snapshot: str) -> bool:
    at = facts.snapshots.get(snapshot)
    if at is None:
        return True
    now = facts.shape.schema()["fields"]
    then = facts.shape.schema(at.schema_id)["fields"]
    times = {field["id"] for field in (*now, *then) if str(field["type"]) in TIMES}
    names = {field["id"]: field["name"] for field in now if field["id"] in times}
    if len(names) < len(times):
        # Nobody can ask for the bounds of a column that was dropped.
        return True
    expressions = jvm_of(spark).org.apache.iceberg.expressions.Expressions
    suspect = expressions.alwaysFalse()
    for name in names.values():
        behind, before = expressions.greaterThanOrEqual(name, _FIRST), expressions.lessThanOrEqual(name, _LAST)
        suspect = getattr(expressions, "or")(suspect, getattr(expressions, "and")(behind, before))
    # A filter means the names of now.
    scan = table_at_snapshot(spark, java, int(snapshot)).newScan() if then != now else java.newScan()
    with closing(scan.useSnapshot(int(snapshot)).filter(suspect).planFiles()) as files:
        return bool(files.iterator().hasNext())
