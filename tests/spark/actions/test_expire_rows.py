"""Rows that are too old by a column of time: files go whole where bounds or partitions tell, else rows are deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.jvm.java_collections import guava
from tests.spark.equality_delete import delete_by_equality
from tests.spark.maintained_table import MaintainedTable
from tests.spark.row_change_flow import expire_old_rows, row_expiry, summary

TODAY = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
SQL_TYPES = {"date": "DATE", "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}
# Each file: the ages of its rows in days; None is a row without a value.
FILES: list[list[float | None]] = [[90, 80], [40, 31.9, 10], [29, 5], [60, None], [0.5]]


@dataclass
class AgedTable(MaintainedTable):
    """A table whose rows have an age, and its rows in plain Python: id to value.

    :param kind: type of the column ``day``.
    :param partition: terms of its partition spec.
    """

    kind: str = "date"
    partition: str = ""
    modes: str = "merge-on-read"
    aged: dict[int, Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"maintained.aged_{uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake_default.maintained")
        partition = f"PARTITIONED BY ({self.partition})" if self.partition else ""
        properties = {
            "format-version": str(self.version),
            "write.delete.mode": self.modes,
            # Each insert is one file of its rows, whatever partitions they are in.
            "write.distribution-mode": "none",
            "write.spark.fanout.enabled": "true",
            **self.properties,
        }
        listed = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        self.spark.sql(
            f"CREATE TABLE {self.name} (id BIGINT, day {SQL_TYPES[self.kind]}) USING iceberg {partition} "
            f"TBLPROPERTIES ({listed})"
        )

    def add(self, ages: list[float | None]) -> None:
        values = []
        for age in ages:
            id_ = len(self.aged)
            self.aged[id_] = self.value(age)
            text = "NULL" if age is None else f"'{self.moment(age).isoformat()}'"
            values.append(f"({id_}L, CAST({text} AS {SQL_TYPES[self.kind]}))")
        self.spark.sql(f"INSERT INTO {self.name} SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(values)}")

    def moment(self, age: float) -> datetime:
        moment = TODAY - timedelta(days=age)
        return moment if self.kind == "timestamptz" else moment.replace(tzinfo=None)

    def value(self, age: float | None) -> Any:
        if age is None:
            return None
        return self.moment(age).date() if self.kind == "date" else self.moment(age)

    def kept(self, cutoff: str) -> dict[int, Any]:
        """Rows that are not too old, by Python's own order of times."""
        limit: Any = date.fromisoformat(cutoff) if self.kind == "date" else datetime.fromisoformat(cutoff)
        return {id_: value for id_, value in self.aged.items() if value is None or value >= limit}

    def rows_outside(self) -> dict[int, Any]:
        found = self.records()
        rows = {row["id"]: row["day"] for row in found}
        assert len(rows) == len(found)
        return rows


def aged(spark: SparkSession, **given: Any) -> AgedTable:
    table = AgedTable(spark, **given)
    for ages in FILES:
        table.add(ages)
    return table


