"""Partitions of times without a zone, replaced beside files of an earlier spec."""

from __future__ import annotations

import pytest

from airflow_lake_provider.contracts.author.sources import Files
from airflow_lake_provider.contracts.errors import UnsupportedError
from tests.spark.overwrite_flow import overwrite
from tests.spark.upsert_flow import Flow


def test_days_of_times_without_a_zone_are_in_the_way_only_where_they_meet(flow: Flow) -> None:
    flow.catalog()
    columns = "id BIGINT, at TIMESTAMP_NTZ"
    flow.spark.sql(f"CREATE TABLE {flow.table} ({columns}) USING iceberg PARTITIONED BY (months(at))")
    flow.spark.sql(f"INSERT INTO {flow.table} VALUES (1, TIMESTAMP_NTZ '2026-11-30 23:59:59.999999')")
    flow.spark.sql(f"ALTER TABLE {flow.table} REPLACE PARTITION FIELD months(at) WITH days(at)")
    source = Files(path=f"{flow.inbox}/*.jsonl", format="json", schema=columns)
    flow.arrive("rows.jsonl", {"id": 2, "at": "2026-12-01T00:00:00"})
    overwrite(flow, "run 1", "", source=source)
    flow.arrive("rows.jsonl", {"id": 4, "at": "2026-12-01T00:00:00"}, {"id": 5, "at": "2026-12-02T00:00:00"})
    assert overwrite(flow, "run 2", "", source=source).rows_replaced == 1
    flow.arrive("rows.jsonl", {"id": 6, "at": "2026-11-30T00:00:00"})
    with pytest.raises(UnsupportedError, match="partition at_month=2026-11"):
        overwrite(flow, "run 3", "", source=source)
    assert sorted(row["id"] for row in flow.records()) == [1, 4, 5]
