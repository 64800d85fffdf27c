"""Commits that change what maintenance must leave as it is, made by Iceberg's own API, are told from its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from airflow_lake_provider.contracts.errors import BrokenInvariantError
from airflow_lake_provider.contracts.reports.job import Outcome
from airflow_lake_provider.iceberg.snapshot_retention import request_for
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance import expiry_commit
from airflow_lake_provider.spark_jobs.formats.iceberg.maintenance.committed_rewrites import (
    refuse_broken_invariants,
    refuse_lost_refs,
)
from airflow_lake_provider.spark_jobs.jvm.java_collections import JavaItems
from tests.spark.maintained_table import MaintainedTable
from tests.spark.maintenance_flow import compact, expire, expiry, with_three_appends


def test_a_rewrite_that_leaves_out_a_file_is_refused_and_names_the_snapshot_to_go_back_to(spark: SparkSession) -> None:
    table = with_three_appends(MaintainedTable(spark))
    handle, before = table.handle.refresh(), table.head()
    (file, *_) = JavaItems(spark, handle.java.currentSnapshot().addedDataFiles(handle.java.io()))
    handle.java.newRewrite().deleteFile(file).commit()

    with pytest.raises(BrokenInvariantError, match=r"10 rows fewer .* roll back to it") as refused:
        refuse_broken_invariants(handle.refresh(), {table.head()})
    assert f"snapshot {before}" in str(refused.value)


def test_the_tag_of_an_audit_is_not_lost_by_an_expiry(spark: SparkSession) -> None:
    table = with_three_appends(MaintainedTable(spark))
    table.create_tag("audit", table.head())
    handle, spec = table.handle.refresh(), expiry(table)
    now = datetime.now(UTC) + timedelta(minutes=1)
    planned = expiry_commit._by_age(handle, request_for(spec, handle.properties(), now), ())
    refuse_lost_refs(handle, planned, lambda: ())

    planned.manageSnapshots().removeTag("audit").commit()
    refuse_lost_refs(handle, planned, lambda: {"audit"})
    with pytest.raises(BrokenInvariantError, match="would remove or move audit, which are to stay"):
        refuse_lost_refs(handle, planned, lambda: ())
    assert expire(table).outcome is Outcome.DONE
    assert compact(table).outcome is Outcome.NOTHING_DUE
