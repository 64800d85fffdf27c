"""An upsert of events that wrap a whole row: a query unwraps them. Shown on the page on envelopes."""

from __future__ import annotations

from airflow_lake_provider import Deduplicate, Files, Query, SchemaContract
from airflow_lake_provider.operators.upsert import LakeUpsertOperator

# [START operator]
EVENTS = "`table` STRING, op STRING, position BIGINT, `row` STRUCT<id: BIGINT, name: STRING>"

customers = LakeUpsertOperator(
    task_id="customers",
    table="shop.customers",
    source=Query(
        "SELECT `row`.*, op, position FROM source WHERE `table` = 'customers'",
        over=Files("s3a://in/customers/*.jsonl", format="json", schema=EVENTS),
    ),
    keys=["id"],
    order_by=["position"],
    delete_when="op = 'D'",
    merge_engine=Deduplicate(ignore_stale=True, deletes="soft"),
    schema_contract=SchemaContract(exclude_columns=["op"]),
)
# [END operator]