CASES: dict[str, tuple[dict[str, Any], int]] = {
    "dates, version 2": ({"version": 2}, 1),
    "timestamps, by day": ({"kind": "timestamptz", "partition": "days(day)"}, 5),
    "local timestamps, by month": ({"kind": "timestamp", "partition": "months(day)"}, 0),
    "dates, by copy": ({"modes": "copy-on-write", "version": 2}, 1),
    "dates in ORC": ({"properties": {"write.format.default": "orc"}}, 1),
    "dates without bounds": ({"properties": {"write.metadata.metrics.default": "none"}}, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_old_rows_go_and_others_stay_whatever_type_partition_and_format_they_are_of(
    spark: SparkSession, case: str
) -> None:
    given, least_whole = CASES[case]
    table = aged(spark, **given)
    planned = table.on_worker().plan_row_expiry(row_expiry(table))

    report = expire_old_rows(table)

    assert report.expired_before is not None
    kept = table.kept(report.expired_before)
    assert (planned.outcome, report.outcome) == (Outcome.PLANNED, Outcome.APPLIED)
    assert planned.expired_before == report.expired_before
    assert table.rows_outside() == kept
    gone = len(table.aged) - len(kept)
    assert report.rows_deleted == gone == 5
    assert (planned.rows_deleted or 0) >= gone
    assert report.files_removed >= least_whole
    if "bounds" not in case:
        assert report.files_removed >= planned.files_removed
    again = expire_old_rows(table, "run 2")
    assert (again.outcome, again.committed) == (Outcome.NOTHING_NEW, ())
    assert table.on_worker().plan_row_expiry(row_expiry(table)).outcome is Outcome.NOTHING_NEW
    table.add([70])
    assert table.on_worker().plan_row_expiry(row_expiry(table)).files_removed == ("bounds" not in case)


def test_a_row_without_a_value_stays_where_a_writer_counted_no_nulls_of_its_column(spark: SparkSession) -> None:
    table = AgedTable(spark)
    table.add([90, None])
    java, library = table.handle.java, guava(spark)
    file = library.collect.Lists.newArrayList(java.newScan().includeColumnStats().planFiles()).get(0).file()
    # Bounds of each column, and nulls of the first alone.
    nulls = library.collect.Maps.filterKeys(file.nullValueCounts(), library.base.Predicates.equalTo(1))
    counts = (file.recordCount(), file.columnSizes(), file.valueCounts(), nulls, file.nanValueCounts())
    iceberg = table.handle.iceberg
    metrics = iceberg.Metrics(*counts, file.lowerBounds(), file.upperBounds())
    java.newDelete().deleteFile(file).commit()
    java.newAppend().appendFile(iceberg.DataFiles.builder(java.spec()).copy(file).withMetrics(metrics).build()).commit()
    assert table.on_worker().plan_row_expiry(row_expiry(table)).files_removed == 0

    report = expire_old_rows(table)

    assert (report.rows_deleted, report.files_removed) == (1, 0)
    assert list(table.rows_outside().values()) == [None]


def test_whole_partitions_go_without_a_spark_job_and_a_retry_is_recognised(spark: SparkSession) -> None:
    table = AgedTable(spark, partition="days(day)", kind="timestamptz")
    table.add([90, 80, 5])
    table.spark.sql(f"DELETE FROM {table.name} WHERE id = 0")
    del table.aged[0]
    spark.sparkContext.setJobGroup("aged", "aged")
    report = expire_old_rows(table)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("aged")
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert list(jobs) == []
    assert (report.outcome, report.rows_deleted, report.files_changed) == (Outcome.APPLIED, 1, 0)
    assert table.rows_outside() == {2: table.aged[2]}
    assert summary(table)["operation"] == "delete"
    table.add([60])
    again = expire_old_rows(table)
    assert (again.outcome, again.committed, again.rows_deleted) == (Outcome.ALREADY_APPLIED, report.committed, 1)


def test_rows_that_equality_deletes_hide_do_not_come_back_where_their_file_is_written_anew(spark: SparkSession) -> None:
    """apache/iceberg#12467: a delete by copy dropped the equality deletes that were pending on its files."""
    table = AgedTable(spark, modes="copy-on-write", version=2)
    table.add([90, 5, 4])
    delete_by_equality(spark, table.handle.refresh().java, [1])
    assert expire_old_rows(table).rows_deleted == 1
    spark.sql(f"REFRESH TABLE {table.name}")
    assert [row.id for row in spark.sql(f"SELECT id FROM {table.name}").collect()] == [2]


def test_a_cap_on_the_share_refuses_what_would_empty_the_table(spark: SparkSession) -> None:
    table = AgedTable(spark)
    table.add([90, 80, 70, 1])
    head = table.head()
    with pytest.raises(UnsupportedError, match=r"3 rows match, and max_share lets at most 2 go"):
        expire_old_rows(table, max_share=0.5)
    assert table.head() == head
    assert "more than max_share=0.5 would be refused" in (
        table.on_worker().plan_row_expiry(row_expiry(table, max_share=0.5)).reason
    )
