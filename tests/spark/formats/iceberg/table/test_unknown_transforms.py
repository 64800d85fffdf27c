"""Tables that a later writer has partitioned by what this Iceberg does not know."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import UnsupportedError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.spark_jobs.actions.upsert_batch import upsert_batch
from airflow_lake_provider.spark_jobs.progress import Progress
from tests.spark.hostile_tables import write_metadata
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact, expire, remove_orphans, rewrite_manifests
from tests.spark.row_change_flow import delete, update
from tests.spark.upsert_flow import Flow, row


@pytest.mark.parametrize("is_current", [True, False])
def test_what_reads_partitions_is_refused_by_name_and_no_retry_helps(
    spark: SparkSession, flow: Flow, is_current: bool
) -> None:
    table = MaintainedTable(spark)
    for first in (0, 10):
        table.append(first, 10)
    field = {"source-id": 1, "field-id": 1000, "name": "place", "transform": "zorder[3]"}
    newer = {"last-partition-id": 1000, "default-spec-id": int(is_current)}
    write_metadata(
        table,
        lambda old: old.update(
            {**newer, "partition-specs": [*old["partition-specs"], {"spec-id": 1, "fields": [field]}]}
        ),
    )
    flow.arrive("1.jsonl", row(1, "a"))
    spec = flow.spec(table=table.name, strategy="merge", missing_columns="keep")
    attempts: list[Callable[[], object]] = [
        lambda: upsert_batch(spark, spec, Progress()),
        lambda: delete(table, where="id = 1"),
        lambda: update(table, where="id = 1", assignments={"amount": "1"}),
        lambda: compact(table),
        lambda: rewrite_manifests(table),
    ]
    for attempt in attempts:
        with pytest.raises(UnsupportedError, match=rf"{table.name}: .*place \(zorder\[3\]\)") as refused:
            attempt()
        assert not refused.value.retry_may_help
    skipped = remove_orphans(table)
    assert (skipped.outcome, "zorder" in skipped.reason) == (Outcome.SKIPPED, True)
    assert expire(table).outcome is Outcome.DONE
